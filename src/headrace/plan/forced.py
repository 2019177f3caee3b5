"""Contracts that were refused and are kept all the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from headrace.model.catalogue import Catalogue
from headrace.model.errors import UsageError
from headrace.model.plan import Plan, PlanOptions, Rejection
from headrace.plan.make import plan_declared, plan_on_running


def plan_with_forced(
    base: Plan | None,
    declared: Catalogue,
    running: Mapping[str, float],
    force: Collection[str] = (),
    held: Collection[str] = (),
    options: PlanOptions = PlanOptions(),  # noqa: B008 - they are frozen
) -> tuple[Plan, dict[str, float]]:
    """The plan on top of what runs, or from nothing; and what those that are forced are promised, in seconds.

    Contracts to `force` are, if they are refused. Those that are `running` forced stay so, and as fresh as they were
    planned to be. Each is planned for what it asks for; if nothing is as fast as that, for the smallest freshness that
    could be kept. Those that are `held` go on as they run, whether they fit or not. What runs is planned by its own
    options.
    """
    planned_s = dict(running)
    while True:
        catalogue = _with_forced(declared, planned_s)
        plan = plan_declared(catalogue, options) if base is None else plan_on_running(base, catalogue, held)
        refused = [one for one in plan.rejected if one.contract in force or one.contract in planned_s]
        if not refused:
            return plan, {name: declared.contracts[name].freshness_s for name in planned_s}
        for one in refused:
            offer_s = _next_offer(one, declared, planned_s)
            if offer_s is not None:
                planned_s[one.contract] = offer_s
            elif one.contract in force:
                raise UsageError(f'contract "{one.contract}" cannot be forced: {one.detail}')
            else:
                del planned_s[one.contract]


def _with_forced(declared: Catalogue, planned_s: Mapping[str, float]) -> Catalogue:
    forced = {
        name: replace(declared.contracts[name], freshness_s=freshness_s, forced=True)
        for name, freshness_s in planned_s.items()
    }
    return replace(declared, contracts={**declared.contracts, **forced})


def _next_offer(refused: Rejection, declared: Catalogue, planned_s: Mapping[str, float]) -> float | None:
    """What to plan a contract for that is refused; None if nothing helps."""
    name, smallest_s = refused.contract, refused.smallest_staleness_s
    if name not in planned_s:
        return declared.contracts[name].freshness_s
    return None if smallest_s is None or smallest_s <= planned_s[name] else smallest_s
