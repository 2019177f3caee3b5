"""What is narrowed or added up from wider datasets, run by the engine on real rows: each view equals its query."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.model.plan import Plan, PlanOptions
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import plan_views
from headrace.testing import SCHEMA, changes, tables
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.examples import examples
from tests.plan.written import catalogue, contract, mesh, site

SITES = ("m1", "m2", "m3")
FEW = {"k": 5.0, "name": 4.0, "at": 20.0}
"""Distinct values, so that groups are worth sharing."""

SOURCES = {
    name: replace(
        source,
        site=SITES[number % len(SITES)],
        rows=1000.0,
        rate=20.0,
        columns=tuple(
            replace(column, distinct=FEW.get(column.name) if name == "r" else 1000.0) for column in source.columns or ()
        ),
    )
    for number, (name, source) in enumerate(SCHEMA.items())
}
JOIN = "from r join s on r.k = s.k"
QUERIES = (
    f"select r.id, r.n, s.label {JOIN} where r.n > 0",
    f"select r.id, r.n, s.label {JOIN} where r.n > 2",
    f"select r.id, s.label {JOIN} where r.n > 2 and r.n < 5",
    f"select r.id, r.n, s.label {JOIN} where r.n in (3, 4) and s.n > 0",
    f"select r.id, r.n, s.label {JOIN} where r.n is not null",
    f"select r.id, r.n, s.label, t.x {JOIN} join t on t.k = s.k where r.n > 2",
    f"select s.label, count(*) as c {JOIN} where r.n > 2 group by s.label",
    "select id, n, name from r where n > 0",
    "select id, n from r where n > 2",
    "select k, name, count(*) as c, sum(n) as total, max(n) as most from r group by k, name",
    "select k, count(*) as c, sum(n) as total from r group by k",
    "select k, count(*) as c from r group by k having count(*) > 1",
    "select count(*) as c from r",
    "select k, name, count(*) as c from r where k > 1 group by k, name",
    "select window.start as since, k, count(*) as c from r group by window(at, '30 seconds'), k",
    "select window.start as since, count(*) as c from r group by window(at, '60 seconds')",
)
CHOSEN = st.lists(st.sampled_from(range(len(QUERIES))), min_size=2, max_size=5, unique=True)


def planned(chosen: list[int], targets: list[str]) -> Plan:
    views = {f"v{number}": blocks_of(f"v{number}", read_query(QUERIES[number], SOURCES)) for number in chosen}
    contracts = [contract(f"c_{name}", name, at, 60) for name, at in zip(views, targets, strict=False)]
    project = catalogue([site(name) for name in SITES], mesh(SITES), SOURCES.values(), contracts)
    return plan_views(project, views, PlanOptions())


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), chosen=CHOSEN)
def test_views_equal_their_queries_after_every_batch(data, chosen):
    targets = data.draw(st.lists(st.sampled_from(SITES), min_size=len(chosen), max_size=len(chosen)))
    meanings = {f"v{number}": read_query(QUERIES[number], SOURCES) for number in chosen}
    with quick_folder() as folder:
        world = RunningWorld(planned(chosen, targets), meanings, Path(folder))
        world.capture(data.draw(tables(max_rows=4)))
        world.engine.load()
        assert world.wrong() == []
        for _ in range(2):
            world.capture(data.draw(changes(world.history[world.now])))
            everything = sorted(world.program.tasks)
            world.engine.push(everything, world.engine.watermark(everything))
            assert world.wrong() == []


def test_some_of_these_plans_narrow_and_add_up():
    plan = planned([0, 1, 5, 7, 8, 9, 10, 14, 15], ["m2"] * 9)
    assert not plan.rejected
    assert any(edge.select and edge.op == "apply" for edge in plan.graph.edges.values())
    reads = {entry.block.id: set(entry.reads.values()) for entry in plan.blocks}
    assert (reads["v10"], reads["v15"]) == ({"v9"}, {"v14"})
