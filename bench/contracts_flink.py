"""Flink SQL keeps the same views: all joins as one streaming job, in a Python and a Java of its own.

Flink is given change logs as files (Debezium's JSON, as its filesystem connector reads it): first the stored rows, then
batches of changes. It computes each change at once and throws the changes of the views away. A second job counts
the rows of all views instead, and the numbers are compared with those of DuckDB over the same rows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.contracts_flink_feed import Feed, flink_request, write_feed
from bench.contracts_run import resident_mb
from bench.cpu import Process, processes
from bench.workloads.live_table1 import Live
from headrace.connect.spark.java import ensure_java

BATCHES = 3
LOOK_EVERY_S = 1.0
QUIET = 3
"""So many looks at which nothing has moved: what was given is computed."""
IDLE_S = 10.0
ANSWERS_WITHIN_S = 60.0
SLOWEST_S = 900.0
HEAP_GB, HEAP_GB_PER_MILLION = 10.0, 12.0
"""Flink holds all rows that it joins in memory: at least so much, and more with the tweets that are stored."""


class FlinkFailed(Exception):
    """With the end of what Flink said."""


@dataclass(frozen=True, slots=True)
class Flink:
    """`live_s` are processor seconds of the median batch of `tweets`; `idle` are cores in use when nothing changes,
    which are in `live_s` for as long as a batch takes.

    `unequal` are views that Flink counts differently from DuckDB; none should be.
    """

    version: str
    tweets: int
    stored_s: float
    live_s: float
    live_wall_s: float
    idle: float
    memory_mb: float
    views: int
    unequal: tuple[str, ...]

    @property
    def ms_per_tweet(self) -> float:
        return 1000 * max(0.0, self.live_s - self.idle * self.live_wall_s) / self.tweets

    def ms_per_tweet_at(self, tweets_per_s: float) -> float:
        """With what is used whether or not anything changes."""
        return self.ms_per_tweet + 1000 * self.idle / tweets_per_s


def flink_version(python: str) -> str | None:
    """Of the Flink that a Python has; None if there is no such Python, or no Flink in it."""
    probe = "import importlib.metadata as m; print(m.version('apache-flink'))"
    try:
        found = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return found.stdout.strip() or None


def kept_by_flink(
    python: str, version: str, live: Live, tweets: int, folder: Path, say: Callable[[str], None]
) -> Flink:
    """Batches of so many tweets, as fast as Flink takes them. `folder` is made, and may be large."""
    feed = write_feed(live, tweets, BATCHES, folder / "feed")
    say("changes are written")
    measured = _measure(python, live, feed, folder / "measured")
    say("views are kept")
    unequal = _miscounted(python, live, feed, folder / "counted")
    stored, *batches = measured.phases
    median = sorted(batches, key=lambda one: one.cpu_s)[len(batches) // 2]
    return Flink(
        version,
        tweets,
        stored_s=stored.cpu_s,
        live_s=median.cpu_s,
        live_wall_s=median.wall_s,
        idle=measured.idle,
        memory_mb=measured.memory_mb,
        views=len(feed.counts),
        unequal=unequal,
    )


@dataclass(frozen=True, slots=True)
class _Phase:
    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class _Measured:
    phases: tuple[_Phase, ...]
    idle: float
    memory_mb: float


def _measure(python: str, live: Live, feed: Feed, folder: Path) -> _Measured:
    with _running(python, live, folder, count=False) as job:
        phases = tuple(job.give(files) for files in feed.phases)
        before = job.cpu_s()
        time.sleep(IDLE_S)
        return _Measured(phases, (job.cpu_s() - before) / IDLE_S, job.memory_mb())


def _miscounted(python: str, live: Live, feed: Feed, folder: Path) -> tuple[str, ...]:
    with _running(python, live, folder, count=True) as job:
        for files in feed.phases:
            job.give(files)
    printed = re.findall(r"^(v\d+)(?::\d+)?> \+[IU]\[(\d+)\]", (folder / "output").read_text(), re.MULTILINE)
    found = {name: int(number) for name, number in printed}
    return tuple(name for name, number in feed.counts.items() if found.get(name, 0) != number)


@contextmanager
def _running(python: str, live: Live, folder: Path, count: bool) -> Iterator[_Job]:
    for relation in live.sources:
        (folder / relation.name).mkdir(parents=True)
    port = _free_port()
    request, answer = folder / "request.json", folder / "job"
    request.write_text(json.dumps(flink_request(live, folder, port, count)))
    ensure_java()
    heap_mb = round(1000 * max(HEAP_GB, HEAP_GB_PER_MILLION * live.tweets / 1e6))
    environment = os.environ | {"JVM_ARGS": f"-Xmx{heap_mb}m", "FLINK_LOG_DIR": str(folder)}
    command = [python, str(Path(__file__).with_name("flink_job.py")), str(request), str(answer)]
    with (
        (folder / "output").open("wb") as output,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment, start_new_session=True
        ) as process,
    ):
        job = _Job(process, folder, f"http://127.0.0.1:{port}")
        try:
            job.wait_for_start(answer)
            yield job
        finally:
            assert process.stdin is not None
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            with suppress(ProcessLookupError):  # its Java may go on without it
                os.killpg(process.pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class _Job:
    process: subprocess.Popen[bytes]
    folder: Path
    address: str
    number: str = ""

    def wait_for_start(self, answer: Path) -> None:
        while not answer.exists():
            self._must_run()
            time.sleep(0.2)
        self.number = answer.read_text()
        while self._asked()["state"] != "RUNNING":
            self._must_run()
            time.sleep(0.2)

    def give(self, files: Mapping[str, Path]) -> _Phase:
        """Moves files to where Flink looks, and waits until they are computed."""
        cpu_s, started, before = self.cpu_s(), time.monotonic(), self._moved()
        for name, file in files.items():
            shutil.copy(file, self.folder / f".{file.name}")
            (self.folder / f".{file.name}").replace(self.folder / name / file.name)
        quiet, last = 0, before
        seen = _Phase(0.0, 0.0)
        while quiet < QUIET and time.monotonic() - started < SLOWEST_S:
            time.sleep(LOOK_EVERY_S)
            self._must_run()
            now = self._moved()
            quiet = quiet + 1 if now == last and now > before else 0
            last = now
            if quiet <= 1:
                seen = _Phase(self.cpu_s() - cpu_s, time.monotonic() - started)
        if quiet < QUIET:
            raise FlinkFailed(f"it was not done after {SLOWEST_S:g} s")
        return seen

    def cpu_s(self) -> float:
        """Of Flink's Python and Java."""
        return sum(one.own + one.children for one in self._processes().values())

    def memory_mb(self) -> float:
        return sum(map(resident_mb, self._processes()))

    def _processes(self) -> dict[int, Process]:
        known = processes()
        ours = {self.process.pid}
        while more := {number for number, one in known.items() if one.parent in ours} - ours:
            ours |= more
        return {number: one for number, one in known.items() if number in ours}

    def _moved(self) -> int:
        """Rows that went through any of Flink's operators."""
        return sum(
            one["metrics"]["read-records"] + one["metrics"]["write-records"] for one in self._asked()["vertices"]
        )

    def _asked(self) -> dict[str, Any]:
        """As it says itself; on a busy machine it may not answer at once."""
        deadline = time.monotonic() + ANSWERS_WITHIN_S
        while True:
            try:
                with urllib.request.urlopen(f"{self.address}/jobs/{self.number}", timeout=ANSWERS_WITHIN_S) as answer:
                    found: dict[str, Any] = json.load(answer)
                return found
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise FlinkFailed(f"it does not answer any more ({error}){self._last_words()}") from error
                time.sleep(LOOK_EVERY_S)

    def _must_run(self) -> None:
        if self.process.poll() is not None or (self.number and self._asked()["state"] in ("FAILED", "FAILING")):
            ended = self.process.returncode
            what = "its job failed" if ended is None else f"it ended with status {ended}"
            raise FlinkFailed(f"{what}{self._last_words()}")

    def _last_words(self) -> str:
        said = (self.folder / "output").read_text(errors="replace")[-2000:].strip()
        return f": {said}" if said else ""
