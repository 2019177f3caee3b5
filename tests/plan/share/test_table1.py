"""SMILE's Table 1: what sharing is worth there, against the figures of separate and merged plans."""

from __future__ import annotations

import json
from functools import cache

import pytest

from bench.workloads.table1 import Setting, make_table1
from headrace.app.project import load_project
from headrace.model.plan import Plan, PlanOptions
from headrace.model.plan_modes import ContractOrder, Method, Sharing
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from tests.plan.written import shared

SEPARATE_DPD = 1.5754e-4
"""$/s of 25 plans that share nothing, by SMILE's own search (computed once, apart from this planner)."""


@cache
def planned(sharing: Sharing, method: Method, order: ContractOrder = ContractOrder.SMALL_FIRST) -> Plan:
    return make_plan(make_table1(), PlanOptions(method=method, sharing=sharing, order=order))


def assert_right(plan: Plan) -> None:
    assert not plan.rejected
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []


@pytest.mark.long
def test_the_generated_project_is_the_written_one():
    written = load_project(shared("workloads", "table1"), {})
    for options in (PlanOptions(sharing=Sharing.MERGE, method=Method.DPD), PlanOptions(order=ContractOrder.DECLARED)):
        ours, theirs = make_plan(make_table1(), options), make_plan(written, options)
        assert plan_document(ours) == plan_document(theirs)


def test_separate_plans_cost_what_was_computed_elsewhere():
    plan = planned(Sharing.NONE, Method.DPD)
    assert_right(plan)
    assert plan.totals.rescost == pytest.approx(SEPARATE_DPD, rel=1e-4)


def test_merging_dpd_plans_saves_what_was_computed_elsewhere():
    plan = planned(Sharing.MERGE, Method.DPD)
    assert_right(plan)
    assert (len(plan.graph.vertices), len(plan.graph.edges)) == (242, 233)
    assert plan.totals.rescost / SEPARATE_DPD == pytest.approx(1 - 0.187, abs=5e-4)


def test_climbing_from_merged_plans_saves_more():
    merged, plumbed = planned(Sharing.MERGE, Method.DPD), planned(Sharing.PLUMB, Method.DPD)
    assert_right(plumbed)
    assert plumbed.totals.rescost < 0.95 * merged.totals.rescost


@pytest.mark.parametrize("order", ContractOrder)
def test_planning_on_what_lives_beats_plumbing(order: ContractOrder):
    plan = planned(Sharing.MARGINAL, Method.CHEAPEST, order)
    assert_right(plan)
    assert plan.totals.rescost < planned(Sharing.PLUMB, Method.DPD).totals.rescost
    assert plan.totals.rescost <= 0.65 * SEPARATE_DPD
    assert plan.totals.rescost <= 0.78 * planned(Sharing.MERGE, Method.DPD).totals.rescost


def test_small_views_first_is_as_cheap_as_the_best_figure_known():
    assert planned(Sharing.MARGINAL, Method.CHEAPEST).totals.rescost <= (1 - 0.371) * SEPARATE_DPD


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_sharing_saves_as_much_wherever_relations_and_contracts_are(seed: int):
    catalogue = make_table1(Setting(seed=seed))
    separate = make_plan(catalogue, PlanOptions(method=Method.DPD, sharing=Sharing.NONE))
    merged = make_plan(catalogue, PlanOptions(method=Method.DPD, sharing=Sharing.MERGE))
    plan = make_plan(catalogue)
    assert_right(plan)
    assert plan.totals.rescost <= 0.65 * separate.totals.rescost
    assert plan.totals.rescost <= 0.82 * merged.totals.rescost
