"""Processor time of pushes alone: the same batches of tweets for all contracts, with and without sharing.

Runs in this process, without Spark, database or clock, so that it is the same on a busy machine.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from bench.contracts_changes import changed_rows, stored_rows
from bench.engine_world import Batch, EngineWorld, inserts
from bench.workloads.live_table1 import Live, live_catalogue
from headrace.model.plan import PlanOptions
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform

BATCHES = 6
START_AT = 0.8
"""Share of the freshness after which pushes come."""


@dataclass(frozen=True, slots=True)
class Worked:
    """Of one batch, in processor seconds; `rows` were moved."""

    contracts: int
    batch_s: float
    tweets: int
    push_s: float
    upkeep_s: float
    rows: int

    @property
    def cores(self) -> float:
        return (self.push_s + self.upkeep_s) / self.batch_s


def work_of(live: Live, options: PlanOptions) -> Worked:
    """The median of some batches, all views pushed with each; upkeep is their mean."""
    batch_s = START_AT * min(live.freshness_s)
    tweets = round(live.tweets_per_s * batch_s)
    with tempfile.TemporaryDirectory() as folder:
        world = EngineWorld(live_catalogue(live), Path(folder), HereRunner(perform), options, refuse=True)
        world.capture(_as_batch(stored_rows(live)))
        world.engine.load()
        pushes, upkeeps, rows = list[float](), list[float](), list[int]()
        for rows_by_relation in changed_rows(live, tweets, BATCHES):
            world.capture(_as_batch(rows_by_relation))
            started = time.process_time()
            pushed = world.push_vertices(list(world.program.tasks))
            ended = time.process_time()
            world.keep_up()
            pushes.append(ended - started)
            upkeeps.append(time.process_time() - ended)
            rows.append(sum(one.rows_out for one in pushed))
    push_s, moved = statistics.median(pushes), round(statistics.median(rows))
    return Worked(len(world.plan.contracts), batch_s, tweets, push_s, statistics.mean(upkeeps), moved)


def _as_batch(rows: Mapping[str, pa.Table]) -> Batch:
    return {name: inserts(table) for name, table in rows.items()}
