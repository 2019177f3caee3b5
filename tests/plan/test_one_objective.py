"""Search, sharing, replanning and moves lower one number, the score; `why` shows no plan with a lower one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headrace.model.explanation import WhyContract
from headrace.model.plan import Plan, PlanOptions
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.explain import why
from headrace.plan.figures import score
from headrace.plan.make import plan_views
from headrace.plan.share.arrangement import arrangement_of
from tests.plan.random_joins import Instance, random_instance

SLACK = 1 + 1e-9


def planned(instance: Instance) -> Plan:
    return plan_views(instance.catalogue, {"V": (instance.block,)}, PlanOptions(admission=instance.rule))


def check_against_every_plan(instance: Instance) -> bool:
    """Whether it is kept; then at the least score of all plans, and no plan that `why` shows is better."""
    best, plan = instance.oracle.cheapest(instance.freshness_s, instance.is_paper), planned(instance)
    assert (best is None) == (not plan.contracts)
    if best is None:
        return False
    (entry,) = plan.contracts
    assert entry.exact
    assert entry.cost == pytest.approx(best.cost, rel=1e-9)
    assert score(arrangement_of(plan)) == pytest.approx(entry.cost, rel=1e-9)
    check_explained(plan)
    return True


def check_explained(plan: Plan) -> None:
    for entry in plan.contracts:
        (answer,) = why(plan, entry.contract)
        assert isinstance(answer, WhyContract)
        for one in answer.alternatives:
            assert one.why_not is not None or one.cost * SLACK >= entry.cost, one


@pytest.mark.parametrize("limited", [False, True])
def test_a_single_contract_has_the_least_score_of_all_plans(limited: bool):
    found = [check_against_every_plan(random_instance(seed, 2, 3, limited=limited)) for seed in range(100, 130)]
    found += [check_against_every_plan(random_instance(seed, 3, 2, limited=limited)) for seed in range(100, 110)]
    assert sum(found) > 12


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("limited", [False, True])
def test_thousands_of_single_contracts_have_the_least_score_of_all_plans(limited: bool):
    found = [check_against_every_plan(random_instance(seed, 2, 3, limited=limited)) for seed in range(1000, 2000)]
    found += [check_against_every_plan(random_instance(seed, 3, 2, limited=limited)) for seed in range(1000, 1100)]
    assert sum(found) > 300


def test_two_contracts_on_one_table_claim_nothing_about_all_plans():
    instance = random_instance(3, 2, 3)
    plan = planned(instance)
    (first,) = instance.catalogue.contracts.values()
    project = replace(instance.catalogue, contracts={"S": first, "T": replace(first, name="T")})
    both = plan_views(project, {"V": (instance.block,)}, PlanOptions(admission=instance.rule))
    assert [entry.exact for entry in plan.contracts] == [True]
    assert [entry.exact for entry in both.contracts] == [False, False]
    assert check_document(json.loads(json.dumps(plan_document(both)))) == []
