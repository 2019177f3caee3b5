"""Thirty joins that are due at the same time: one job, or a job for each."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cpu import Seconds, timed, together
from bench.engine_world import EngineWorld, checked, inserts
from bench.workloads.tweets import SITE
from headrace import Project
from headrace.model.catalogue import Catalogue
from headrace.run.ports import Runner
from headrace.run.program import JoinStep

JOINS, USERS, CHANGED = 30, 1_000_000, 2_000


def make_catalogue() -> Catalogue:
    """Each view joins events of its own kind with all users."""
    project = Project("together")
    project.site(SITE, cpu="0.34 $/core-hour", disk="0.11 $/GB-month", speed=1)
    text, number = {"type": "string"}, {"type": "bigint"}
    project.source("users", at=SITE, key=["uid"], rows=USERS, rate=1, columns={"uid": number, "name": text})
    for at in range(JOINS):
        columns = {"id": number, "uid": number}
        project.source(f"e{at}", at=SITE, key=["id"], rows=CHANGED, rate=100, columns=columns)
        project.view(f"v{at}", f"SELECT e.id, u.name FROM e{at} e JOIN users u ON e.uid = u.uid")
        project.contract(f"v{at}", view=f"v{at}", at=SITE, freshness=45.0, penalty=0.001)
    return project.catalogue


def joins_together(runner: Runner[Any], scratch: Path, repeats: int) -> tuple[Seconds, Seconds]:
    """Processor time of joining 2k changed rows thirty times: in one job, and in thirty."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        world = EngineWorld(make_catalogue(), Path(folder), runner)
        keys = np.arange(USERS)
        world.capture({"users": inserts(pa.table({"uid": keys, "name": pa.array(keys).cast(pa.string())}))})
        world.engine.load()
        world.keep_up()
        joins = [
            name
            for name, task in world.program.tasks.items()
            if isinstance(task.step, JoinStep) and not task.step.changes.log.startswith("d:users")
        ]
        assert len(joins) == JOINS, joins
        one, many = list[tuple[float, float]](), list[tuple[float, float]]()
        for repeat in range(2 * repeats + 2):
            _bring_changes(world, joins, repeat)
            seconds = timed(partial(_push, world, joins, repeat % 2 == 0), 1)
            if repeat >= 2:
                (many if repeat % 2 else one).append((seconds.wall, seconds.cpu))
        return together(one), together(many)


def _bring_changes(world: EngineWorld, joins: list[str], number: int) -> None:
    """Changes are captured and everything before the joins is done."""
    rng = np.random.default_rng(number)
    ids = np.arange(CHANGED) + number * CHANGED
    world.capture(
        {f"e{at}": inserts(pa.table({"id": ids, "uid": rng.integers(0, USERS, CHANGED)})) for at in range(JOINS)}
    )
    inputs = [read for name in joins for read in world.program.tasks[name].reads]
    checked(world.engine.push(inputs, world.now))


def _push(world: EngineWorld, joins: list[str], at_once: bool) -> None:
    rounds = [joins] if at_once else [[name] for name in joins]
    for names in rounds:
        checked(world.engine.push_round(dict.fromkeys(names, world.now)))
