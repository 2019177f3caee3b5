"""Standing tasks: small items are done at once, whatever happens to a task is survived, and nobody else gets in."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.connect.spark.count_standing import Slots, count_standing
from headrace.connect.spark.properties import SparkSettings, spark_master
from headrace.connect.spark.signed_link import LENGTH, LinkBroken, SignedLink, greet_service, greet_task
from headrace.connect.spark.standing_task import own_bytes
from tests.connect.spark.item_work import Job, perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.connect.spark.standing import StandingTasks

SECRET = b"s" * 32


# Links


@contextmanager
def connect_pair(secret: bytes = SECRET) -> Iterator[tuple[SignedLink, SignedLink]]:
    """The service's side and the task's side; raises what the service does about a task that it refuses."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as other:
        greeting = other.submit(_greet, server)
        task = greet_service(server.getsockname()[:2], secret)
        try:
            service = greeting.result()
            yield service, task
            service.close()
        finally:
            task.close()


def _greet(server: socket.socket) -> SignedLink:
    connection, _ = server.accept()
    try:
        return greet_task(connection, SECRET)
    except BaseException:
        connection.close()
        raise


def test_messages_arrive_whole_and_in_order():
    with connect_pair() as (service, task):
        for message in (b"", b"a", b"x" * 3_000_000):
            sending = threading.Thread(target=service.send, args=(message,))
            sending.start()
            assert task.receive() == message
            sending.join()
            task.send(message[:5])
            assert service.receive() == message[:5]
        service.close()
        assert task.receive() is None


def test_a_stranger_who_does_not_know_the_secret_is_refused():
    with pytest.raises(LinkBroken, match="not signed"), connect_pair(b"another secret"):
        pass


def test_a_stranger_with_a_large_message_is_refused_before_it_is_read():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as stranger:
        stranger.sendall(b"n" * 16 + LENGTH.pack(1_000_000_000) + b"?" * 32)
        with pytest.raises(LinkBroken, match="of at most"):
            _greet(server)


def test_a_message_that_is_repeated_is_refused():
    with connect_pair() as (service, task):
        service.send(b"once")
        raw = task.connection.recv(1000, socket.MSG_PEEK)
        assert task.receive() == b"once"
        service.connection.sendall(raw)
        with pytest.raises(LinkBroken, match="not signed"):
            task.receive()


# How many


@pytest.mark.parametrize(
    ("master", "standing", "slots", "count"),
    [
        ("local[4]", 4, Slots(8, 1), 4),
        ("local[4]", 0, Slots(4, 1), 0),
        ("spark://here:1", None, Slots(12, 3), 9),
        ("spark://here:1", 4, Slots(12, 3), 4),
        ("spark://here:1", 20, Slots(12, 3), 9),
        ("spark://here:1", None, Slots(3, 3), 0),
        ("spark://here:1", None, Slots(12, 3, come_and_go=True), 2),
        ("spark://here:1", 5, Slots(12, 3, come_and_go=True), 5),
    ],
)
def test_a_slot_of_each_executor_stays_free(master: str, standing: int | None, slots: Slots, count: int):
    assert count_standing(SparkSettings(Path("x"), master=master, standing=standing), slots) == count


def test_a_local_master_has_slots_for_both():
    found = [spark_master(SparkSettings(Path("x"), master=master, standing=2)) for master in ("local", "local[3]")]
    assert found == ["local[3,4]", "local[5,4]"]
    assert spark_master(SparkSettings(Path("x"), master="spark://here:1", standing=2)) == "spark://here:1"


# Tasks


@pytest.fixture
def standing(spark: SparkSession) -> Iterator[StandingTasks[object]]:
    from headrace.connect.spark.standing import StandingTasks

    tasks = StandingTasks(spark, perform, lambda: 1)
    assert tasks.wait_until_there(60)
    yield tasks
    tasks.close()


def run(tasks: StandingTasks[object], *jobs: Job, name: str = "job") -> list[object]:
    outcomes = [one.result(60) for one in tasks.hand_in(name, list(enumerate(jobs)))]
    return [outcome.value if outcome.error is None else outcome.error.splitlines()[0] for outcome in outcomes]


@pytest.mark.live
def test_items_are_done_by_one_task_beside_jobs(standing: StandingTasks[object], spark: SparkSession):
    assert run(standing, *(Job(f"job {n}", n, weight=n % 7) for n in range(30))) == [2 * n for n in range(30)]
    (worker,) = run(standing, Job("a", "process"))
    assert run(standing, Job("b", "process")) == [worker] != [os.getpid()]
    assert spark.range(10).count() == 10
    assert run(standing, Job("bad", "fail"), Job("good", 1)) == ["ValueError: this one never works", 2]


@pytest.mark.live
def test_a_worker_that_ends_leaves_its_item_to_be_tried_again(standing: StandingTasks[object]):
    (crashed,) = (one.result(60) for one in standing.hand_in("job", [(0, Job("crash", "crash"))]))
    assert crashed.retryable and crashed.error == "a Python worker of Spark ended in the middle of a job"
    assert standing.wait_until_there(60)
    assert run(standing, Job("good", 1)) == [2]


@pytest.mark.live
def test_an_idle_worker_that_is_killed_is_replaced_without_a_word(standing: StandingTasks[object]):
    (worker,) = run(standing, Job("a", "process"))
    assert isinstance(worker, int)
    os.kill(worker, signal.SIGKILL)
    assert run(standing, Job("good", 1)) == [2]


@pytest.mark.live
def test_a_job_that_is_ended_gives_up_what_waits_and_what_hangs(standing: StandingTasks[object]):
    handed = standing.hand_in("hangs", [(0, Job("hang", "hang", weight=2)), (1, Job("waits", 1))])
    until = time.monotonic() + 60
    while not standing.in_work("hangs") and time.monotonic() < until:
        time.sleep(0.01)
    assert list(standing.in_work("hangs")) == [0] and standing.in_work("other") == {}
    standing.end_job("hangs")
    assert [(one.result(60).value, one.result().retryable) for one in handed] == [(None, True), (None, True)]
    assert standing.wait_until_there(60)
    assert run(standing, Job("good", 1)) == [2]


@pytest.mark.live
def test_an_item_that_never_lets_go_of_the_interpreter_ends_with_its_worker(spark: SparkSession, monkeypatch: Any):
    from headrace.connect.spark import standing as module

    monkeypatch.setattr(module, "GRACE_S", 0.0)
    tasks = module.StandingTasks(spark, perform, lambda: 1, limit_s=lambda _: 1.0)
    try:
        assert tasks.wait_until_there(60)
        assert run(tasks, Job("endless", "regular expression")) == [module.WORKER_ENDED]
    finally:
        tasks.close()


@pytest.mark.live
def test_a_worker_is_replaced_after_so_many_items(spark: SparkSession):
    from headrace.connect.spark.standing import StandingTasks

    tasks = StandingTasks(spark, perform, lambda: 1, most_items=2)
    try:
        assert tasks.wait_until_there(60)
        workers = [run(tasks, Job("a", "process"))[0] for _ in range(2)]
        assert workers[0] == workers[1]
        until = time.monotonic() + 60
        while not tasks.is_there() and time.monotonic() < until:
            time.sleep(0.01)
        (other,) = run(tasks, Job("b", "process"))
        assert isinstance(other, int) and other != workers[0]
    finally:
        tasks.close()


@pytest.mark.live
def test_without_a_task_items_are_given_back_at_once(standing: StandingTasks[object]):
    standing.close()
    until = time.monotonic() + 60
    while standing.is_there() and time.monotonic() < until:
        time.sleep(0.01)
    (given_up,) = standing.hand_in("job", [(0, Job("late", 1))])
    assert given_up.result(0).retryable


KEPT = """
import os, signal, sys
from pathlib import Path
from headrace.connect.spark.items import cores
from headrace.connect.spark.kept_session import KeptSession
from headrace.connect.spark.properties import SparkSettings
from headrace.run.schedule.deadlines import Patience
from headrace.site.engine.late_runner import EngineStarter, LateRunner
from headrace.connect.spark.standing_task import own_bytes
from tests.connect.spark.item_work import Job, perform

settings = SparkSettings(Path(sys.argv[1]), master="local[2]", standing=2, short_lived=True)
spark = KeptSession(settings, perform, is_small=lambda item: item.weight < 10)
patience = Patience(least_s=5.0, end_s=30.0)
ends = {"kill": spark.kill, "why_dead": spark.why_dead}
engine = EngineStarter("Spark", spark.start, spark.is_alive, patience=patience, **ends)
runner = LateRunner(engine)
runner.run([])
print(cores(spark._session), len(spark._standing._links))
print([one.value for one in runner.run([Job("small", 1), Job("large", 2, weight=99), Job("small", 3)])])
print([one.value for one in runner.run([Job("good", 4), Job("crash", "crash")])])
good, hang = runner.run([Job("good", 4), Job("hang", "hang")])
print(good.value, hang.error, spark._java.poll())
print(spark._standing.wait_until_there(60), [one.value for one in runner.run([Job("a", 1), Job("b", 2)])])
os.kill(spark._java.pid, signal.SIGKILL)
print([one.value for one in runner.run([Job("a", 1), Job("b", 2)])], len(spark._standing._links))
runner.end()
spark.end()
"""


@pytest.mark.live
@pytest.mark.timeout(300)  # starts Spark twice
def test_a_service_has_small_items_done_by_standing_tasks_through_every_death(tmp_path: Path):
    checkout = Path(__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", KEPT, str(tmp_path)], capture_output=True, text=True, cwd=checkout)
    assert ran.stdout.splitlines() == [
        "2 2",
        "[2, 4, 6]",
        "[8, None]",
        "8 it took longer than 5 s, and was ended None",
        "True [2, 4]",
        "[2, 4] 2",
    ], ran.stderr
    assert "Traceback" not in ran.stderr and "at org.apache" not in ran.stderr


def test_mapped_files_do_not_count_as_memory_of_a_worker(tmp_path: Path):
    file = tmp_path / "large"
    file.write_bytes(bytes(50_000_000))
    before = own_bytes()
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[at] for at in range(0, len(mapped), 4096)) == 0
        assert own_bytes() - before < 25_000_000
    held = bytearray(os.urandom(50_000_000))
    assert own_bytes() - before > 25_000_000, len(held)
