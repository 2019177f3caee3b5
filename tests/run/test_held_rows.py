"""Rows of a source that a site gives another one, which checks a view with them: of any time that is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Stays
from headrace.model.plan import Plan
from headrace.model.relation import Relation
from headrace.model.types import Row
from headrace.run.push.engine import NotThereYet
from headrace.run.push.exports import NotForReader
from headrace.run.rows.arrow import rows_of_arrow
from headrace.site.held_rows import find_columns_for, read_held_rows
from headrace.testing.worlds import quick_folder
from tests.examples import examples
from tests.run.sites_world import SitesWorld
from tests.run.test_engine import ANY_SIZE
from tests.running.test_comparing_across import plan_three


def world_of_three(folder: Path) -> SitesWorld:
    """Site a has a view of its own source `one` and of `two`, which is at site b; site c has one of both."""
    plan = plan_three()
    found = {name: view.query for name, view in plan.catalogue.views.items()}
    return SitesWorld(plan, {name: query for name, query in found.items() if isinstance(query, Relation)}, folder)


def read(world: SitesWorld, giver: str, site: str, source: str, t: int, stays: Stays | None = None) -> ZSet:
    one = world.worlds[giver]
    asked = site, source, t
    rows = read_held_rows(one.plan, one.program, (one.ledger, one.store), asked, {source: stays})
    return ZSet.of(rows_of_arrow(rows))


ROWS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from("xyz")), max_size=6, unique_by=lambda row: row[0]
)


@settings(ANY_SIZE, max_examples=examples(10))
@given(st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=4))
def test_rows_are_those_of_the_time_that_is_asked_for(batches: list[tuple[list[Row], list[Row]]]) -> None:
    with quick_folder() as folder:
        world = world_of_three(Path(folder))
        times = []
        for number, (ones, twos) in enumerate(batches):
            before = world.history[world.now]
            wanted = {"one": ZSet.of(ones), "two": ZSet.of(twos)}
            world.capture({name: rows - before[name] for name, rows in wanted.items()})
            if number == 0:
                world.load()
            for site, one in world.worlds.items():
                assert world.push(site, list(one.program.tasks), world.now) == []
            times.append((world.now, ones, twos))
        for t, ones, twos in times:
            assert read(world, "b", "a", "two", t) == choose(world, "two", "a", twos)
            assert read(world, "a", "c", "one", t) == choose(world, "one", "c", ones)


def choose(world: SitesWorld, source: str, site: str, rows: list[Row]) -> ZSet:
    """The columns of rows that a site gets."""
    columns = find_columns_for(world.plan, source, site)
    assert columns
    return ZSet.of([tuple(row["id x y".split().index(column)] for column in columns) for row in rows])


def test_a_site_gets_what_its_views_read_and_nothing_else(tmp_path: Path) -> None:
    world = world_of_three(tmp_path)
    world.capture({"one": ZSet.of([(1, 2, "x")]), "two": ZSet.of([(1, 2, "x")])})
    world.load()
    plan: Plan = world.worlds["b"].plan
    assert {"id", "y"} <= set(find_columns_for(plan, "two", "a")) and find_columns_for(plan, "two", "b") == ()
    with pytest.raises(NotForReader, match='no view of site "a" reads source "three"'):
        read(world, "c", "a", "three", world.now)
    with pytest.raises(NotForReader, match="may not be at site"):
        read(world, "b", "a", "two", world.now, Stays(("b",), True))
    with pytest.raises(NotThereYet):
        read(world, "b", "a", "two", world.now + 1)
