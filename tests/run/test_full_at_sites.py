"""Views in full where sites run apart: whoever makes them, and whatever is sent to others, they equal their queries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.model.full_query import FullQuery
from headrace.model.plan import PlanOptions
from headrace.model.relation import fields_of, scans_of
from headrace.plan.make import plan_views
from headrace.plan.recompute import make_recomputed_block
from headrace.run.load.transition import find_turned
from headrace.run.program import RecomputeStep
from headrace.testing import changes, tables
from headrace.testing.worlds import quick_folder
from tests.examples import examples
from tests.plan.written import catalogue, contract, mesh, site
from tests.run.sites_world import SitesWorld
from tests.run.test_engine import ANY_SIZE, SITES, SOURCES
from tests.run.test_sites import live

AT_ONE = "SELECT k, count(*) AS c, sum(n) AS n FROM r GROUP BY k"
"""Cheapest where its rows are: what it makes is sent."""
AT_TWO = "SELECT r.id, s.label FROM r JOIN s ON r.k = s.k"
"""Needs rows of two sites."""


def world_in_full(texts: list[str], target: str, folder: Path) -> SitesWorld:
    views, meanings = {}, {}
    contracts = [contract(f"c_v{number}", f"v{number}", target, 60) for number in range(len(texts))]
    sources = {name: replace(source, key=()) for name, source in SOURCES.items()}
    project = catalogue([site(name) for name in SITES], mesh(SITES), sources.values(), contracts)
    for number, sql in enumerate(texts):
        query = meanings[f"v{number}"] = read_query(sql, sources)
        reads = tuple(sorted({scan.source for scan in scans_of(query)}))
        recomputed = FullQuery(sql, reads, fields_of(query), query)
        views[f"v{number}"] = (make_recomputed_block(f"v{number}", recomputed, project),)
    return SitesWorld(plan_views(project, views, PlanOptions()), meanings, folder)


def find_makers(world: SitesWorld) -> dict[str, str]:
    """The sites at which views are made, by vertex."""
    return {
        name: site
        for site, one in world.worlds.items()
        for name, task in one.program.tasks.items()
        if isinstance(task.step, RecomputeStep)
    }


def find_followed(world: SitesWorld) -> set[str]:
    """Copies of views in full."""
    imports = (copy for one in world.worlds.values() for copy in one.program.imports.values())
    return {copy.name for copy in imports if copy.task.follows}


@pytest.mark.parametrize(
    ("text", "target", "is_sent"), [(AT_ONE, "m2", True), (AT_TWO, "m2", False), (AT_TWO, "m3", True)]
)
@settings(ANY_SIZE, max_examples=examples(6))
@given(data=st.data())
def test_views_in_full_are_right_whatever_happens_at_sites_and_between_them(
    text: str, target: str, is_sent: bool, data: st.DataObject
) -> None:
    with quick_folder() as folder:
        world = world_in_full([text], target, Path(folder))
        assert bool(find_followed(world)) == is_sent
        live(data, world, batches=3)


@settings(ANY_SIZE, max_examples=examples(6))
@given(data=st.data())
def test_a_copy_that_starts_between_two_pushes_starts_from_one(data: st.DataObject) -> None:
    """Its changes go on from what the view was at a push: rows as of any other time do not go with them."""
    with quick_folder() as folder:
        world = world_in_full([AT_ONE], "m2", Path(folder))
        world.capture(data.draw(tables(max_rows=6)))
        world.load()
        (copy,) = find_followed(world)
        maker = world.worlds["m1"]
        for _ in range(4):
            world.capture(data.draw(changes(world.history[world.now])))
            if data.draw(st.booleans()):
                (vertex,) = find_makers(world)
                assert [one.error for one in maker.engine.push([vertex], world.now) if one.error] == []
        world.worlds["m2"].engine.forget([copy])
        world.start_lost_anew()
        assert world.wrong() == []
        world.capture(data.draw(changes(world.history[world.now])))
        assert world.push("m2", list(world.worlds["m2"].program.tasks), world.now) == []
        assert world.wrong() == []


def test_a_copy_that_comes_from_another_site_starts_anew(tmp_path: Path) -> None:
    world = world_in_full([AT_ONE], "m2", tmp_path)
    now = world.worlds["m2"].program
    (copy,) = find_followed(world)
    assert find_turned(now, now) == []
    assert find_turned(replace(now, imports={}, logs={}), now) == [], "it was not there"
    assert find_turned(replace(now, imports={}), now) == [copy], "it was made here"
    elsewhere = {copy: replace(now.imports[copy], origin="m3")}
    assert find_turned(replace(now, imports=elsewhere), now) == [copy]
