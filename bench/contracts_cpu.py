"""Processor time of pushes alone: the same batches of tweets for all contracts, with and without sharing.

Runs in this process, without Spark, database or clock, so that it is the same on a busy machine.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.engine_world import Batch, EngineWorld, inserts
from bench.workloads.live_table1 import NEW_USERS, Live, live_catalogue
from bench.workloads.table1 import RELATIONS, Relation
from headrace.model.plan import PlanOptions
from headrace.run.items import HereRunner
from headrace.run.perform import perform

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
    with tempfile.TemporaryDirectory() as folder:
        world = EngineWorld(live_catalogue(live), Path(folder), HereRunner(perform), options, refuse=True)
        world.capture({relation.name: inserts(_first(relation, live)) for relation in live.sources})
        world.engine.load()
        pushes, upkeeps, rows = list[float](), list[float](), list[int]()
        for batch in _batches(live, round(live.tweets_per_s * batch_s)):
            world.capture(batch)
            started = time.process_time()
            pushed = world.push_vertices(list(world.program.tasks))
            ended = time.process_time()
            world.keep_up()
            pushes.append(ended - started)
            upkeeps.append(time.process_time() - ended)
            rows.append(sum(one.rows_out for one in pushed))
    tweets = round(live.tweets_per_s * batch_s)
    push_s, moved = statistics.median(pushes), round(statistics.median(rows))
    return Worked(len(world.plan.contracts), batch_s, tweets, push_s, statistics.mean(upkeeps), moved)


def _first(relation: Relation, live: Live) -> pa.Table:
    return _rows(relation, np.arange(1, live.rows(relation) + 1), live, np.random.default_rng(0))


def _batches(live: Live, tweets: int) -> Iterator[Batch]:
    rng = np.random.default_rng(1)
    tweet, user = live.tweets + 1, live.rows(RELATIONS[0]) + 1
    for _ in range(BATCHES):
        new, joined = np.arange(tweet, tweet + tweets), np.arange(user, user + round(tweets * NEW_USERS))
        tweet, user = tweet + tweets, user + len(joined)
        keys = [(relation, _changed(relation, new, joined, live, rng)) for relation in live.sources]
        yield {one.name: inserts(_rows(one, found, live, rng)) for one, found in keys if len(found)}


def _changed(
    relation: Relation,
    new: npt.NDArray[np.int64],
    joined: npt.NDArray[np.int64],
    live: Live,
    rng: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Keys of rows that are new or have new values, as in the database."""
    if next(iter(relation.columns)) == "tid":
        return new[rng.random(len(new)) < relation.ratio]
    share = min(1.0, relation.ratio / NEW_USERS / 3)
    updates = min(round((relation.ratio - share * NEW_USERS) / 2 * len(new)), live.rows(relation))
    known = rng.choice(live.rows(relation), updates, replace=False) + 1
    return np.concatenate([joined[rng.random(len(joined)) < share], known])


def _rows(relation: Relation, keys: npt.NDArray[np.int64], live: Live, rng: np.random.Generator) -> pa.Table:
    columns = {}
    for number, (name, width) in enumerate(relation.columns.items()):
        if number == 0:
            columns[name] = pa.array(keys)
        elif name in ("uid", "uid2"):
            columns[name] = pa.array(rng.integers(1, live.rows(RELATIONS[0]) + 1, len(keys)))
        elif width == 8:
            columns[name] = pa.array(rng.integers(0, 1_000_000, len(keys)))
        else:
            columns[name] = pa.array([f"{value:08x}" * (width // 8) for value in rng.integers(0, 2**32, len(keys))])
    return pa.table(columns)
