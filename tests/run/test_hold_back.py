"""A site whose contracts go over to another plan one by one: each is right, however many go on as before."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.plan import Plan, PlanOptions
from headrace.model.plan_modes import WideArea
from headrace.plan.share.hold_back import hold_back, may_be_held
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.compile.keep_for_others import find_needed_copies, keep_for_others
from headrace.testing import changes, tables
from headrace.testing.worlds import quick_folder
from tests.examples import examples
from tests.run.sites_world import SitesWorld
from tests.run.test_crashes import VIEWS
from tests.run.test_engine import ANY_SIZE, world_of
from tests.run.test_sites import apart

MORE = [*VIEWS, "SELECT s.k, count(*) AS c FROM s GROUP BY s.k"]
OTHERWISE = PlanOptions(wide_area=WideArea.MAX_SHARE)


def plan_otherwise(texts: list[str], folder: Path) -> Plan:
    (folder / "later").mkdir()
    return world_of(texts, "m2", folder / "later", options=OTHERWISE).plan


def go_over(world: SitesWorld, later: Plan, held: list[str]) -> None:
    """All sites run another plan from now on; at one of them some contracts go on as before, and others keep for it
    what these read.
    """
    copies = find_needed_copies(compile_plan(world.plan), ["m2"])
    for site, one in world.worlds.items():
        plan = later.at_site(site)
        if site == "m2":
            plan = hold_back(one.plan, plan, held)
        program = compile_plan(plan)
        if site != "m2":
            program = keep_for_others(program, one.program, copies)
        gone = [name for name in one.program.logs if name not in program.logs]
        one.engine.forget([name for name in gone if name in one.program.tasks])
        one.plan, one.program = plan, program
        one.engine.push_program(program)
    world.plan = later


@settings(ANY_SIZE, max_examples=examples(10))
@given(st.data(), st.lists(st.sampled_from(["c_v0", "c_v1", "c_v2"]), unique=True))
def test_contracts_that_are_held_back_and_those_that_are_not_are_right(data, held):
    with quick_folder() as folder:
        world = apart(VIEWS, "m2", Path(folder))
        later = plan_otherwise(VIEWS, Path(folder))
        world.capture(data.draw(tables(max_rows=4)))
        world.load()
        go_over(world, later, held)
        world.worlds["m2"].engine.start_imports(world.worlds["m2"].program)
        world.load()
        world.worlds["m2"].engine.start_states()
        for _ in range(3):
            world.capture(data.draw(changes(world.history[world.now])))
            assert world.push("m2", list(world.worlds["m2"].program.tasks), world.now) == []
            assert world.worlds["m2"].wrong() == []


def test_the_plans_make_contracts_in_different_ways(tmp_path: Path):
    before, later = world_of(VIEWS, "m2", tmp_path).plan, plan_otherwise(VIEWS, tmp_path)
    assert before.graph.edges != later.graph.edges, "or nothing is tested above"
    held = hold_back(before.at_site("m2"), later.at_site("m2"), ["c_v0", "c_v1", "c_v2"])
    ways = {name: edge for name, edge in held.graph.edges.items() if name in before.graph.edges}
    assert ways == before.graph.edges and held.contracts == before.contracts


def test_a_contract_whose_query_has_changed_is_not_held_back_under_its_name(tmp_path: Path):
    before = world_of(VIEWS, "m2", tmp_path).plan.at_site("m2")
    later = plan_otherwise([VIEWS[0], MORE[3], VIEWS[2]], tmp_path).at_site("m2")
    assert [may_be_held(before, later, name) for name in ("c_v0", "c_v1", "c_v2")] == [True, False, True]


@pytest.mark.parametrize("name", ["c_v9", "c_v2"])
def test_only_contracts_of_both_plans_are_held_back(tmp_path: Path, name: str):
    before = world_of(VIEWS, "m2", tmp_path).plan.at_site("m2")
    assert not may_be_held(before, plan_otherwise(VIEWS[:2], tmp_path).at_site("m2"), name)
