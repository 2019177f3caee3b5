"""Flink SQL keeps the same views: all joins as one streaming job, in a Python and a Java of its own.

Flink is given change logs as files (Debezium's JSON, as its filesystem connector reads it): first the stored rows, then
batches of changes. It computes each change at once and throws the changes of the views away. A second job counts
the rows of all views instead, and the numbers are compared with those of DuckDB over the same rows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.contracts_flink_feed import Feed, flink_sql, write_feed
from bench.flink import FlinkRequest, Phase, run_flink
from bench.workloads.live_table1 import Live

BATCHES = 3
IDLE_S = 10.0
HEAP_GB, HEAP_GB_PER_MILLION = 10.0, 12.0
"""Flink holds all rows that it joins in memory: at least so much, and more with the tweets that are stored."""


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
class _Measured:
    phases: tuple[Phase, ...]
    idle: float
    memory_mb: float


def _measure(python: str, live: Live, feed: Feed, folder: Path) -> _Measured:
    with run_flink(python, _make_request(live, folder, count=False), folder) as job:
        phases = tuple(job.give(files) for files in feed.phases)
        before = job.cpu_s()
        time.sleep(IDLE_S)
        return _Measured(phases, (job.cpu_s() - before) / IDLE_S, job.memory_mb())


def _miscounted(python: str, live: Live, feed: Feed, folder: Path) -> tuple[str, ...]:
    with run_flink(python, _make_request(live, folder, count=True), folder) as job:
        for files in feed.phases:
            job.give(files)
    printed = re.findall(r"^(v\d+)(?::\d+)?> \+[IU]\[(\d+)\]", (folder / "output").read_text(), re.MULTILINE)
    found = {name: int(number) for name, number in printed}
    return tuple(name for name, number in feed.counts.items() if found.get(name, 0) != number)


def _make_request(live: Live, folder: Path, count: bool) -> FlinkRequest:
    heap_gb = max(HEAP_GB, HEAP_GB_PER_MILLION * live.tweets / 1e6)
    return FlinkRequest([relation.name for relation in live.sources], *flink_sql(live, folder, count), heap_gb)
