"""What a rewiring saves is what pricing the whole graph before and after says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.workloads.table1 import Setting, make_table1
from headrace.model.plan import Operator, PlanOptions
from headrace.model.plan_modes import Method, Sharing
from headrace.plan.make import make_plan
from headrace.plan.share.arrangement import Arrangement, arrangement_of
from headrace.plan.share.keeps import keeps_all, late_contracts
from headrace.plan.share.plumb import climb, copy_of, plumbing
from headrace.plan.share.rewire import Rewiring, RewiringCosts
from tests.plan.share.projects import plan_for, wanted

MERGED = PlanOptions(sharing=Sharing.MERGE)


def merged_shop() -> Arrangement:
    contracts = (
        wanted("sales", "eu", 60.0),
        wanted("sales", "asia", 10.0),
        wanted("names", "us", 600.0),
        wanted("bought", "asia", 30.0),
        wanted("by_country", "us", 60.0),
    )
    return arrangement_of(plan_for(*contracts, options=MERGED))


@pytest.mark.parametrize("seed", range(3))
def test_the_ledger_says_what_pricing_everything_says(seed: int):
    options = PlanOptions(sharing=Sharing.MERGE, method=Method.DPT)
    now = arrangement_of(make_plan(make_table1(Setting(contracts=12, seed=seed)), options))
    assert_ledger_is_right(now)


def test_the_ledger_says_what_pricing_everything_says_for_mixed_freshness():
    assert_ledger_is_right(merged_shop())


def assert_ledger_is_right(now: Arrangement) -> None:
    ledger, cost = RewiringCosts(now), now.live.bill.rescost
    checked = 0
    for rewiring in plumbing(now):
        saved = ledger.benefit(rewiring)
        if saved is not None:
            after = now.with_graph(rewiring.applied(now.graph))
            assert saved == pytest.approx(cost - after.live.bill.rescost, rel=1e-9, abs=1e-15)
            checked += 1
    assert checked >= 3


def test_a_vertex_is_not_made_of_itself():
    now = merged_shop()
    name, edge = next((n, e) for n, e in now.graph.edges.items() if e.op is Operator.COPY)
    source = now.graph.vertices[edge.inputs[0]]
    circle = Rewiring("tap", name, source.id, {source.id: copy_of(now.graph.vertices[name], source)})
    assert RewiringCosts(now).benefit(circle) is None


def test_every_step_of_the_climb_saves_what_it_says_and_keeps_every_promise():
    now = merged_shop()
    top, steps = climb(now)
    assert keeps_all(top)
    saved = now.live.bill.rescost - top.live.bill.rescost
    assert saved == pytest.approx(sum(step.benefit for step in steps), abs=1e-15)
    assert all(step.benefit > 0 for step in steps)
    assert {kept.contract.name for kept in top.kept} == {kept.contract.name for kept in now.kept}


def test_a_promise_that_takes_too_long_is_found():
    now = merged_shop()
    assert late_contracts(now) == ()
    first = now.kept[0]
    hurried = replace(first, batch_s=0.01, contract=replace(first.contract, freshness_s=0.02))
    assert late_contracts(replace(now, kept=(hurried, *now.kept[1:]))) == (first.contract.name,)
