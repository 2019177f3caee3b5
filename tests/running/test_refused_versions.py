"""A version that was refused is tried again at every look, and runs as soon as it can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.coordinate.measured import value_to_plan_on
from headrace.coordinate.refused import ADMIT_EVERY_S, BACKOFF_S, RefusedVersions
from headrace.coordinate.telling_plans import refusal_events
from headrace.model.catalogue import Catalogue, OperatorTime
from headrace.model.plan import Plan
from headrace.model.plan_events import ContractAdmitted
from headrace.plan.make import make_plan
from headrace.plan.share.difference import difference
from headrace.plan.share.revalue import Measured
from headrace.plan.versions import Asked, plan_versions
from headrace.run.compile.compile_plan import compile_plan
from tests.plan.share.projects import plan_for, shop, wanted, with_contracts
from tests.plan.share.test_versions import measured_headroom, rewritten, vertex_of, waiting

CONTRACT = wanted("sales", freshness=2.0)


def asked() -> Catalogue:
    return with_contracts(rewritten(measured_headroom(shop()), sales="bought"), (CONTRACT,))


@pytest.fixture
def overloaded() -> Plan:
    """An edit that is refused while pushes wait five seconds for each other."""
    plan, _ = plan_versions(waiting(plan_for(CONTRACT), 5.0), Asked(asked()))
    assert plan.runs_earlier("sales_eu")
    return plan


def test_a_refused_version_waits_through_an_overload_and_runs_when_that_is_over(overloaded: Plan) -> None:
    refused, gone_over = RefusedVersions(), list[Plan]()

    def go_over(plan: Plan) -> None:
        gone_over.append(plan)

    assert refused.step(overloaded, Measured(0.0, blocking_s=5.0), go_over) is None and not gone_over
    then = refused.step(overloaded, Measured(5.0, blocking_s=0.0), go_over)
    assert then is not None and gone_over == [then]
    assert not then.goes_on and not then.rejected
    assert vertex_of(then, "sales_eu") != vertex_of(overloaded, "sales_eu")
    compile_plan(then)
    assert list(refusal_events(7, overloaded, then)) == [ContractAdmitted(7, "sales_eu")]
    (begun,) = refusal_events(7, None, overloaded)
    assert begun.text == 'contract "sales_eu" is refused; it runs its earlier version' and begun.reason
    assert not list(refusal_events(7, overloaded, overloaded)), "nothing new"
    assert refused.step(then, Measured(10.0), go_over) is None
    applied, _ = plan_versions(then, Asked(asked()))
    assert difference(then, applied).is_nothing, "`apply` of the same files changes nothing"


QUICK = {op: OperatorTime(0.001, 1e-7, 1e-7) for op in ("apply", "join", "derive", "aggregate")}


@pytest.fixture
def refused_at_first() -> Plan:
    """One of two contracts is refused for what operators are believed to take before they were ever seen."""
    plan = make_plan(with_contracts(shop(), (wanted("by_country"), wanted("sales", freshness=0.3))))
    assert [one.contract for one in plan.rejected] == ["sales_eu"] and len(plan.contracts) == 1
    return plan


def test_a_contract_that_was_refused_by_estimates_runs_once_operators_are_known_to_take_less(
    refused_at_first: Plan,
) -> None:
    refused, gone_over = RefusedVersions(), list[Plan]()

    def go_over(plan: Plan) -> None:
        gone_over.append(plan)

    assert refused.step(refused_at_first, Measured(0.0), go_over) is None, "nothing was measured yet"
    then = refused.step(refused_at_first, Measured(5.0, times=QUICK), go_over)
    assert then is not None and gone_over == [then]
    assert not then.rejected and {one.contract for one in then.contracts} == {"by_country_eu", "sales_eu"}
    compile_plan(then)
    assert list(refusal_events(7, refused_at_first, then)) == [ContractAdmitted(7, "sales_eu")]
    applied, _ = plan_versions(value_to_plan_on(then, Measured(9.0, times=QUICK)), Asked(refused_at_first.catalogue))
    assert difference(then, applied).is_nothing and not applied.rejected, "`apply` plans with what was measured, too"


def test_a_refused_contract_is_tried_once_a_minute_and_never_against_declared_times(refused_at_first: Plan) -> None:
    refused, slow, tries = RefusedVersions(), Measured(0.0, times={"join": OperatorTime(1.0, 0.0, 0.0)}), list[float]()
    assert refused.step(refused_at_first, slow, lambda _: None) is None
    for clock_s in (5.0, ADMIT_EVERY_S - 1.0, ADMIT_EVERY_S):
        then = refused.step(refused_at_first, Measured(clock_s, times=QUICK), lambda _: None)
        tries += [clock_s] if then is not None else []
    assert tries == [ADMIT_EVERY_S]
    declared = replace(refused_at_first, catalogue=replace(refused_at_first.catalogue, operator_times_declared=True))
    assert RefusedVersions().step(declared, Measured(0.0, times=QUICK), lambda _: None) is None


def test_a_version_that_could_not_be_loaded_rests_before_it_is_tried_again(overloaded: Plan) -> None:
    refused, tries = RefusedVersions(), list[float]()

    def fail_at(clock_s: float) -> None:
        refused.step(overloaded, Measured(clock_s, blocking_s=0.0), lambda _: tries.append(clock_s) or "no room")  # type: ignore[func-returns-value]

    for clock_s in (0.0, 5.0, BACKOFF_S - 1.0, BACKOFF_S):
        fail_at(clock_s)
    assert tries == [0.0, BACKOFF_S]


def test_a_query_that_nobody_maintains_is_not_tried_again(overloaded: Plan) -> None:
    (one,) = overloaded.goes_on
    because = replace(one.because, reason="unsupported:PERCENTILE")
    plan = replace(overloaded, goes_on=(replace(one, because=because),))
    assert RefusedVersions().step(plan, Measured(0.0, blocking_s=0.0), lambda _: None) is None


def test_what_did_not_fit_any_more_is_forgotten_when_it_fits(overloaded: Plan) -> None:
    running = waiting(plan_for(CONTRACT), 5.0)
    over, _ = plan_versions(running, Asked(with_contracts(measured_headroom(shop()), (CONTRACT,))))
    (one,) = overloaded.goes_on
    misfit = replace(over, goes_on=(replace(one, asked=over.catalogue.contracts["sales_eu"]),))
    then = RefusedVersions().step(misfit, Measured(0.0, blocking_s=0.0), lambda _: None)
    assert then is not None and not then.goes_on and then.graph == misfit.graph
