"""What an audit commits: the time to which it wants all views to be pushed, and the event that tells what it found.

Audits are commands of their own, beside the service. They commit under a lease of their own, one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from headrace.connect.ledger.holder import this_holder
from headrace.coordinate.compare.compared import ComparedViews
from headrace.coordinate.compare.cut import LOOK_EVERY_S
from headrace.model.errors import HeadraceError, LeaseHeld
from headrace.model.log import Commit
from headrace.model.notes import WantedTime
from headrace.model.plan_events import ViewsCompared
from headrace.run.ports import Ledger

LEASE_S = 10.0


def ask_for_views(ledger: Ledger) -> Callable[[int], None]:
    """A `push` for other processes: asks the service for it, and does not wait."""
    return lambda t: _commit(ledger, Commit(notes=(WantedTime(t),)))


def tell_compared(ledger: Ledger, found: ComparedViews) -> None:
    """What was found is the answer of the audit, whether it can be told or not."""
    different = tuple(sorted(view.contract for view in found.views if not view.equal))
    counts = (len(found.views) - len(different), len(different), len(found.not_compared))
    with suppress(HeadraceError):
        _commit(ledger, Commit(events=(ViewsCompared(time.time_ns() // 1000, *counts, different),)))


def _commit(ledger: Ledger, commit: Commit) -> None:
    until = time.monotonic() + LEASE_S
    while True:
        try:
            lease = ledger.acquire("audit", this_holder(), LEASE_S)
            break
        except LeaseHeld:  # another audit commits, or one was killed while it did
            if time.monotonic() > until:
                raise
            time.sleep(LOOK_EVERY_S)
    try:
        ledger.commit(lease, commit)
    finally:
        ledger.release(lease)
