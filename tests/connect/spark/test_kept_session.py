"""Spark of a service: killed with -9 it is started again, and nobody sees a stack of Java's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pyspark import SparkContext
from headrace.connect.spark.kept_session import KeptSession
from headrace.connect.spark.properties import SparkSettings
from headrace.site.engine.late_runner import EngineStarter, LateRunner
from tests.connect.spark.item_work import Job, perform

spark = KeptSession(SparkSettings(Path(sys.argv[1]), short_lived=True), perform)
with ThreadPoolExecutor(1) as starter:
    starting = starter.submit(spark.start)
    while SparkContext._gateway is None:
        time.sleep(0.001)
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
print(str(starting.exception()).split(" on Java")[0])
runner = LateRunner(EngineStarter("Spark", spark.start, spark.is_alive))
print(runner.run([Job("before", 1)])[0].value)
java = SparkContext._gateway.proc.pid
os.kill(java, signal.SIGKILL)
print(runner.run([Job("after", 2), Job("also", 3)])[1].value)
print(SparkContext._gateway.proc.pid != java)
(worker,) = runner.run([Job("worker", "process")])
print([outcome.value for outcome in runner.run([Job("good", 4), Job("crash", "crash")])])
print(runner.run([Job("crash", "crash")])[0].error.splitlines()[0])
runner.end()
spark.end()
"""


@pytest.mark.long
@pytest.mark.live
@pytest.mark.timeout(900)  # starts Spark three times
def test_a_spark_that_was_killed_is_started_again_in_the_same_process(tmp_path: Path):
    checkout = Path(__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, cwd=checkout)
    said = ran.stdout.splitlines()
    assert said[:5] == ["Spark did not start", "2", "6", "True", "[8, None]"], ran.stderr
    assert said[5:] == ["a Python worker of Spark ended in the middle of a job"]
    assert "Traceback" not in ran.stderr and "at org.apache" not in ran.stderr


STUCK = """
import os, signal, sys
from pathlib import Path
from headrace.connect.spark.kept_session import KeptSession
from headrace.connect.spark.properties import SparkSettings
from headrace.run.schedule.deadlines import Patience
from headrace.site.engine.late_runner import EngineStarter, LateRunner
from tests.connect.spark.item_work import Job, perform

spark = KeptSession(SparkSettings(Path(sys.argv[1]), memory="512m", short_lived=True), perform)
patience = Patience(least_s=5.0, answer_s=10.0, end_s=30.0)
ends = {"kill": spark.kill, "why_dead": spark.why_dead}
engine = EngineStarter("Spark", spark.start, spark.is_alive, patience=patience, **ends)
runner = LateRunner(engine)
runner.run([])
first = spark._java.pid
good, hang, other = runner.run([Job("good", 1), Job("hang", "hang"), Job("other", 2)])
print([good.value, hang.value, other.value], hang.name, hang.error, spark._java.pid == first)
os.kill(first, signal.SIGSTOP)
print(runner.run([Job("a", 1), Job("b", 2)])[1].value, spark._java.pid != first)
second = spark._java
try:
    spark._session.sql("SELECT collect_list(repeat('x', 1000000 + CAST(id AS INT))) FROM range(5000)").collect()
except Exception:
    second.wait(60)
print(spark.why_dead())
print(runner.run([Job("c", 3)])[0].value)
runner.end()
spark.end()
"""


@pytest.mark.long
@pytest.mark.live
@pytest.mark.timeout(900)  # starts Spark three times
def test_a_spark_with_an_item_that_hangs_or_that_stands_still_or_has_no_memory_answers_again(tmp_path: Path):
    checkout = Path(__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", STUCK, str(tmp_path)], capture_output=True, text=True, cwd=checkout)
    assert ran.stdout.splitlines() == [
        "[2, None, 4] hang it took longer than 5 s, and was ended True",
        "4 True",
        "its Java ran out of memory (512m of heap)",
        "6",
    ], ran.stderr


ENDED = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from headrace.connect.spark.kept_session import KeptSession
from headrace.connect.spark.properties import SparkSettings
from tests.connect.spark.item_work import perform

def left(scratch):
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(file.read_bytes())
        except OSError:
            continue
    return sum(str(scratch).encode() in command for command in commands)

for number, after_s in enumerate((0.0, 0.2, 1.0, 2.0)):
    scratch = Path(sys.argv[1], str(number))
    spark = KeptSession(SparkSettings(scratch, short_lived=True), perform)
    with ThreadPoolExecutor(1) as starter:
        starting = starter.submit(spark.start)
        threading.Event().wait(after_s)
        spark.end()
        print(starting.done(), left(scratch), type(starting.exception()).__name__)
"""


@pytest.mark.long
@pytest.mark.live
def test_a_spark_that_is_ended_while_it_starts_is_gone_when_that_returns(tmp_path: Path):
    checkout = Path(__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", ENDED, str(tmp_path)], capture_output=True, text=True, cwd=checkout)
    assert ran.stdout.splitlines() == ["True 0 ConnectError"] * 4, ran.stderr
