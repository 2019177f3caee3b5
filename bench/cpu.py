"""Seconds of wall and processor time. On a shared machine only the latter compare."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
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
    wall, cpu = time.perf_counter(), cpu_seconds()
    run()
    return time.perf_counter() - wall, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """User and system time of this process and everything below it, what ended there included."""
    parents: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:  # ended meanwhile
                continue
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
            ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    waiting, total = [os.getpid()], 0
    while waiting:
        process = waiting.pop()
        total += ticks.get(process, 0)
        waiting += parents.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")
