"""Tries what was refused again: versions of running contracts at every look, contracts that never ran every minute.

Each try uses the same facts as `apply`: measured rates of sources that declare none, what operators take, and how long
pushes wait. A contract that was refused for what operators were believed to take runs once they are known to take less.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from headrace.coordinate.measured import value_to_plan_on
from headrace.model.plan import Plan
from headrace.plan.retry import admit_refused, retry_refused
from headrace.plan.share.revalue import Measured

log = logging.getLogger("headrace.service")

ADMIT_EVERY_S = 60.0
"""How often contracts that never ran are tried: each try takes as long as planning them."""

BACKOFF_S = 300.0
"""After going over to a version failed: loading it costs as much each time."""


@dataclass(slots=True)
class RefusedVersions:
    """Call `step` at every look."""

    _backs_off_until_s: float = float("-inf")
    _admits_at_s: float = float("-inf")

    def step(self, plan: Plan, measured: Measured, go_over: Callable[[Plan], str | None]) -> Plan | None:
        """Goes over to what can run by now; the plan that runs then, None if nothing changed."""
        if measured.clock_s < self._backs_off_until_s:
            return None
        found = retry_refused(value_to_plan_on(plan, measured)) if plan.goes_on else None
        found = found or self._admit(plan, measured)
        if found is None:
            return None
        error = go_over(found)
        if error is None:
            return found
        log.warning("what runs continues, because what was refused could not be loaded: %s", error)
        self._backs_off_until_s = measured.clock_s + BACKOFF_S
        return None

    def _admit(self, plan: Plan, measured: Measured) -> Plan | None:
        """Admits contracts that fit by now. Before anything was measured the answer would be the same; what is declared
        was believed from the start.
        """
        is_known = measured.times and not plan.catalogue.operator_times_declared
        if not plan.rejected or not is_known or measured.clock_s < self._admits_at_s:
            return None
        self._admits_at_s = measured.clock_s + ADMIT_EVERY_S
        return admit_refused(value_to_plan_on(plan, measured))
