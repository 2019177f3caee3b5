"""Whether what was refused can run by now: a version of a contract beside which an earlier one goes on, one that did
not fit any more, or one that never ran. Asked again and again, at what is measured then.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.model.catalogue import Catalogue
from headrace.model.plan import GoesOn, Plan
from headrace.plan.make import plan_on_running
from headrace.plan.versions import misfits


def retry_refused(running: Plan) -> Plan | None:
    """The plan in which the first contract that can runs as it was asked for, and all others go on; None if none can.

    `running` is at the statistics that `apply` would plan on.
    """
    tried = (_as_asked(running, one) for one in running.goes_on if not one.because.reason.startswith("unsupported:"))
    return next((plan for plan in tried if plan is not None), None)


def admit_refused(running: Plan) -> Plan | None:
    """The plan in which contracts run too that were refused when nothing had been measured; None if none fits.

    All that runs goes on. `running` is at the statistics that `apply` would plan on.
    """
    if all(one.reason.startswith("unsupported:") for one in running.rejected):
        return None
    plan = plan_on_running(running, running.catalogue, [one.contract for one in running.goes_on])
    runs, before = ({entry.contract for entry in one.contracts} for one in (plan, running))
    return replace(plan, goes_on=running.goes_on) if runs > before else None


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
