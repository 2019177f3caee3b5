"""A sub-join with more columns serves those who need fewer."""

from __future__ import annotations

import json

import pytest

from headrace.model.plan import Operator, Plan, PlanOptions
from headrace.model.plan_modes import ContractOrder
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.share.change import add_contract
from tests.plan.share.projects import VIEWS, plan_for, wanted

DECLARED = PlanOptions(order=ContractOrder.DECLARED)


def joins_of(plan: Plan, *scope: str) -> list[str]:
    return [
        name
        for name, edge in plan.graph.edges.items()
        if edge.op is Operator.JOIN and plan.graph.vertices[name].scope == scope
    ]


def assert_right(plan: Plan) -> None:
    """Besides what the checker derives: every edge passes on only columns that its inputs have."""
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []
    for name, edge in plan.graph.edges.items():
        inputs = [plan.graph.vertices[input_] for input_ in edge.inputs]
        if edge.op in (Operator.COPY, Operator.APPLY, Operator.UNION, Operator.JOIN):
            had = {column for vertex in inputs for _, column in vertex.columns}
            assert {column for _, column in plan.graph.vertices[name].columns} <= had


def test_a_narrow_contract_reads_the_wide_join_that_lives():
    plan = plan_for(wanted("sales", "eu"))
    more = add_contract(plan, wanted("countries", "asia"))
    assert joins_of(more, "customers", "orders") == joins_of(plan, "customers", "orders")
    assert_right(more)


def test_a_narrow_contract_at_the_same_site_costs_nothing_more():
    plan = plan_for(wanted("sales", "eu"))
    more = add_contract(plan, wanted("countries", "eu"))
    assert more.totals.rescost == pytest.approx(plan.totals.rescost)
    assert_right(more)


def test_an_aggregate_reads_the_wide_join_that_lives():
    plan = plan_for(wanted("sales", "eu"))
    more = add_contract(plan, wanted("by_country", "eu"))
    assert joins_of(more, "customers", "orders") == joins_of(plan, "customers", "orders")
    assert_right(more)


def test_contracts_that_are_planned_together_make_a_join_once_with_the_columns_of_all():
    plan = plan_for(wanted("names", "eu"), wanted("by_country", "eu"), options=DECLARED)
    assert len(joins_of(plan, "customers", "orders")) == 2
    assert_right(plan)


def test_a_wide_join_does_not_serve_one_with_another_filter():
    plan = add_contract(plan_for(wanted("large", "eu")), wanted("larger", "eu"))
    large, larger = (
        next(c.vertex for c in plan.contracts if c.contract == f"{name}_eu") for name in ("large", "larger")
    )
    assert plan.graph.vertices[large].fingerprint != plan.graph.vertices[larger].fingerprint
    assert_right(plan)


@pytest.mark.parametrize("first", sorted(VIEWS))
def test_any_two_views_together_cost_no_more_than_apart(first: str):
    for second in sorted(VIEWS):
        contracts = wanted(first, "eu", name="one"), wanted(second, "asia", name="two")
        together = plan_for(*contracts)
        assert_right(together)
        apart = sum(plan_for(one).totals.rescost for one in contracts)
        assert together.totals.rescost <= apart * (1 + 1e-9)
