"""What changes between two plans."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.plan import Plan
from headrace.plan.share.change import add_contract, remove_contract
from headrace.plan.share.difference import difference
from tests.plan.share.projects import plan_for, wanted


def test_a_plan_does_not_differ_from_itself():
    plan = plan_for(wanted("sales"), wanted("bought", "asia"))
    found = difference(plan, plan)
    assert found.is_nothing
    assert set(found.reused) == set(plan.graph.vertices)


def test_a_new_contract_adds_its_own_vertices_and_reuses_all_others():
    plan = plan_for(wanted("sales"))
    more = add_contract(plan, wanted("sales", "asia"))
    found = difference(plan, more)
    assert set(found.reused) == set(plan.graph.vertices)
    assert set(found.added) == set(more.graph.vertices) - set(plan.graph.vertices)
    assert (found.removed, found.moved, found.rewired) == ((), (), ())
    assert found.contracts_added == ("sales_asia",)
    assert found.cost_after > found.cost_before


def test_the_difference_back_is_the_difference_there_reversed():
    plan = plan_for(wanted("sales"))
    more = add_contract(plan, wanted("bought", "asia"))
    there, back = difference(plan, more), difference(more, plan)
    assert (there.added, there.removed) == (back.removed, back.added)
    assert (there.contracts_added, there.contracts_removed) == (back.contracts_removed, back.contracts_added)


def test_a_view_that_is_wanted_elsewhere_has_moved():
    here, there = plan_for(wanted("sales", "eu", name="S")), plan_for(wanted("sales", "asia", name="S"))
    found = difference(here, there)
    assert (here.contracts[0].vertex, there.contracts[0].vertex) in found.moved
    assert found.contracts_changed == ("S",)
    everything = {*found.added, *found.reused, *found.rewired, *(target for _, target in found.moved)}
    assert everything == set(there.graph.vertices)


def test_removing_and_adding_again_is_no_difference():
    plan = plan_for(wanted("sales"), wanted("names", "us"))
    assert difference(plan, add_contract(remove_contract(plan, "names_us"), wanted("names", "us"))).added == ()


def with_another_shape(plan: Plan, source: str) -> Plan:
    """The same plan of a project that declares a source otherwise."""
    sources = plan.catalogue.sources
    return replace(
        plan, catalogue=replace(plan.catalogue, sources={**sources, source: replace(sources[source], static=True)})
    )


def test_what_is_computed_from_a_source_that_is_read_again_does_not_stay_as_it_is():
    plan = plan_for(wanted("sales"), wanted("by_product", "us"))
    found = difference(plan, with_another_shape(plan, "orders"))
    vertices = {entry.view: entry.vertex for entry in plan.contracts}
    assert found.reread == ("orders",)
    assert vertices["sales"] in found.rebuilt
    assert vertices["by_product"] in found.reused
    assert sorted((*found.rebuilt, *found.reused)) == sorted(plan.graph.vertices)
