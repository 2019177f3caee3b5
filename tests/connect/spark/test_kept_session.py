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
from headrace.connect.spark.session import SparkSettings
from headrace.service.late_runner import Engine, LateRunner
from tests.connect.spark.item_work import Job, perform

spark = KeptSession(SparkSettings(Path(sys.argv[1]), short_lived=True), perform)
with ThreadPoolExecutor(1) as starter:
    starting = starter.submit(spark.start)
    while SparkContext._gateway is None:
        time.sleep(0.001)
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
print(str(starting.exception()).split(" on Java")[0])
runner = LateRunner(Engine("Spark", spark.start, spark.is_alive))
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


@pytest.mark.live
@pytest.mark.timeout(900)  # starts Spark three times
def test_a_spark_that_was_killed_is_started_again_in_the_same_process(tmp_path: Path):
    checkout = Path(__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, cwd=checkout)
    said = ran.stdout.splitlines()
    assert said[:5] == ["Spark did not start", "2", "6", "True", "[8, None]"], ran.stderr
    assert said[5:] == ["a Python worker of Spark ended in the middle of a job"]
    assert "Traceback" not in ran.stderr and "at org.apache" not in ran.stderr
