"""What is refused never takes away what runs: its earlier version goes on, and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.coordinate.existing import Existing
from headrace.coordinate.steps import compile_with, steps_between
from headrace.model.catalogue import Catalogue, Contract, Stays
from headrace.model.plan import Plan
from headrace.model.relation import Projection
from headrace.model.steps import KeepContract
from headrace.plan.document import plan_document
from headrace.plan.share.difference import difference
from headrace.plan.versions import Asked, plan_versions
from headrace.run.compile.compile_plan import compile_plan
from tests.plan.share.projects import plan_for, shop, wanted, with_contracts
from tests.plan.share.test_on_running import assert_right


def rewritten(catalogue: Catalogue, **views: str) -> Catalogue:
    """The project with the queries of other views under the names of some."""
    there = catalogue.views
    return replace(catalogue, views={**there, **{name: replace(there[of], name=name) for name, of in views.items()}})


def plan_on(running: Plan, catalogue: Catalogue, *contracts: Contract) -> Plan:
    plan, _ = plan_versions(running, Asked(with_contracts(catalogue, contracts)))
    compile_plan(plan)
    assert_right(waiting(plan, 0.0))
    return plan


def waiting(plan: Plan, seconds: float) -> Plan:
    """As it runs on a machine where pushes wait so long for each other."""
    headroom = replace(plan.catalogue.headroom, blocking_s=seconds, measured=True)
    return replace(plan, catalogue=replace(plan.catalogue, headroom=headroom))


def measured_headroom(catalogue: Catalogue) -> Catalogue:
    return replace(catalogue, headroom=replace(catalogue.headroom, blocking_s=None))


def vertex_of(plan: Plan, contract: str) -> str:
    return next(one.vertex for one in plan.contracts if one.contract == contract)


def test_a_query_that_is_refused_leaves_the_one_that_runs():
    contract = wanted("sales", freshness=2.0)
    running = waiting(plan_for(contract), 5.0)
    edited = rewritten(measured_headroom(shop()), sales="bought")
    then = plan_on(running, edited, contract)
    assert vertex_of(then, "sales_eu") == vertex_of(running, "sales_eu")
    assert [(one.contract, one.because.reason) for one in then.goes_on] == [("sales_eu", "freshness")]
    assert then.runs_earlier("sales_eu") and not then.rejected
    change = difference(running, then)
    assert change.refused == ("sales_eu",) and not change.added and not change.removed
    steps = steps_between(compile_with(running, {}), compile_with(then, {}), Existing())
    assert [step.contract for step in steps if isinstance(step, KeepContract)] == ["sales_eu"]
    again = plan_on(then, edited, contract)
    assert difference(then, again).is_nothing and again.goes_on == then.goes_on
    third = plan_on(again, rewritten(measured_headroom(shop()), sales="by_country"), contract)
    assert vertex_of(third, "sales_eu") == vertex_of(running, "sales_eu") and third.runs_earlier("sales_eu")
    back = plan_on(third, measured_headroom(shop()), contract)
    assert not back.goes_on and difference(running, back).is_nothing
    calm = plan_on(waiting(third, 0.0), edited, contract)
    assert not calm.goes_on and vertex_of(calm, "sales_eu") != vertex_of(running, "sales_eu")


def test_a_query_that_costs_no_more_than_the_one_that_runs_is_admitted_however_long_pushes_wait():
    contract = wanted("bought", freshness=2.0)
    running = waiting(plan_for(contract), 5.0)
    then = plan_on(running, rewritten(measured_headroom(shop()), bought="names"), contract)
    assert not then.goes_on and not then.rejected
    assert vertex_of(then, "bought_eu") != vertex_of(running, "bought_eu")
    new = plan_on(running, measured_headroom(shop()), contract, wanted("names", freshness=2.0))
    assert [one.contract for one in new.rejected] == ["names_eu"]


def test_two_versions_of_one_view_run_side_by_side():
    quick, slow = wanted("by_country", freshness=2.0, name="quick"), wanted("by_country", freshness=600.0, name="slow")
    running = waiting(plan_for(quick, slow), 5.0)
    edited = rewritten(measured_headroom(shop()), by_country="top")
    then = plan_on(running, edited, quick, slow, wanted("by_country", "asia", 600.0, "later"))
    assert [one.contract for one in then.goes_on] == ["quick"]
    assert vertex_of(then, "quick") == vertex_of(running, "quick")
    views = {one.contract: one.view for one in then.contracts}
    assert views["quick"] == "by_country" and views["slow"] == views["later"] != "by_country"
    again = plan_on(then, edited, quick, slow, wanted("by_country", "asia", 600.0, "later"))
    assert difference(then, again).is_nothing
    document = plan_document(then)
    assert {one["view"] for one in document["contracts"]} == {"by_country"}, "people read the name that they gave"
    assert {one["id"]: one.get("block") for one in document["contracts"]} == {
        "quick": None,
        "slow": views["slow"],
        "later": views["slow"],
    }
    alone = plan_on(again, edited, slow)
    assert vertex_of(alone, "slow") == vertex_of(then, "slow")
    third = plan_on(again, rewritten(measured_headroom(shop()), by_country="bought"), quick, slow)
    assert vertex_of(third, "quick") == vertex_of(running, "quick")


def test_what_may_not_be_where_it_runs_stops_and_says_so():
    contract = wanted("sales", freshness=2.0)
    running = waiting(plan_for(contract), 5.0)
    sources = {**shop().sources, "orders": replace(shop().sources["orders"], stays=Stays(("us",)))}
    edited = replace(rewritten(measured_headroom(shop()), sales="bought"), sources=sources)
    then = plan_on(running, edited, contract)
    assert not then.contracts and not then.goes_on
    assert [(one.contract, one.reason) for one in then.rejected] == [("sales_eu", "stays:orders")]


@pytest.mark.parametrize("view", ["sales", "by_country"])
def test_other_sites_for_rows_reload_nothing_that_may_stay_where_it_is(view: str):
    """Neither a version that is held, since its edit is refused, nor a contract that was not edited."""
    contract = wanted(view, freshness=2.0)
    running = waiting(plan_for(contract), 5.0)
    for edit in (rewritten(measured_headroom(shop()), **{view: "bought"}), shop()):
        for sites in (("us", "eu"), ("us", "eu", "asia")):
            sources = {name: replace(source, stays=Stays(sites)) for name, source in shop().sources.items()}
            then = plan_on(running, replace(edit, sources=sources), contract)
            assert not then.rejected and vertex_of(then, f"{view}_eu") == vertex_of(running, f"{view}_eu")
            change = difference(running, then)
            assert not change.added and not change.removed


def test_aggregates_that_may_leave_go_on_and_stop_when_they_may_not():
    contract = wanted("by_country", freshness=60.0)
    running = plan_for(contract)

    def plan_with(stays: Stays) -> Plan:
        sources = {name: replace(source, stays=stays) for name, source in shop().sources.items()}
        return plan_on(running, replace(shop(), sources=sources), contract)

    sites = tuple(sorted({source.site for source in shop().sources.values()}))
    then = plan_with(Stays((*sites, "us"), aggregates_anywhere=True))
    assert not then.rejected and then.contracts
    stopped = plan_with(Stays(tuple(site for site in (*sites, "us") if site != "eu")))
    assert [one.contract for one in stopped.rejected] == ["by_country_eu"] and not stopped.contracts


def test_what_reads_a_source_that_is_gone_stops_and_says_so():
    contract = wanted("bought_items", freshness=2.0)
    running = waiting(plan_for(contract), 5.0)
    names = ("sales", "names", "bought_items")
    views = {name: view for name, view in shop().views.items() if name in names}
    edited = rewritten(replace(measured_headroom(shop()), views=views), bought_items="sales")
    sources = {name: source for name, source in shop().sources.items() if name != "items"}
    then = plan_on(running, replace(edited, sources=sources), contract)
    assert not then.contracts
    assert [(one.contract, one.reason) for one in then.rejected] == [("bought_items_eu", "source:items")]
    assert then.rejected[0].detail == 'the earlier version cannot continue: source "items" is gone'


def with_cores(catalogue: Catalogue, cores: float) -> Catalogue:
    return replace(catalogue, sites={name: replace(site, cores=cores) for name, site in catalogue.sites.items()})


def test_what_does_not_fit_any_more_goes_on_and_is_named_until_it_fits():
    contracts = (wanted("bought", "us"), wanted("by_country", "us"))
    running = plan_for(*contracts)
    used = running.totals.cpu["us"]
    then = plan_on_without_checking(running, with_cores(shop(), used / 4), *contracts)
    assert {one.contract for one in then.contracts} == {"bought_us", "by_country_us"}
    assert {one.contract for one in then.goes_on} and not then.rejected
    assert not any(then.runs_earlier(one.contract) for one in then.goes_on)
    again = plan_on_without_checking(then, with_cores(shop(), used / 4), *contracts)
    assert again.goes_on == then.goes_on
    new = plan_on_without_checking(again, with_cores(shop(), used / 4), *contracts, wanted("by_product", "us"))
    assert [one.contract for one in new.rejected] == ["by_product_us"]
    fits = plan_on(new, with_cores(shop(), used * 2), *contracts)
    assert not fits.goes_on


def plan_on_without_checking(running: Plan, catalogue: Catalogue, *contracts: Contract) -> Plan:
    """The checker of plans knows that capacities are exceeded, and says so."""
    return plan_versions(running, Asked(with_contracts(catalogue, contracts)))[0]


def test_columns_that_are_called_otherwise_are_taken_over_without_loading_anything():
    contract = wanted("sales")
    running = plan_for(contract)
    view = shop().views["sales"]
    query = view.query
    assert isinstance(query, Projection)
    outputs = tuple(replace(one, name=f"{one.name}_") for one in query.outputs)
    edited = replace(shop(), views={**shop().views, "sales": replace(view, query=replace(query, outputs=outputs))})
    then = plan_on(running, edited, contract)
    assert vertex_of(then, "sales_eu") == vertex_of(running, "sales_eu")
    (block,) = [one.block for one in then.blocks if one.block.id == "sales"]
    assert [one.name for one in block.outputs] == ["oid_", "cid_", "total_", "country_"]
    assert difference(running, then).contracts_changed == ("sales_eu",)


@pytest.mark.parametrize("from_nothing", [False, True])
def test_a_promise_that_is_refused_leaves_the_one_that_runs(from_nothing: bool):
    running = plan_for(wanted("sales", freshness=4.0))
    asked = Asked(with_contracts(shop(), [wanted("sales", freshness=0.01)]), from_nothing=from_nothing)
    then, _ = plan_versions(running, asked)
    assert [(one.contract, one.freshness_s) for one in then.contracts] == [("sales_eu", 4.0)]
    assert then.runs_earlier("sales_eu")


def test_a_forced_contract_whose_other_promise_is_refused_goes_on_as_it_was():
    declared = with_contracts(shop(), [wanted("sales", freshness=0.01)])
    running, promised = plan_versions(None, Asked(declared, force=("sales_eu",)))
    assert promised == {"sales_eu": 0.01}
    sooner = with_contracts(shop(), [wanted("sales", freshness=0.005)])
    then, still = plan_versions(running, Asked(sooner), promised)
    assert still == promised and then.runs_earlier("sales_eu")
    assert {one.vertex for one in then.contracts} == {one.vertex for one in running.contracts}
