"""A join without a filter serves those who want it filtered."""

from __future__ import annotations

import json

import pytest

from headrace.model.plan import Operator, Plan
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.share.change import add_contract, remove_contract
from tests.plan.share.projects import SITES, plan_for, wanted


def assert_right(plan: Plan) -> None:
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []


def new_edges(before: Plan, after: Plan) -> list[tuple[str, tuple[str, ...]]]:
    added = [edge for name, edge in after.graph.edges.items() if name not in before.graph.edges]
    return [(edge.op, tuple(filter_.text for filter_ in edge.select)) for edge in added]


def test_at_the_same_site_the_filter_sits_on_the_apply():
    plan = plan_for(wanted("sales", "eu"))
    more = add_contract(plan, wanted("large", "eu"))
    assert new_edges(plan, more) == [(Operator.APPLY, ("total > 100",))]
    assert_right(more)


def test_at_another_site_the_filter_sits_on_the_copy():
    plan = plan_for(wanted("sales", "eu"))
    more = add_contract(plan, wanted("large", "asia"))
    assert new_edges(plan, more) == [(Operator.COPY, ("total > 100",)), (Operator.APPLY, ())]
    assert_right(more)


def test_a_filtered_join_does_not_serve_those_who_want_all():
    plan = plan_for(wanted("large", "eu"))
    more = add_contract(plan, wanted("sales", "eu"))
    assert Operator.JOIN in {op for op, _ in new_edges(plan, more)}
    assert_right(more)


def test_one_filter_is_not_put_upon_another():
    plan = plan_for(wanted("large", "eu"))
    more = add_contract(plan, wanted("larger", "eu"))
    assert Operator.JOIN in {op for op, _ in new_edges(plan, more)}
    assert_right(more)


def test_columns_that_the_filter_needs_must_be_there():
    plan = plan_for(wanted("countries", "eu"))
    more = add_contract(plan, wanted("large", "eu"))
    assert Operator.JOIN in {op for op, _ in new_edges(plan, more)}
    assert_right(more)


@pytest.mark.parametrize("at", SITES)
def test_what_is_filtered_stays_when_the_other_contract_goes(at: str):
    plan = remove_contract(add_contract(plan_for(wanted("sales", "eu")), wanted("large", at)), "sales_eu")
    assert [entry.contract for entry in plan.contracts] == [f"large_{at}"]
    assert_right(plan)
