"""The events of going over from one plan to another: what came and went, what is refused, and what is not any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.model.plan import Plan
from headrace.model.plan_events import ContractAdmitted, ContractRefused, PlanApplied
from headrace.model.words import put_in_words

if TYPE_CHECKING:
    from headrace.site.running import Running
    from headrace.site.service import Service


def tell_applied(service: Service, before: Running | None, after: Running, took_s: float) -> None:
    """When the plan runs. `before` is what ran until now, or when the service ended last."""
    now, ran = service.clock(), None if before is None else before.plan
    service.journal.emit(applied_event(now, ran, after.plan, took_s))
    for event in refusal_events(now, ran, after.plan):
        service.journal.emit(event)


def applied_event(now: int, before: Plan | None, after: Plan, took_s: float) -> PlanApplied:
    ran = frozenset(() if before is None else (one.contract for one in before.contracts))
    runs = frozenset(one.contract for one in after.contracts)
    return PlanApplied(now, len(runs), tuple(sorted(runs - ran)), tuple(sorted(ran - runs)), took_s)


def refusal_events(now: int, before: Plan | None, after: Plan) -> Iterator[ContractRefused | ContractAdmitted]:
    """What is refused and was not, or for another reason; and what is admitted and was refused."""
    refused, earlier = _refused(after), {} if before is None else _refused(before)
    for name, event in refused.items():
        if earlier.get(name) != event:
            yield ContractRefused(now, name, *event[:2], reason=event[2])
    kept = {one.contract for one in after.contracts}
    for name in sorted(earlier.keys() - refused.keys()):
        if name in kept:
            yield ContractAdmitted(now, name)


def _refused(plan: Plan) -> dict[str, tuple[str | None, float | None, str]]:
    """What is refused, by contract: what runs instead, the freshness that could be promised, and why."""
    runs = {
        one.contract: "runs its earlier version" if plan.runs_earlier(one.contract) else "keeps running over capacity"
        for one in plan.goes_on
    }
    found = {one.contract: one for one in (*plan.rejected, *(one.because for one in plan.goes_on))}
    return {
        name: (runs.get(name), one.smallest_staleness_s, put_in_words(one.detail, plan.graph.vertices))
        for name, one in sorted(found.items())
    }
