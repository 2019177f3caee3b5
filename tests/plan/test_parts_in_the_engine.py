"""Aggregates in parts, run by the engine on real rows: each view equals its query after every batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.model.plan import PlanOptions
from headrace.plan.canonical.below_unions import aggregate_below_unions
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import plan_views
from headrace.testing import SCHEMA, changes, tables
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.examples import examples
from tests.plan.test_below_unions import aggregates
from tests.plan.written import catalogue, contract, mesh, site

SITES = {"r": "m1", "s": "m2", "t": "m3"}
SOURCES = {name: replace(source, site=SITES[name], rows=1000.0, rate=20.0) for name, source in SCHEMA.items()}


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), sql=aggregates(), at=st.sampled_from(sorted(SITES.values())))
def test_a_view_in_parts_equals_its_query_after_every_batch(data: st.DataObject, sql: str, at: str) -> None:
    whole = read_query(sql, SOURCES)
    parts = aggregate_below_unions(whole, SITES.__getitem__)
    if parts is None:
        return
    views = {"v": blocks_of("v", parts)}
    project = catalogue([site(name) for name in SITES.values()], mesh(tuple(SITES.values())), SOURCES.values(), [])
    project = replace(project, contracts={"c": contract("c", "v", at, 60)})
    plan = plan_views(project, views, PlanOptions())
    assert not plan.rejected
    with quick_folder() as folder:
        world = RunningWorld(plan, {"v": whole}, Path(folder))
        world.capture(data.draw(tables(max_rows=4)))
        world.engine.load()
        assert world.wrong() == []
        for _ in range(2):
            world.capture(data.draw(changes(world.history[world.now])))
            everything = sorted(world.program.tasks)
            world.engine.push(everything, world.engine.watermark(everything))
            assert world.wrong() == []
