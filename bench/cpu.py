"""Seconds of wall and processor time. On a shared machine only the latter compare."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """Seconds of user and system time: its own, and those of children that ended and that it has waited for."""

    parent: int
    started: int
    own: float
    children: float


def cpu_since(before: Mapping[int, Process], *tops: int) -> float:
    """Processor seconds of this process and everything below it, since `processes` said `before`; or of others.

    A process that ended meanwhile may have left its time with its parent or, as Spark's idle workers do, not.
    """
    now = processes(*tops)
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
    return ours
