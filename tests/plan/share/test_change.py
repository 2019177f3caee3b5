"""Contracts come and go while a plan runs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.errors import UsageError
from headrace.model.plan import Plan
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.price import bill_of, serves, tariff_of
from headrace.plan.share.arrangement import arrangement_of
from headrace.plan.share.change import add_contract, remove_contract
from tests.examples import examples
from tests.plan.share.projects import SITES, VIEWS, plan_for, shop, wanted

TERMS = st.tuples(st.sampled_from(sorted(VIEWS)), st.sampled_from(SITES), st.sampled_from((4.0, 30.0, 600.0)))
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 7), TERMS), min_size=1, max_size=14)


def assert_right(plan: Plan) -> None:
    """Judged by the checker, which derives everything from the document alone; and by pricing the graph anew."""
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []
    assert all(figures.serves for figures in plan.vertex_figures.values())
    promises = [kept.promise for kept in arrangement_of(plan).kept]
    bill = bill_of(plan.graph, tariff_of(plan.catalogue), serves(plan.graph, promises))
    assert plan.totals.rescost == pytest.approx(bill.rescost, rel=1e-12, abs=1e-18)
    assert plan.totals.cpu == {site: pytest.approx(cores) for site, cores in bill.cpu.items() if cores}
    assert set(serves(plan.graph, promises)) == set(plan.graph.vertices)


@settings(max_examples=examples(15), deadline=None)
@given(steps=STEPS, cores=st.sampled_from((None, 0.2, 0.02)))
def test_after_any_sequence_of_changes_everything_serves_somebody_and_every_promise_is_kept(steps, cores):
    plan = plan_for(cores=cores)
    for is_added, number, (view, at, freshness) in steps:
        name = f"C{number}"
        if is_added and name not in plan.catalogue.contracts:
            before = {entry.contract: (entry.critical_path_s, entry.critical_path) for entry in plan.contracts}
            plan = add_contract(plan, wanted(view, at, freshness, name))
            after = {entry.contract: (entry.critical_path_s, entry.critical_path) for entry in plan.contracts}
            assert {key: after[key] for key in before} == before
        elif not is_added and name in plan.catalogue.contracts:
            plan = remove_contract(plan, name)
        assert_right(plan)


def test_a_contract_that_comes_and_goes_leaves_nothing_behind():
    plan = plan_for(wanted("sales"), wanted("bought_items", "asia"))
    again = remove_contract(add_contract(plan, wanted("bought", "asia")), "bought_asia")
    assert again.graph == plan.graph
    assert again.totals.rescost == pytest.approx(plan.totals.rescost, rel=1e-12)


def test_what_a_contract_brought_stays_while_another_uses_it():
    plan = add_contract(plan_for(wanted("sales")), wanted("sales", "asia"))
    left = remove_contract(plan, "sales_eu")
    assert {entry.contract for entry in left.contracts} == {"sales_asia"}
    assert_right(left)


def test_adding_to_a_live_join_costs_a_copy_and_an_apply():
    plan = plan_for(wanted("sales"))
    more = add_contract(plan, wanted("sales", "asia"))
    assert len(more.graph.vertices) == len(plan.graph.vertices) + 2
    assert more.totals.rescost < 1.6 * plan.totals.rescost


def test_a_contract_for_which_no_room_is_left_is_refused_and_changes_nothing():
    plan = plan_for(wanted("sales"), cores=0.02)
    more = add_contract(plan, wanted("bought", "asia", 4.0))
    assert [entry.contract for entry in more.rejected] == ["bought_asia"]
    assert more.graph == plan.graph


def test_names_must_be_new_when_added_and_known_when_removed():
    plan = plan_for(wanted("sales"))
    with pytest.raises(UsageError, match="exists already"):
        add_contract(plan, wanted("sales"))
    with pytest.raises(UsageError, match="does not exist"):
        remove_contract(plan, "nobody")


def test_the_order_in_which_contracts_came_does_not_change_what_each_pays_in_sum():
    plan = plan_for(wanted("sales"), wanted("names", "asia", 4.0), wanted("by_country", "us", 600.0))
    shares = sum(entry.cost / (1 + entry.critical_path_s / entry.freshness_s) for entry in plan.contracts)
    assert shares == pytest.approx(plan.totals.rescost)
    assert shop().contracts == {}
