"""Seconds of wall and processor time. On a shared machine only the latter compare."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Seconds:
    """Of several runs of the same."""

    walls: tuple[float, ...]
    cpus: tuple[float, ...]

    @property
    def wall(self) -> float:
        return statistics.median(self.walls)

    @property
    def cpu(self) -> float:
        return statistics.median(self.cpus)

    @property
    def mean_cpu(self) -> float:
        """For what is to be added up: a median leaves out what comes now and then."""
        return statistics.fmean(self.cpus)

    @property
    def spread(self) -> str:
        """The least and the largest processor time."""
        return f"{min(self.cpus):.2f}..{max(self.cpus):.2f}"


def timed(run: Callable[[], object], repeats: int) -> Seconds:
    found = [_once(run) for _ in range(repeats)]
    return together(found)


def together(runs: Sequence[tuple[float, float]]) -> Seconds:
    """Runs, each as its wall and processor time."""
    return Seconds(tuple(wall for wall, _ in runs), tuple(cpu for _, cpu in runs))


def _once(run: Callable[[], object]) -> tuple[float, float]:
    wall, before = time.perf_counter(), processes()
    run()
    return time.perf_counter() - wall, cpu_since(before)


@dataclass(frozen=True, slots=True)
class Process:
    """Processor seconds: its own, and those of children that ended and that it has waited for."""

    parent: int
    started: int
    own: float
    children: float


@dataclass(frozen=True, slots=True)
class Clocks:
    """Those of this process and of everything below it, for windows of milliseconds: reading them takes microseconds,
    where looking for processes takes as long as such a window.
    """

    numbers: tuple[int, ...]

    @classmethod
    def find(cls) -> Clocks:
        return cls(tuple(processes()))

    def read(self) -> float:
        """Processor seconds of all that are still there."""
        return sum(_read_clock(number) or 0.0 for number in self.numbers)


def cpu_since(before: Mapping[int, Process], *tops: int) -> float:
    """Processor seconds of this process and everything below it, since `processes` said `before`; or of others.

    A process that ended meanwhile may have left its time with its parent or, as Spark's idle workers do, not.
    """
    clocks = {number: _read_clock(number) for number in before}  # before looking for others, which takes time itself
    now = processes(*tops)
    now |= {number: replace(now[number], own=at) for number, at in clocks.items() if at is not None and number in now}
    kept = {number: one for number, one in before.items() if number in now and now[number].started == one.started}
    total = 0.0
    for number, one in now.items():
        was = kept.get(number, Process(one.parent, one.started, 0.0, 0.0))
        left = sum(gone.own + gone.children for at, gone in before.items() if gone.parent == number and at not in kept)
        inherited = one.children - was.children
        total += one.own - was.own + inherited - min(inherited, left)
    return total


def processes(*tops: int) -> dict[int, Process]:
    """This process and everything below it, or the processes that are named and everything below them."""
    found: dict[int, Process] = {}
    below: dict[int, list[int]] = {}
    ticks = os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = [*map(int, (folder / "stat").read_text().rsplit(")", 1)[1].split()[1:20])]
            except OSError:  # ended meanwhile
                continue
            own, children = sum(fields[10:12]) / ticks, sum(fields[12:14]) / ticks
            found[int(folder.name)] = Process(fields[0], fields[18], own, children)
            below.setdefault(fields[0], []).append(int(folder.name))
    waiting, ours = list(tops or (os.getpid(),)), dict[int, Process]()
    while waiting:
        number = waiting.pop()
        if number in found:
            ours[number] = found[number]
            waiting += below.get(number, [])
    clocks = [(number, _read_clock(number)) for number in ours]  # last, since looking takes time itself
    return ours | {number: replace(ours[number], own=clock) for number, clock in clocks if clock is not None}


def _read_clock(number: int) -> float | None:
    """Processor seconds of all threads of a process, to the nanosecond; None if it is gone.

    /proc counts in hundredths, of which a window that takes tenths of a second on ten processes has too few.
    """
    try:
        return time.clock_gettime((~number << 3) | 2)  # as clock_getcpuclockid(3) makes it, which Python lacks
    except (OSError, OverflowError):
        return None
