"""Search, sharing, replanning and moves lower one number, the score; `why` shows no plan with a lower one."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from headrace.model.catalogue import Catalogue
from headrace.model.explanation import WhyContract
from headrace.model.plan import ContractPlan, Plan, PlanOptions
from headrace.model.plan_modes import Method
from headrace.plan.admit import admit, keeps, measure_choice, terrain_of
from headrace.plan.check import check_document
from headrace.plan.cores import cores_of
from headrace.plan.document import plan_document
from headrace.plan.explain import why
from headrace.plan.figures import score
from headrace.plan.make import plan_views
from headrace.plan.search.joins import Rules
from headrace.plan.search.views import cheapest_few, find_plans
from headrace.plan.share.arrangement import arrangement_of
from tests.plan.random_joins import Instance, random_instance

SLACK = 1 + 1e-6
EXACTLY = 1 + 1e-9


def planned(instance: Instance) -> Plan:
    return plan_views(instance.catalogue, {"V": (instance.block,)}, PlanOptions(admission=instance.rule))


def check_against_every_plan(instance: Instance) -> bool:
    """Whether it is kept; then the search finds the least score of all plans, rewiring lowers it at most, and no plan
    that `why` shows is better.
    """
    best, plan = instance.oracle.cheapest(instance.freshness_s, instance.is_paper), planned(instance)
    found = admit(instance.question)
    assert (best is None) == (not plan.contracts) == (found is None)
    if best is None or found is None:
        return False
    (entry,) = plan.contracts
    assert entry.exact
    assert found.cost == pytest.approx(best.cost, rel=1e-9)
    assert entry.cost <= best.cost * EXACTLY
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []
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


def test_no_step_after_the_search_makes_a_single_contract_dearer():
    """A rewiring that saved resources made this one 7 % dearer by score, because its way became longer."""
    instance = random_instance(43, 3, 3)
    found, (entry,) = admit(instance.question), planned(instance).contracts
    assert found is not None
    assert entry.exact
    assert entry.cost == pytest.approx(found.cost, rel=1e-9)


# Several contracts


def several(seed: int, relations: int, sites: int, *, limited: bool = False) -> tuple[Instance, Catalogue]:
    """Three contracts of one view, at random sites within random times."""
    instance, rng = random_instance(seed, relations, sites, limited=limited), random.Random(seed)
    (first,) = instance.catalogue.contracts.values()
    places, times = sorted(instance.catalogue.sites), (2.0, 4.0, 10.0, 40.0)
    contracts = {
        name: replace(first, name=name, site=rng.choice(places), freshness_s=rng.choice(times)) for name in "STU"
    }
    return instance, replace(instance.catalogue, contracts=contracts)


def check_several(instance: Instance, project: Catalogue) -> int:
    """How many are proven best; and no plan that `why` shows for one of them is better by score, unless it says why."""
    plan = plan_views(project, {"V": (instance.block,)}, PlanOptions(admission=instance.rule))
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []
    check_explained(plan)
    for entry in plan.contracts:
        check_no_plan_is_better(plan, entry, instance)
    return sum(entry.exact for entry in plan.contracts)


def check_no_plan_is_better(plan: Plan, entry: ContractPlan, instance: Instance) -> None:
    """Of a contract that is exact, every plan that any search finds on top of the others has no lower score."""
    now = arrangement_of(plan)
    others, contract = now.without(entry.contract), plan.catalogue.contracts[entry.contract]
    question = others.question(contract, cores_of((instance.block,), plan.catalogue))
    rules = Rules(Method.CHEAPEST, question.limit_s, 0.0)
    choices = cheapest_few(find_plans(question.wish, terrain_of(question), rules), 50) if entry.exact else []
    answers = (measure_choice(question, choice) for choice in choices)
    scores = [score(others.keeping(question, answer)) for answer in answers if keeps(question, answer)]
    assert all(score(now) <= one * EXACTLY for one in scores)


@pytest.mark.parametrize("limited", [False, True])
def test_why_shows_nothing_better_for_one_of_several_contracts(limited: bool):
    proven = [check_several(*several(seed, 2, 3, limited=limited)) for seed in range(5)]
    assert sum(proven) > 0


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("limited", [False, True])
def test_why_shows_nothing_better_for_one_of_several_contracts_hundreds_of_times(limited: bool):
    proven = [check_several(*several(seed, 2, 3, limited=limited)) for seed in range(100, 400)]
    proven += [check_several(*several(seed, 3, 2, limited=limited)) for seed in range(100, 150)]
    assert sum(proven) > 20


def test_the_same_contract_twice_is_proven_best_both_times():
    instance = random_instance(3, 2, 3)
    plan = planned(instance)
    (first,) = instance.catalogue.contracts.values()
    project = replace(instance.catalogue, contracts={"S": first, "T": replace(first, name="T")})
    both = plan_views(project, {"V": (instance.block,)}, PlanOptions(admission=instance.rule))
    assert [entry.exact for entry in plan.contracts] == [True]
    assert [entry.exact for entry in both.contracts] == [True, True]
    assert check_document(json.loads(json.dumps(plan_document(both)))) == []
