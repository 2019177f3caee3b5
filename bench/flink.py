"""Flink in a Python and a Java of its own: runs SQL over files as one streaming job, and counts what that takes.

Flink reads the files of a folder as they come. When nothing moves any more, what was given is computed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.contracts_run import resident_mb
from bench.cpu import Process, processes
from headrace.connect.free_port import free_port
from headrace.connect.spark.java import ensure_java

VERSION = "2.3.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / f"flink-{VERSION}"
MINORS = range(9, 13)
"""Of Python 3, for which this Flink and what it needs are packaged."""
LOOK_EVERY_S = 1.0
QUIET = 3
"""So many looks at which nothing has moved: what was given is computed."""
ANSWERS_WITHIN_S = 60.0
SLOWEST_S = 900.0
SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
    "pipeline.object-reuse": "true",
    "rest.bind-address": "127.0.0.1",
    "jobmanager.bind-host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "metrics.fetcher.update-interval": "500",
}


class FlinkFailed(Exception):
    """With the end of what Flink said."""


def flink_version(python: str) -> str | None:
    """Of the Flink that a Python has; None if there is no such Python, or no Flink in it."""
    probe = "import importlib.metadata as m; print(m.version('apache-flink'))"
    try:
        found = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return found.stdout.strip() or None


def make_flink(folder: Path = CACHE) -> str:
    """A Python that has Flink, in an environment of its own; made once. An installation that ended midway is repeated.

    pip tells on standard error what it does.
    """
    python = str(folder / "bin" / "python")
    if flink_version(python) is None:
        print(
            f"installing Flink {VERSION} in {folder}: downloads about 500 MB, and takes some minutes",
            file=sys.stderr,
            flush=True,
        )
        made = subprocess.run([_find_python(), "-m", "venv", "--clear", str(folder)], stdout=sys.stderr, check=False)
        if made.returncode:
            raise FlinkFailed(
                f"cannot make a Python environment in {folder}"
                "\n  hint: can you write there? Debian has the module venv in the package python3-venv"
            )
        package = f"apache-flink=={VERSION}"
        if subprocess.run([python, "-m", "pip", "install", package], stdout=sys.stderr, check=False).returncode:
            raise FlinkFailed(
                f"pip could not install {package} in {folder}; it says why above"
                "\n  hint: run this again, or install it in any other environment and give its Python by --flink-python"
            )
    return python


def _find_python() -> str:
    """A Python that Flink is packaged for; ours, if it is one."""
    if sys.version_info[1] in MINORS:
        return sys.executable
    found = (shutil.which(f"python3.{minor}") for minor in reversed(MINORS))
    python = next((one for one in found if one is not None), None)
    if python is None:
        raise FlinkFailed(
            f"Flink {VERSION} is packaged for Python 3.{MINORS[0]} to 3.{MINORS[-1]}, and none of these is on PATH"
            "\n  hint: install one of them, or give a Python that has apache-flink by --flink-python"
        )
    return python


@dataclass(frozen=True, slots=True)
class Phase:
    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class FlinkRequest:
    """Tables that are created, and inserts that are one job. `sources` have a folder each, where their files come."""

    sources: Sequence[str]
    tables: Sequence[str]
    inserts: Sequence[str]
    settings: Mapping[str, str]
    heap_gb: float


@contextmanager
def run_flink(python: str, request: FlinkRequest, folder: Path) -> Iterator[FlinkJob]:
    for name in request.sources:
        (folder / name).mkdir(parents=True)
    port = free_port()
    asked, answer = folder / "request.json", folder / "job"
    settings = SETTINGS | {"rest.bind-port": str(port), "rest.port": str(port)} | dict(request.settings)
    asked.write_text(
        json.dumps({"settings": settings, "tables": list(request.tables), "inserts": list(request.inserts)})
    )
    ensure_java()
    environment = os.environ | {"JVM_ARGS": f"-Xmx{round(1000 * request.heap_gb)}m", "FLINK_LOG_DIR": str(folder)}
    command = [python, str(Path(__file__).with_name("flink_job.py")), str(asked), str(answer)]
    with (
        (folder / "output").open("wb") as output,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment, start_new_session=True
        ) as process,
    ):
        job = FlinkJob(process, folder, f"http://127.0.0.1:{port}")
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


@dataclass
class FlinkJob:
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

    def give(self, files: Mapping[str, Path]) -> Phase:
        """Moves files to where Flink looks, and waits until they are computed."""
        cpu_s, started, before = self.cpu_s(), time.monotonic(), self._moved()
        for name, file in files.items():
            shutil.copy(file, self.folder / f".{file.name}")
            (self.folder / f".{file.name}").replace(self.folder / name / file.name)
        quiet, last = 0, before
        seen = Phase(0.0, 0.0)
        while quiet < QUIET and time.monotonic() - started < SLOWEST_S:
            time.sleep(LOOK_EVERY_S)
            self._must_run()
            now = self._moved()
            quiet = quiet + 1 if now == last and now > before else 0
            last = now
            if quiet <= 1:
                seen = Phase(self.cpu_s() - cpu_s, time.monotonic() - started)
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
