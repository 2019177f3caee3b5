"""Faults of processes: the service, its captures and Spark are suspended, killed or starved."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bench.faults_database import change_both
from bench.faults_model import CannotTry, Expected, Fault, Part, fault
from bench.faults_world import World
from bench.kills_world import MARKS

READ_ANEW, STOPPED, UNTOUCHED = Expected.READ_ANEW, Expected.STOPPED, Expected.UNTOUCHED
ON_SPARK = Part(engine="spark", freshness="30 s")
ON_CLUSTER = replace(ON_SPARK, cluster=True)
FOUND_WITHIN_S = 30.0
LITTLE_MEMORY = 200_000_000
TINY_MEMORY = 10_000_000
CGROUPS = Path("/sys/fs/cgroup")


def _find(world: World, kind: str) -> list[int]:
    """Processes of the service of a kind; waits for the first."""
    until = time.monotonic() + FOUND_WITHIN_S
    while time.monotonic() < until:
        found = [pid for pid in _descendants(world.service().pid) if MARKS[kind] in _command_line(pid)]
        if found:
            return found
        time.sleep(0.1)
    raise CannotTry(f"there is no process of kind {kind}")


def _descendants(pid: int) -> list[int]:
    """The service is no child of this process, so that its processes are looked for among all."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _signal(pids: list[int], what: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, what)


@fault("the service is suspended, and continues", STOPPED)
def suspend_service(world: World) -> Iterator[None]:
    pid = world.service().pid
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


@fault("the captures are suspended", STOPPED)
def suspend_captures(world: World) -> Iterator[None]:
    pids = _find(world, "capture")
    _signal(pids, signal.SIGSTOP)
    yield
    _signal(pids, signal.SIGCONT)


@fault("the captures are killed", UNTOUCHED)
def kill_captures(world: World) -> Iterator[None]:
    _signal(_find(world, "capture"), signal.SIGKILL)
    yield


@fault("the service is killed, and started again", STOPPED)
def kill_service(world: World) -> Iterator[None]:
    world.kill_service()
    yield
    world.up()


@fault("the service is killed, a table is renamed, and `up` is started", STOPPED)
def start_without_table(world: World) -> Iterator[None]:
    world.kill_service()
    world.us("ALTER TABLE orders RENAME TO sold")
    world.up()
    yield
    world.us("ALTER TABLE sold RENAME TO orders")
    world.up()


@fault("the project's folder is copied, and `down` is run on the copy", UNTOUCHED)
def stop_copied_folder(world: World) -> Iterator[None]:
    copy = world.root / "copied"
    shutil.copytree(world.project, copy)
    world.headrace("down", str(copy))
    yield


@fault("`up` is run in another container, which sees other processes", UNTOUCHED)
def start_elsewhere(world: World) -> Iterator[None]:
    alone = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        raise CannotTry("no process can be started in another container here")
    command = [*alone, sys.executable, "-P", "-m", "headrace", "up", str(world.project), "--engine", "local"]
    with subprocess.Popen(
        command, env=world.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as other:
        yield
        other.terminate()


@fault("Spark is killed", UNTOUCHED, ON_SPARK)
def kill_spark(world: World) -> Iterator[None]:
    _signal(_find(world, "spark"), signal.SIGKILL)
    yield


@fault("Spark's workers are killed in the middle of a push", UNTOUCHED, ON_SPARK)
def kill_workers(world: World) -> Iterator[None]:
    for _ in range(5):
        world.us("UPDATE orders SET amount = amount + 1")
        _signal(_find(world, "daemon"), signal.SIGKILL)
        time.sleep(1.0)
    yield


@fault("Spark's workers run out of memory", STOPPED, ON_SPARK)
def starve_workers(world: World) -> Iterator[None]:
    pids = _find(world, "daemon")
    for pid in pids:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_AS, (LITTLE_MEMORY, resource.RLIM_INFINITY))
    world.us("UPDATE orders SET amount = amount + 1")
    yield
    for pid in pids:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@fault("a control group has no memory left for Spark's workers, which are killed", STOPPED, ON_SPARK)
def starve_workers_in_group(world: World) -> Iterator[None]:
    with _small_group() as group:
        until = time.monotonic() + 2 * FOUND_WITHIN_S  # pushes come as late as the promises allow
        while not _count_killed(group.parent) and time.monotonic() < until:
            for pid in _find(world, "daemon"):
                with suppress(OSError):  # it may have ended
                    group.write_text(str(pid))
            world.us("UPDATE orders SET amount = amount + 1, note = repeat('x', 20000)")
            time.sleep(2.0)
        if not _count_killed(group.parent):
            raise CannotTry("no worker needed so much memory that it was killed")
        yield


def _count_killed(group: Path) -> int:
    for name in ("memory.events", "memory.oom_control"):  # of the second and the first version of control groups
        if (group / name).exists():
            found = dict(line.split() for line in (group / name).read_text().splitlines())
            return int(found.get("oom_kill", 0))
    return 0


@contextmanager
def _small_group() -> Iterator[Path]:
    """A control group whose processes are killed as soon as they need more memory; the file that takes their ids."""
    for root, limit in ((CGROUPS / "memory", "memory.limit_in_bytes"), (CGROUPS, "memory.max")):
        folder = root / f"headrace-faults-{os.getpid()}"
        if not (root / "cgroup.procs").exists():
            continue
        try:
            folder.mkdir()
            (folder / limit).write_text(str(TINY_MEMORY))
        except OSError as error:
            raise CannotTry(f"no control group can be made here: {error.strerror}") from error
        try:
            yield folder / "cgroup.procs"
        finally:
            for pid in (folder / "cgroup.procs").read_text().split():
                with suppress(OSError):
                    (root / "cgroup.procs").write_text(pid)
            with suppress(OSError):
                folder.rmdir()
        return
    raise CannotTry("this machine has no control groups for memory")


@fault("executors of a Spark cluster are killed in the middle of a push", UNTOUCHED, ON_CLUSTER)
def kill_executors(world: World) -> Iterator[None]:
    for _ in range(2):
        world.us("UPDATE orders SET amount = amount + 1")
        _signal(_find_executors(), signal.SIGKILL)
        time.sleep(3.0)
    yield


def _find_executors() -> list[int]:
    """They are children of Spark's workers, which are ours."""
    until = time.monotonic() + FOUND_WITHIN_S
    while time.monotonic() < until:
        lines = {pid: _command_line(pid) for pid in _descendants(os.getpid())}
        found = [pid for pid, line in lines.items() if b"CoarseGrainedExecutorBackend" in line]
        if found:
            return found
        time.sleep(0.1)
    raise CannotTry("there is no executor")


@fault("captures are killed while the clock of one database is wrong", UNTOUCHED, Part(other_clock=True))
def kill_captures_with_skew(world: World) -> Iterator[None]:
    for number, ahead_s in enumerate((1800.0, -1800.0)):
        world.set_clock(ahead_s)
        change_both(world, number)
        _signal(_find(world, "capture"), signal.SIGKILL)
    yield
    world.set_clock(0.0)


FAULTS: tuple[Fault, ...] = (
    *(suspend_service, suspend_captures, kill_captures, kill_service, start_without_table, stop_copied_folder),
    *(start_elsewhere, kill_captures_with_skew, kill_spark, kill_workers, starve_workers),
    *(starve_workers_in_group, kill_executors),
)
