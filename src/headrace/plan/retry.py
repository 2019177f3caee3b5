"""Whether what was refused can run by now: a version of a contract beside which an earlier one goes on, or one that did
not fit any more. Asked again and again, at what is measured then.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.model.catalogue import Catalogue
from headrace.model.plan import GoesOn, Plan
from headrace.plan.make import plan_on_running
from headrace.plan.versions import misfits


def retry_refused(running: Plan) -> Plan | None:
    """The plan in which the first contract that can runs as it was asked for, and all others go on; None if none can.

    `running` is at the statistics that `apply` would plan on. Contracts that never ran are not tried: somebody has to
    ask for them.
    """
    tried = (_as_asked(running, one) for one in running.goes_on if not one.because.reason.startswith("unsupported:"))
    return next((plan for plan in tried if plan is not None), None)


def _as_asked(running: Plan, one: GoesOn) -> Plan | None:
    others = tuple(other for other in running.goes_on if other.contract != one.contract)
    if not running.runs_earlier(one.contract):
        return None if misfits(running, one) else replace(running, goes_on=others)
    runs = {entry.contract for entry in running.contracts}
    catalogue = _asking(running.catalogue, one)
    wanted = {name: terms for name, terms in catalogue.contracts.items() if name in runs}
    held = [other.contract for other in others]
    plan = plan_on_running(running, replace(catalogue, contracts=wanted), held)
    if not runs <= {entry.contract for entry in plan.contracts}:
        return None
    return replace(plan, catalogue=catalogue, rejected=running.rejected, goes_on=others)


def _asking(catalogue: Catalogue, one: GoesOn) -> Catalogue:
    """The catalogue with the version that is asked for; the earlier view goes unless another contract needs it."""
    contracts = {**catalogue.contracts, one.contract: one.asked}
    earlier = catalogue.contracts[one.contract].view
    needed = {view for terms in contracts.values() for view in (terms.view, *terms.ways)}
    views = {name: view for name, view in catalogue.views.items() if name != earlier or name in needed}
    return replace(catalogue, contracts=contracts, views=views)
