"""Contracts come and go while a mode places them: those that stay are left alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.model.plan import Operator, Plan, PlanOptions
from headrace.model.plan_modes import WideArea
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan, plan_on_running
from headrace.plan.price import upstream_first
from headrace.plan.share.arrangement import arrangement_of
from headrace.plan.share.order import small_first
from headrace.plan.share.revalue import cores_of_kept
from headrace.plan.wide_area.plan import schedule
from tests.examples import examples
from tests.plan.share.projects import SITES, VIEWS, shop, wanted, with_contracts

CONTRACTS = st.tuples(st.sampled_from(sorted(VIEWS)), st.sampled_from(SITES))


def assert_right(plan: Plan) -> None:
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []


def made_of(plan: Plan, contract: str) -> dict[str, tuple[str, ...]]:
    """What a contract is made of, and from what that is made."""
    vertex = next(one.vertex for one in plan.contracts if one.contract == contract)
    edges = plan.graph.edges
    return {name: edges[name].inputs if name in edges else () for name in upstream_first(plan.graph, [vertex])}


@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    there=st.lists(CONTRACTS, min_size=1, max_size=4, unique=True),
    turns=st.lists(st.tuples(CONTRACTS, st.booleans()), min_size=1, max_size=3),
    mode=st.sampled_from(WideArea),
)
@example([("countries", "eu"), ("names", "us")], [(("large", "us"), True)], WideArea.SANA)
@example([("bought", "eu"), ("bought", "us")], [(("names", "us"), True)], WideArea.MQO)
@example([("names", "eu"), ("names", "us"), ("names", "asia")], [(("names", "eu"), False)], WideArea.SANA)
def test_who_comes_or_goes_leaves_those_that_stay_as_they_are(there, turns, mode):
    catalogue = with_contracts(shop(), (wanted(*one) for one in there))
    plan = make_plan(catalogue, PlanOptions(wide_area=mode))
    for one, comes in turns:
        there = [*dict.fromkeys((*there, one))] if comes else [other for other in there if other != one]
        then = plan_on_running(plan, with_contracts(shop(), (wanted(*one) for one in there)))
        assert_right(then)
        stay = {one.contract for one in plan.contracts} & {wanted(*one).name for one in there}
        for name in stay:
            assert made_of(then, name) == made_of(plan, name)
        plan = then


@pytest.mark.parametrize("mode", WideArea)
def test_a_plan_of_one_who_comes_last_is_the_plan_of_all(mode):
    """Small views are planned first anyway: so the largest finds what it would have found."""
    small, large = [wanted("by_product", "asia"), wanted("sales"), wanted("countries", "asia")], wanted("bought", "us")
    options = PlanOptions(wide_area=mode)
    before = make_plan(with_contracts(shop(), small), options)
    then = plan_on_running(before, with_contracts(shop(), [*small, large]))
    assert then.graph == make_plan(with_contracts(shop(), [*small, large]), options).graph


def test_who_comes_joins_what_runs_for_one_that_is_forced():
    """Links carry what is forced as well: whoever did not see it would have the same sent a second time."""
    forced, plain = replace(wanted("bought", "us"), forced=True), wanted("bought", "asia")
    before = make_plan(with_contracts(shop(), [forced]), PlanOptions(wide_area=WideArea.SANA))
    then = plan_on_running(before, with_contracts(shop(), [forced, plain]))
    assert_right(then)
    assert not then.rejected and made_of(then, forced.name) == made_of(before, forced.name)
    own = made_of(then, plain.name).keys() - made_of(then, forced.name).keys()
    assert {then.graph.edges[name].op for name in own} <= {Operator.COPY, Operator.APPLY}


@pytest.mark.parametrize("mode", WideArea)
def test_where_operators_run_is_read_off_the_plan(mode):
    """A second schedule, started from what the first has made, knows of the same operators at the same sites."""
    catalogue = with_contracts(
        shop(), [wanted(view, at) for view in ("bought", "by_country", "large", "names") for at in SITES[:2]]
    )
    now = arrangement_of(make_plan(catalogue, PlanOptions(wide_area=mode)))
    found = schedule(now, mode)
    assert {one.query.id for one in found.queries} == {one.contract.name for one in now.kept}
    cores = cores_of_kept(now, now.catalogue)
    again = schedule(type(now)(now.catalogue, now.options, now.blocks), mode)
    for contract in small_first(now, (kept.contract for kept in now.kept), cores):
        again = again.with_contract(contract, cores)
    assert not again.now.rejected
    assert dict(again.deployment) == dict(found.deployment)
