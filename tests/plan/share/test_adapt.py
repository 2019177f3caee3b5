"""When what is measured differs from what was planned."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headrace.model.catalogue import Catalogue, Contract, Link
from headrace.model.plan import Operator, Plan
from headrace.model.statistics import rate_of
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.figures import plan_of
from headrace.plan.make import make_plan, plan_on_running
from headrace.plan.share.adapt import MoveRecord, Proposal, adapt, improve, look, may_move
from headrace.plan.share.arrangement import Arrangement, arrangement_of
from headrace.plan.share.change import add_contract
from headrace.plan.share.difference import difference
from headrace.plan.share.revalue import Measured, as_measured, cores_of_kept, raw_filter, revalue
from headrace.plan.share.watch import ConditionKind, ConditionWatch, WatchedCondition, conditions, find_concerned
from tests.plan.share.projects import plan_for, shop, wanted, with_contracts

NOWHERE = frozenset[str]()


def after(plan: Plan, measured: Measured, seconds: float) -> tuple[ConditionWatch, Measured]:
    """The same measurement, once and again some seconds later."""
    later = replace(measured, clock_s=measured.clock_s + seconds)
    return look(look(ConditionWatch(), plan, measured), plan, later), later


def proposed(plan: Plan, measured: Measured, history: tuple[MoveRecord, ...] = ()) -> Proposal | None:
    watched, later = after(plan, measured, 100.0)
    return adapt(plan, later, watched, history)


# Statistics


@pytest.mark.parametrize("view", ["sales", "bought", "by_country", "top", "large"])
def test_a_plan_at_other_rates_has_the_figures_that_planning_at_these_rates_gives(view: str):
    plan = plan_for(wanted(view, "asia", 120.0))
    now = arrangement_of(plan)
    sources = {name: replace(source, rate=(source.rate or 0) * 3) for name, source in shop().sources.items()}
    catalogue = replace(plan.catalogue, sources=sources)
    found = plan_of(revalue(now, catalogue, cores_of_kept(now, catalogue)))
    assert check_document(json.loads(json.dumps(plan_document(found)))) == []


def test_at_the_planned_rates_nothing_changes():
    plan = plan_for(wanted("bought", "asia"), wanted("by_country", "us"))
    now = arrangement_of(plan)
    found = plan_of(revalue(now, plan.catalogue, cores_of_kept(now, plan.catalogue)))
    assert found.totals.rescost == pytest.approx(plan.totals.rescost, rel=1e-12)
    assert {name: figures.rate for name, figures in found.vertex_figures.items()} == {
        name: pytest.approx(figures.rate, rel=1e-12) for name, figures in plan.vertex_figures.items()
    }


# Triggers


@pytest.mark.parametrize(
    ("measured", "condition", "lasts_s"),
    [
        (Measured(0, load={("us", "eu"): 0.95}), WatchedCondition(ConditionKind.LINK_FULL, "us>eu"), 10),
        (Measured(0, rates={"orders": 70}), WatchedCondition(ConditionKind.RATE_OFF, "orders"), 60),
        (Measured(0, rates={"orders": 30}), WatchedCondition(ConditionKind.RATE_OFF, "orders"), 60),
        (Measured(0, down=frozenset(("eu",))), WatchedCondition(ConditionKind.SITE_DOWN, "eu"), 0),
    ],
)
def test_a_trouble_counts_when_it_has_lasted(measured: Measured, condition: WatchedCondition, lasts_s: float):
    plan = plan_for(wanted("sales", "eu"))
    watched = look(ConditionWatch(), plan, measured)
    assert condition in watched.due(lasts_s)
    assert lasts_s == 0 or condition not in watched.due(lasts_s - 0.1)


@pytest.mark.parametrize(
    ("load", "told"),
    [
        (0.95, "demand is 95% of what us>eu carries"),
        (13.0, "demand is 1300% of what us>eu carries"),
        (1e6, "us>eu carries less than 5% of the demand"),  # a link that is nearly cut
    ],
)
def test_how_full_a_link_is_reads_well_however_little_it_carries(load: float, told: str):
    plan = plan_for(wanted("sales", "eu"))
    found = conditions(plan, arrangement_of(plan), Measured(0, load={("us", "eu"): load}))
    assert found[WatchedCondition(ConditionKind.LINK_FULL, "us>eu")] == told


@pytest.mark.parametrize(
    "measured", [Measured(0, load={("us", "eu"): 0.89}), Measured(0, rates={"orders": 64}), Measured(0)]
)
def test_small_differences_are_no_trouble(measured: Measured):
    assert look(ConditionWatch(), plan_for(wanted("sales", "eu")), measured).since == {}


def test_an_operator_that_takes_longer_is_a_trouble():
    plan = plan_for(wanted("sales", "eu"))
    slow = Measured(0, slowness={plan.contracts[0].vertex: 1.6})
    assert (
        WatchedCondition(ConditionKind.OPERATOR_SLOW, plan.contracts[0].vertex)
        in look(ConditionWatch(), plan, slow).since
    )
    assert look(ConditionWatch(), plan, Measured(0, slowness={plan.contracts[0].vertex: 1.4})).since == {}


def test_a_push_that_would_come_close_to_its_limit_is_a_trouble():
    plan = plan_for(wanted("sales", "eu", 1.5, "S"))
    slow = Measured(0, slowness=dict.fromkeys(plan.graph.edges, 4.0))
    assert WatchedCondition(ConditionKind.PATH_LONG, "S") in look(ConditionWatch(), plan, slow).since
    assert look(ConditionWatch(), plan, Measured(0, slowness=dict.fromkeys(plan.graph.edges, 1.1))).since == {}


def test_a_trouble_that_went_away_starts_anew():
    plan, full = plan_for(wanted("sales", "eu")), Measured(0, load={("us", "eu"): 0.95})
    calm = replace(full, clock_s=5, load={("us", "eu"): 0.5})
    watched = look(look(look(ConditionWatch(), plan, full), plan, calm), plan, replace(full, clock_s=8))
    assert watched.since == {WatchedCondition(ConditionKind.LINK_FULL, "us>eu"): 8}


def test_those_are_concerned_whose_changes_pass():
    plan = plan_for(wanted("sales", "eu"), wanted("by_product", "us"))
    assert find_concerned(plan, WatchedCondition(ConditionKind.LINK_FULL, "us>eu")) <= {"sales_eu"}
    assert find_concerned(plan, WatchedCondition(ConditionKind.RATE_OFF, "items")) == {"by_product_us"}
    assert find_concerned(plan, WatchedCondition(ConditionKind.RATE_OFF, "orders")) == {"sales_eu"}


# Moves


def crossing(plan: Plan) -> tuple[str, str]:
    """The link with most traffic."""
    return max(plan.totals.link, key=lambda ends: plan.totals.link[ends])


def test_nothing_is_proposed_when_all_is_as_planned():
    assert proposed(plan_for(wanted("sales", "eu")), Measured(0)) is None


def plan_with_cheap_work_at_eu(*contracts: Contract) -> Plan:
    catalogue = with_contracts(shop(), contracts)
    sites = {name: replace(site, cpu_price_h=0.001 if name == "eu" else 10.0) for name, site in catalogue.sites.items()}
    return make_plan(replace(catalogue, sites=sites))


def test_a_site_that_is_down_is_left_and_who_needs_it_waits():
    plan = plan_with_cheap_work_at_eu(wanted("bought_items", "us", 600.0), wanted("sales", "us", 600.0))
    assert find_concerned(plan, WatchedCondition(ConditionKind.SITE_DOWN, "eu")) == {"bought_items_us", "sales_us"}
    proposal = proposed(plan, Measured(0, rates={"items": 160.0}, down=frozenset(("eu",))))
    assert proposal is not None
    assert proposal.contracts == proposal.restores == ("bought_items_us",)
    assert proposal.stranded == ("sales_us",)
    assert {entry.contract for entry in proposal.plan.contracts} == {"bought_items_us", "sales_us"}, "it goes on later"
    figures, vertices = proposal.plan.vertex_figures, proposal.plan.graph.vertices
    moved = [name for name in vertices if "bought_items_us" in figures[name].serves]
    assert all(vertices[name].site != "eu" for name in moved)
    assert proposal.plan.catalogue.sources["items"].measured_rate == 160.0


def test_nothing_moves_when_everyone_needs_the_site_that_is_down():
    plan = plan_for(wanted("sales", "us"), wanted("bought_items", "us"))
    assert proposed(plan, Measured(0, down=frozenset(("eu",)))) is None


def test_work_moves_from_a_link_that_is_too_narrow():
    plan = plan_for(wanted("sales", "asia", 60.0), wanted("bought_items", "asia", 60.0))
    ends = crossing(plan)
    proposal = proposed(plan, Measured(0, load={ends: 1.4}))
    assert proposal is not None
    assert proposal.plan.totals.link.get(ends, 0.0) <= plan.totals.link[ends] / 1.4
    assert proposal.restores
    assert any(">".join(ends) in reason for reason in proposal.reasons)
    assert len(proposal.contracts) <= 3


def test_a_link_is_not_narrower_because_more_is_sent_over_it():
    plan = plan_for(wanted("sales", "asia", 60.0))
    ends, capacity = crossing(plan), 10e6
    grown = as_measured(arrangement_of(plan), Measured(0, rates={"orders": 500.0, "customers": 20.0}))[0]
    load = grown.live.bill.link[ends] / capacity
    found = as_measured(arrangement_of(plan), Measured(0, grown_rates(grown), load={ends: load}))[0]
    assert link_of(found.catalogue, ends).bandwidth == pytest.approx(capacity)
    full = as_measured(arrangement_of(plan), Measured(0, grown_rates(grown), load={ends: 2 * load}))[0]
    assert link_of(full.catalogue, ends).bandwidth == pytest.approx(capacity / 2)


def grown_rates(now: Arrangement) -> dict[str, float]:
    return {name: rate_of(source) for name, source in now.catalogue.sources.items()}


def link_of(catalogue: Catalogue, ends: tuple[str, str]) -> Link:
    return next(link for link in catalogue.links if (link.src, link.dst) == ends)


def test_sites_of_one_machine_are_slow_together():
    plan = plan_for(wanted("sales", "asia", 60.0))
    slow = Measured(0, slowness={name: 3.0 for name, vertex in plan.graph.vertices.items() if vertex.site == "us"})
    found = as_measured(arrangement_of(plan), slow)[0]
    assert [site.speed for site in found.catalogue.sites.values()] == [pytest.approx(1 / 3)] * 3


def plan_with_many_changes(*contracts: Contract) -> Plan:
    rates = {"orders": 500.0, "customers": 200.0}
    sources = {name: replace(source, rate=rates.get(name, source.rate)) for name, source in shop().sources.items()}
    return make_plan(with_contracts(replace(shop(), sources=sources), contracts))


def filtering(plan: Plan) -> str:
    return next(name for name in plan.graph.vertices if raw_filter(plan.graph, name) is not None)


def test_a_filter_that_lets_less_through_than_planned_moves_the_join():
    plan = plan_with_many_changes(wanted("large", "asia"))
    proposal = proposed(plan, Measured(0, selectivities={filtering(plan): 0.01}))
    assert proposal is not None
    assert proposal.reasons == ("total > 100 lets 0.01 of orders through instead of 0.333",)
    assert [block.selectivity for block in proposal.plan.blocks if block.block.id == "large"] == [{"orders": 0.01}]
    assert check_document(json.loads(json.dumps(plan_document(proposal.plan)))) == []
    again = plan_on_running(proposal.plan, plan.catalogue)
    assert difference(proposal.plan, again).is_nothing
    assert again.totals.rescost == pytest.approx(proposal.plan.totals.rescost)
    assert proposed(proposal.plan, Measured(0, selectivities={filtering(proposal.plan): 0.01})) is None


def test_what_passes_a_join_says_nothing_about_filters():
    plan = plan_for(wanted("large", "eu"))
    joins = {name: 0.01 for name, edge in plan.graph.edges.items() if edge.op is not Operator.COPY}
    assert look(ConditionWatch(), plan, Measured(0, selectivities=joins)).since == {}


def test_a_contract_is_planned_on_what_came_after_it():
    plan = plan_for(wanted("countries", "eu"))
    for later in (wanted("sales", "us"), wanted("bought_items", "eu"), wanted("top", "eu")):
        plan = add_contract(plan, later)
    proposal = improve(plan, "countries_eu", Measured(1000.0), ConditionWatch())
    assert proposal is not None
    assert proposal.plan.totals.rescost == pytest.approx(plan.totals.rescost - proposal.saving)
    assert proposal.reasons == ("other contracts came or went since it was planned",)
    assert check_document(json.loads(json.dumps(plan_document(proposal.plan)))) == []
    assert improve(proposal.plan, "countries_eu", Measured(2000.0), ConditionWatch()) is None
    moved = MoveRecord("countries_eu", 900.0, NOWHERE, NOWHERE, ())
    assert improve(plan, "countries_eu", Measured(1000.0), ConditionWatch(), (moved,)) is None


def test_a_proposal_names_what_comes_and_what_goes():
    plan = plan_for(wanted("sales", "asia", 60.0), wanted("bought_items", "asia", 60.0))
    proposal = proposed(plan, Measured(0, load={crossing(plan): 1.4}))
    assert proposal is not None
    assert set(proposal.made) == set(proposal.plan.graph.vertices) - set(plan.graph.vertices)
    assert set(proposal.dropped) == set(plan.graph.vertices) - set(proposal.plan.graph.vertices)


def test_a_contract_rests_between_moves_and_longer_when_it_moved_back():
    here, there = frozenset(("a",)), frozenset(("b",))
    once = (MoveRecord("S", 0.0, here, there, ()),)
    back = (*once, MoveRecord("S", 400.0, there, here, ()))
    again = (*back, MoveRecord("S", 1100.0, here, there, ()))
    assert (may_move("S", once, 299), may_move("S", once, 300), may_move("T", once, 0)) == (False, True, True)
    assert (may_move("S", back, 999), may_move("S", back, 1000)) == (False, True)
    assert (may_move("S", again, 2299), may_move("S", again, 2300)) == (False, True)
    many = tuple(MoveRecord("S", 0.0, *((here, there) if n % 2 else (there, here)), ()) for n in range(20))
    assert (may_move("S", many, 3599), may_move("S", many, 3600)) == (False, True)


def test_a_contract_that_moved_just_now_stays():
    plan = plan_for(wanted("sales", "asia", 60.0), wanted("bought_items", "asia", 60.0))
    full = Measured(0, load={crossing(plan): 1.4})
    recent = tuple(MoveRecord(entry.contract, 50.0, NOWHERE, NOWHERE, ()) for entry in plan.contracts)
    assert proposed(plan, full) is not None
    assert proposed(plan, full, recent) is None


def test_nobody_returns_to_a_link_before_it_is_calm():
    plan = plan_for(wanted("sales", "asia", 60.0), wanted("bought_items", "asia", 60.0))
    full = Measured(0, load={crossing(plan): 1.4})
    proposal = proposed(plan, full)
    assert proposal is not None
    left = WatchedCondition(ConditionKind.LINK_FULL, "asia>eu")
    history = tuple(replace(move, before=move.after, at_s=-1000.0, because=(left,)) for move in proposal.moves)
    watched, later = after(plan, full, 100.0)
    again = adapt(plan, later, watched, history)
    assert again is None or again.moves != proposal.moves
    calm = replace(watched, calm_since={"asia>eu": later.clock_s - 300})
    assert adapt(plan, later, calm, history) == proposal


def test_a_link_of_which_nothing_is_known_any_more_is_calm():
    plan = plan_for(wanted("sales", "asia", 60.0), wanted("bought_items", "asia", 60.0))
    link = ">".join(crossing(plan))
    watched, _ = after(plan, Measured(0, load={crossing(plan): 1.4}), 100.0)
    assert not watched.is_calm(link, 1e9)
    watched = look(watched, plan, Measured(1000.0))
    assert not watched.is_calm(link, 1299.0)
    assert watched.is_calm(link, 1300.0)


def test_a_move_that_saves_little_is_not_worth_it():
    plan = plan_for(wanted("sales", "eu"))
    assert proposed(plan, Measured(0, rates={"orders": 70.0})) is None
