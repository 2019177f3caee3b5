"""Tries refused versions of running contracts again at every look.

Each try uses the same facts as `apply`: measured rates of sources that declare none, and how long pushes wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from headrace.coordinate.measured import value_to_plan_on
from headrace.model.plan import Plan
from headrace.plan.retry import retry_refused
from headrace.plan.share.revalue import Measured

log = logging.getLogger("headrace.service")

BACKOFF_S = 300.0
"""After going over to a version failed: loading it costs as much each time."""


@dataclass(slots=True)
class RefusedVersions:
    """Call `step` at every look."""

    _backs_off_until_s: float = float("-inf")

    def step(self, plan: Plan, measured: Measured, go_over: Callable[[Plan], str | None]) -> Plan | None:
        """Goes over to a version that can run by now; the plan that runs then, None if nothing changed."""
        if not plan.goes_on or measured.clock_s < self._backs_off_until_s:
            return None
        found = retry_refused(value_to_plan_on(plan, measured))
        if found is None:
            return None
        error = go_over(found)
        if error is None:
            return found
        log.warning("the running version continues, because the refused version could not be loaded: %s", error)
        self._backs_off_until_s = measured.clock_s + BACKOFF_S
        return None
