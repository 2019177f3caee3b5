"""A project planned on what runs: what is asked for as before stays as it is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.catalogue import Catalogue, Contract
from headrace.model.plan import Plan
from headrace.model.statistics import rate_of
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.figures import plan_of
from headrace.plan.make import make_plan, plan_on_running
from headrace.plan.share.adapt import adapt, look
from headrace.plan.share.arrangement import arrangement_of
from headrace.plan.share.change import add_contract, remove_contract
from headrace.plan.share.difference import difference
from headrace.plan.share.keeps import late_contracts
from headrace.plan.share.revalue import Measured, at_rates, cores_of_kept, revalue
from headrace.plan.share.watch import ConditionWatch
from tests.examples import examples
from tests.plan.share import nested
from tests.plan.share.projects import SITES, VIEWS, plan_for, shop, wanted, with_contracts


def assert_right(plan: Plan) -> None:
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []


def on_running(running: Plan, *contracts: Contract, catalogue: Catalogue | None = None) -> Plan:
    plan = plan_on_running(running, with_contracts(catalogue or shop(), contracts))
    assert_right(plan)
    return plan


def test_nothing_changes_when_the_project_asks_for_what_runs():
    running = plan_for(wanted("sales"), wanted("bought", "asia"), wanted("by_country", "us"))
    again = on_running(running, wanted("sales"), wanted("bought", "asia"), wanted("by_country", "us"))
    assert difference(running, again).is_nothing
    assert again.totals.rescost == pytest.approx(running.totals.rescost, rel=1e-12)


def test_what_came_one_by_one_stays_although_a_plan_from_nothing_would_differ():
    names = [("large", "eu"), ("sales", "asia"), ("bought", "us"), ("countries", "eu")]
    running = plan_for(wanted("names"))
    for view, at in names:
        running = add_contract(running, wanted(view, at))
    contracts = [wanted("names"), *(wanted(view, at) for view, at in names)]
    assert difference(running, on_running(running, *contracts)).is_nothing


def test_new_contracts_are_planned_on_what_runs_and_others_go():
    running = plan_for(wanted("sales"), wanted("bought", "asia"))
    then = on_running(running, wanted("sales"), wanted("sales", "asia"))
    found = difference(running, then)
    assert found.contracts_added == ("sales_asia",)
    assert found.contracts_removed == ("bought_asia",)
    expected = add_contract(remove_contract(running, "bought_asia"), wanted("sales", "asia"))
    assert then.graph == expected.graph
    assert set(found.reused) >= {c.vertex for c in running.contracts if c.contract == "sales_eu"}
    assert not found.rewired


def test_a_contract_with_another_freshness_or_site_is_planned_anew():
    running = plan_for(wanted("sales"), wanted("names"))
    sooner = on_running(running, wanted("sales", freshness=10.0), wanted("names"))
    assert difference(running, sooner).contracts_changed == ("sales_eu",)
    elsewhere = on_running(running, replace(wanted("sales"), site="asia"), wanted("names"))
    assert {entry.contract: entry.site for entry in elsewhere.contracts} == {"sales_eu": "asia", "names_eu": "eu"}


def test_a_contract_whose_view_was_rewritten_is_planned_anew():
    running = plan_for(wanted("sales"), wanted("names"))
    views = {**shop().views, "sales": replace(shop().views["large"], name="sales")}
    then = on_running(running, wanted("sales"), wanted("names"), catalogue=replace(shop(), views=views))
    view = next(entry.vertex for entry in then.contracts if entry.contract == "sales_eu")
    assert view not in running.graph.vertices
    assert view.partition("~")[0] == "r:customers,orders@eu"


def moved_for(rate: float) -> Plan:
    """A plan that was moved because customers change more than declared."""
    plan, found = plan_for(wanted("sales")), Measured(0, rates={"customers": rate})
    proposal = adapt(plan, replace(found, clock_s=60.0), look(ConditionWatch(), plan, found))
    assert proposal is not None
    return proposal.plan


def test_what_was_moved_for_measured_rates_is_not_moved_back():
    running = moved_for(200.0)
    again = on_running(running, wanted("sales"))
    assert difference(running, again).is_nothing
    assert rate_of(again.catalogue.sources["customers"]) == 200.0
    assert {entry.contract for entry in on_running(running, wanted("sales"), wanted("names")).contracts} == {
        "sales_eu",
        "names_eu",
    }


def test_a_rate_that_is_declared_anew_replaces_the_measured_one():
    sources = dict(shop().sources)
    sources["customers"] = replace(sources["customers"], rate=3.0)
    again = on_running(moved_for(200.0), wanted("sales"), catalogue=replace(shop(), sources=sources))
    assert rate_of(again.catalogue.sources["customers"]) == 3.0


def test_a_contract_that_is_late_as_measured_keeps_what_it_has():
    plan = plan_for(wanted("sales"), wanted("bought", "asia"))
    now = arrangement_of(plan)
    catalogue = at_rates(now.catalogue, {"orders": 1e6})
    running = plan_of(revalue(now, catalogue, cores_of_kept(now, catalogue)))
    assert late_contracts(arrangement_of(running))
    again = plan_on_running(running, with_contracts(shop(), [wanted("sales"), wanted("bought", "asia")]))
    assert difference(running, again).is_nothing


def test_what_is_new_must_have_time_to_wait_for_what_runs():
    running, asked = plan_for(wanted("sales")), (wanted("sales"), wanted("names", freshness=2.0))
    assert not on_running(running, *asked).rejected
    waiting = replace(running.catalogue, headroom=replace(running.catalogue.headroom, blocking_s=0.95))
    catalogue = replace(shop(), headroom=replace(shop().headroom, blocking_s=None))
    then = on_running(replace(running, catalogue=waiting), *asked, catalogue=catalogue)
    assert [(one.contract, one.reason) for one in then.rejected] == [("names_eu", "freshness")]
    assert then.rejected[0].detail.endswith("of changes, and 50 ms are left")
    worse = replace(waiting, headroom=replace(waiting.headroom, blocking_s=1.5))
    then = on_running(replace(running, catalogue=worse), *asked, catalogue=catalogue)
    assert then.rejected[0].detail.endswith("of changes, and it may have to wait 1.5 s for others")
    declared = replace(catalogue, headroom=replace(catalogue.headroom, blocking_s=0.0))
    assert not on_running(replace(running, catalogue=waiting), *asked, catalogue=declared).rejected


def test_what_runs_is_valued_at_the_statistics_of_today():
    running = plan_for(wanted("sales"))
    sources = {**shop().sources, "orders": replace(shop().sources["orders"], rate=100.0)}
    busier = on_running(running, wanted("sales"), catalogue=replace(shop(), sources=sources))
    assert difference(running, busier).added == ()
    assert busier.totals.rescost > running.totals.rescost


def test_a_contract_that_would_be_late_now_is_planned_anew_or_refused():
    running = plan_for(wanted("sales", freshness=4.0))
    sources = {**shop().sources, "orders": replace(shop().sources["orders"], rate=5e5)}
    then = on_running(running, wanted("sales", freshness=4.0), catalogue=replace(shop(), sources=sources))
    assert [entry.contract for entry in then.rejected] == ["sales_eu"]


def test_when_a_site_goes_contracts_that_used_it_are_planned_anew():
    running = plan_for(wanted("sales", "asia"), wanted("names"))
    here = shop()
    sites = {name: site for name, site in here.sites.items() if name != "asia"}
    links = tuple(link for link in here.links if "asia" not in (link.src, link.dst))
    then = on_running(running, wanted("names"), catalogue=replace(here, sites=sites, links=links))
    assert {vertex.site for vertex in then.graph.vertices.values()} <= {"us", "eu"}


def test_forms_that_were_chosen_stay():
    contracts = [nested.wanted("over_7"), nested.wanted("over_5"), nested.wanted("count_over_7", "us")]
    running = nested.plan_for(*contracts)
    assert difference(running, on_running(running, *contracts, catalogue=nested.shop())).is_nothing


TERMS = st.lists(
    st.tuples(st.sampled_from(sorted(VIEWS)), st.sampled_from(SITES), st.sampled_from((10.0, 60.0))),
    max_size=4,
    unique_by=lambda terms: terms[:2],
)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(first=TERMS, second=TERMS)
def test_going_from_one_project_to_another_keeps_what_both_ask_for(first, second):
    running = plan_for(*(wanted(*terms) for terms in first))
    then = on_running(running, *(wanted(*terms) for terms in second))
    kept = {wanted(*terms).name for terms in first if terms in second}
    vertices = {entry.contract: entry.vertex for entry in running.contracts}
    assert {name: vertices[name] for name in kept} == {
        entry.contract: entry.vertex for entry in then.contracts if entry.contract in kept
    }
    made = make_plan(with_contracts(shop(), (wanted(*terms) for terms in second)))
    assert {entry.contract for entry in then.contracts} == {entry.contract for entry in made.contracts}
