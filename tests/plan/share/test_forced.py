"""Contracts that are kept although they were refused: they take what the others leave, and keep none of them out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.catalogue import Contract
from headrace.model.errors import UsageError
from headrace.model.explanation import ImaginedChange
from headrace.model.plan import Plan
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.explain import what_if_running
from headrace.plan.forced import plan_with_forced
from headrace.plan.make import plan_on_running
from headrace.plan.share.arrangement import arrangement_of
from headrace.plan.share.difference import difference
from headrace.plan.share.keeps import has_room
from tests.examples import examples
from tests.plan.share.projects import SITES, VIEWS, plan_for, shop, wanted, with_contracts
from tests.plan.share.test_on_running import assert_right

CORES = 0.25
"""Of each site: room for some views, not for all."""


def forced(contract: Contract) -> Contract:
    return replace(contract, forced=True)


def kept(plan: Plan) -> set[str]:
    return {entry.contract for entry in plan.contracts}


def test_what_is_forced_is_planned_beyond_all_capacities_and_marked():
    refused = plan_for(wanted("bought", "us", freshness=1.0), cores=CORES)
    assert [one.reason for one in refused.rejected] == ["cpu:us"]
    plan = plan_for(forced(wanted("bought", "us", freshness=1.0)), cores=CORES)
    assert kept(plan) == {"bought_us"}
    assert plan.totals.cpu["us"] > CORES
    assert plan_document(plan)["contracts"][0]["forced"] is True
    assert_right(plan)


def test_what_no_plan_does_in_time_is_refused_even_if_it_is_forced_with_what_could_be_kept():
    plan = plan_for(forced(wanted("bought", freshness=0.1)), cores=CORES)
    (refused,) = plan.rejected
    assert refused.reason == "freshness"
    assert refused.smallest_staleness_s is not None
    assert kept(plan_for(forced(wanted("bought", freshness=refused.smallest_staleness_s)), cores=CORES))


def test_the_checker_counts_what_is_not_forced_against_capacities():
    document = plan_document(plan_for(wanted("sales"), forced(wanted("bought", "us", freshness=1.0)), cores=CORES))
    assert check_document(document) == []
    document["contracts"][1]["forced"] = False
    assert any("more than may be used" in what for _, what in check_document(document))
    document["contracts"][1]["forced"] = True
    for site in document["catalogue"]["sites"]:
        site["cpu_cap"] = 1e-6
    assert any("more than may be used" in what for _, what in check_document(document))


def test_several_are_forced_one_after_another_and_others_still_come():
    catalogue, first = shop(CORES), forced(wanted("bought", "us", freshness=1.0))
    running = plan_for(first, cores=CORES)
    second = forced(wanted("bought_items", freshness=1.0))
    running = plan_on_running(running, with_contracts(catalogue, [first, second]))
    assert kept(running) == {"bought_us", "bought_items_eu"}
    ordinary = wanted("sales", freshness=10.0)
    then = plan_on_running(running, with_contracts(catalogue, [first, second, ordinary]))
    assert kept(then) == {"bought_us", "bought_items_eu", "sales_eu"}
    assert not difference(running, then).rewired
    assert has_room(arrangement_of(then))


def test_one_that_is_not_forced_any_more_is_asked_about_again():
    running = plan_for(forced(wanted("bought", "us", freshness=1.0)), cores=CORES)
    then = plan_on_running(running, with_contracts(shop(CORES), [wanted("bought", "us", freshness=1.0)]))
    assert not then.contracts
    assert [one.contract for one in then.rejected] == ["bought_us"]


def test_whatif_asks_about_another_freshness_as_if_it_were_not_forced():
    running = plan_for(forced(wanted("bought", "us", freshness=1.0)), cores=CORES)
    assert not what_if_running(running, "bought_us", ImaginedChange(freshness_s=2.0)).after.kept
    assert what_if_running(running, "bought_us", ImaginedChange(freshness_s=20.0)).after.kept


@pytest.mark.parametrize("running", [{}, {"bought_us": 30.0}])
def test_what_is_forced_is_planned_for_what_it_asks_for_and_what_runs_stays_as_it_is(running: dict[str, float]):
    declared = with_contracts(shop(CORES), [wanted("bought", "us", freshness=1.0)])
    plan, promised = plan_with_forced(None, declared, running, () if running else ("bought_us",))
    assert promised == {"bought_us": 1.0}
    assert [entry.freshness_s for entry in plan.contracts] == [running.get("bought_us", 1.0)]


def test_what_nothing_is_fast_enough_for_is_planned_for_the_smallest_that_is_possible():
    declared = with_contracts(shop(CORES), [wanted("bought", freshness=0.1), wanted("sales", freshness=0.1)])
    plan, promised = plan_with_forced(None, declared, {}, ("bought_eu", "sales_eu"))
    assert promised == {"bought_eu": 0.1, "sales_eu": 0.1}
    assert [0.1 < entry.freshness_s < 2.0 for entry in plan.contracts] == [True, True]


def test_what_cannot_be_made_at_all_cannot_be_forced_and_stays_refused_if_it_was():
    links = tuple(link for link in shop(CORES).links if "asia" not in (link.src, link.dst))
    declared = with_contracts(replace(shop(CORES), links=links), [wanted("bought", "asia")])
    with pytest.raises(UsageError, match="cannot be forced: no links lead"):
        plan_with_forced(None, declared, {}, ("bought_asia",))
    plan, promised = plan_with_forced(None, declared, {"bought_asia": 60.0})
    assert not promised and [one.contract for one in plan.rejected] == ["bought_asia"]


CONTRACTS = st.builds(
    wanted, st.sampled_from(sorted(VIEWS)), st.sampled_from(SITES), st.sampled_from([2.0, 5.0, 20.0, 60.0])
)


@given(st.lists(CONTRACTS, max_size=5, unique_by=lambda one: one.name), st.lists(CONTRACTS, min_size=1, max_size=3))
@settings(max_examples=examples(30), deadline=None)
def test_what_is_forced_keeps_no_other_out(ordinary: list[Contract], more: list[Contract]):
    extra = [forced(replace(one, name=f"forced_{place}")) for place, one in enumerate(more)]
    alone = plan_for(*ordinary, cores=CORES)
    together = plan_for(*ordinary, *extra, cores=CORES)
    assert kept(together) - {one.name for one in extra} == kept(alone)
    assert has_room(arrangement_of(together))
    assert_right(together)


@given(st.lists(CONTRACTS, max_size=4, unique_by=lambda one: one.name), st.lists(CONTRACTS, min_size=1, max_size=2))
@settings(max_examples=examples(30), deadline=None)
def test_what_comes_later_is_admitted_as_if_nothing_were_forced(later: list[Contract], more: list[Contract]):
    extra = [forced(replace(one, name=f"forced_{place}")) for place, one in enumerate(more)]
    running = plan_for(*extra, cores=CORES)
    still = [one for one in extra if one.name in kept(running)]
    then = plan_on_running(running, with_contracts(shop(CORES), [*still, *later]))
    expected = plan_on_running(plan_for(cores=CORES), with_contracts(shop(CORES), later))
    assert kept(then) == kept(expected) | kept(running)
    assert has_room(arrangement_of(then))
    assert_right(then)
    admitted = [one for one in (*still, *later) if one.name in kept(then)]
    assert difference(then, plan_on_running(then, with_contracts(shop(CORES), admitted))).is_nothing
