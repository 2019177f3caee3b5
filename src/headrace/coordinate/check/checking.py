"""Runs background checks in a thread of their own: a piece, then a pause that keeps all of them within their budget.

They lock nothing that others wait for. A piece begins in a gap between pushes (`site/gaps.py`), and holds no turn; only
to note what it found does it take turns for a moment. Whatever goes wrong in a check is logged, and ends nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.coordinate.check.book import CheckBook
from headrace.coordinate.check.sources import SourceChecks
from headrace.coordinate.check.views import ViewChecks
from headrace.model.errors import Fenced, HeadraceError
from headrace.model.log import Commit
from headrace.model.notes import Differing, SourceDiffers, ViewDiffers, note_keys, read_notes
from headrace.run.check.pace import DEFAULT_BUDGET, NO_COST, CheckBudget, CheckCost, seconds_within
from headrace.run.check.rota import CheckFinding, CheckKind, CheckRecord, CheckSubject, charge_piece, choose_next
from headrace.site.push_state import PushState
from headrace.site.troubles import SOURCE_DIFFERS, VIEW_DIFFERS, Troubles

if TYPE_CHECKING:
    from headrace.site.service import Service

log = logging.getLogger("headrace.service")

TICK_S, REPORT_EVERY_S = 1.0, 5.0
"""How often to look whether a check is due, at most, and what the ledger has of those that found something."""
NOTHING_DUE_S = 5.0
"""How long after a look that found nothing to check: what is due is so for hours."""
AFTER_FAILURE_S = 60.0
PATIENCE_S = 30.0
"""How long a piece waits for a gap between pushes that is long enough for it."""
MEND_VIEW = "the view is being rebuilt from the rows of its sources; nothing needs to be done"
MEND_SOURCE = "the source is being read again; if it stays so, run `headrace sources reread NAME`"


@dataclass(slots=True)
class Checking:
    """The checks of a service. `reread` reads a source anew, and returns when its views are loaded again."""

    service: Service
    reread: Callable[[str], object]
    budget: CheckBudget = DEFAULT_BUDGET
    book: CheckBook = field(init=False)
    views: ViewChecks = field(init=False)
    sources: SourceChecks = field(init=False)

    def __post_init__(self) -> None:
        self.book = CheckBook(self.service.ledger, self.service.lease, self.budget)
        self.views = ViewChecks(self.service)
        self.sources = SourceChecks(self.service, self.reread)

    def run(self, end: threading.Event) -> None:
        """Checks until it is told to end."""
        self.book.resume()
        next_at, report_at = time.monotonic() + TICK_S, time.monotonic()
        while not end.wait(max(0.0, min(next_at, report_at) - time.monotonic())):
            try:
                if time.monotonic() >= report_at:
                    self.report()
                    report_at = time.monotonic() + REPORT_EVERY_S
                if time.monotonic() >= next_at:
                    self.service.gaps.wait(end, PATIENCE_S)
                    cost = self.step()
                    pause_s = NOTHING_DUE_S if cost is NO_COST else max(TICK_S, seconds_within(self.budget, cost))
                    next_at = time.monotonic() + pause_s
                    if cost is not NO_COST:
                        report_at = time.monotonic()  # it may have found something
            except Fenced:
                return  # somebody else has the project
            except Exception:  # whatever it is: what runs goes on
                log.exception("a background check failed")
                next_at = time.monotonic() + AFTER_FAILURE_S
        with suppress(HeadraceError):
            self.book.keep()

    # What is found

    def report(self) -> None:
        """Tells what differs, as the ledger has it: also right after a restart."""
        ledger, troubles = self.service.ledger, self.service.troubles
        _report(troubles, VIEW_DIFFERS, read_notes(ledger, ViewDiffers), MEND_VIEW)
        _report(troubles, SOURCE_DIFFERS, read_notes(ledger, SourceDiffers), MEND_SOURCE)

    # Pieces

    def step(self) -> CheckCost:
        """One piece of what is due. Returns what it cost."""
        state, loading = self.service.rounds.state, self.service.loading
        if state is None or (loading is not None and not loading.done.is_set()):
            return NO_COST
        self._follow(state)
        now = self.service.clock() / 1e6
        urgent = self.sources.find_urgent(state, now)
        chosen = None if urgent is None else CheckSubject(CheckKind.SOURCE, urgent)
        subject = chosen or choose_next(self.book.records, now, self.budget)
        if subject is None or subject not in self.book.records:
            return NO_COST
        began = self._spent()
        before = self.book.records[subject]
        try:
            after = self._check(state, subject, before, now)
        except Fenced:
            raise
        except Exception as error:  # our own mistake: what runs goes on, and others are still checked
            log.exception("check of %s %s", subject.kind, subject.name)
            why = f"its check failed: {type(error).__name__}: {error}; see .headrace/service.log"
            after = before.begin(now, "").end(now, CheckFinding.UNCHECKED, why)
        ended = self._spent()
        cost = CheckCost(ended.seconds - began.seconds, ended.bytes - began.bytes)
        self.book.note(subject, charge_piece(before, after, now, cost), cost)
        return cost

    def _spent(self) -> CheckCost:
        """What this thread has used so far, and databases for it."""
        return CheckCost(time.thread_time() + self.sources.asked_s, self.views.bytes + self.sources.bytes)

    def _follow(self, state: PushState) -> None:
        """What runs may be another plan than before: nobody asks for contracts that are gone."""
        contracts = {entry.contract for entry in state.running.plan.contracts}
        views = [CheckSubject(CheckKind.VIEW, name) for name in sorted(contracts)]
        self.book.follow([*(CheckSubject(CheckKind.SOURCE, name) for name in sorted(state.running.sources)), *views])
        ledger = self.service.ledger
        gone = [ViewDiffers.remove(name) for name in note_keys(ledger, ViewDiffers) if name not in contracts]
        if gone:
            ledger.commit(self.service.lease, Commit(notes=tuple(gone)))

    def _check(self, state: PushState, subject: CheckSubject, record: CheckRecord, now: float) -> CheckRecord:
        if subject.kind is CheckKind.SOURCE:
            return self.sources.check(state, subject.name, record, now)
        entry = next(one for one in state.running.plan.contracts if one.contract == subject.name)
        return self.views.check(state, entry, record, now)


def _report(troubles: Troubles, kind: str, found: Mapping[str, Differing], hint: str) -> None:
    for key in [key for key in troubles.all() if key.startswith(kind) and key.removeprefix(kind) not in found]:
        troubles.clear(key)
    for name, one in found.items():
        troubles.report(kind + name, one.what, hint.replace("NAME", name), since=one.since / 1e6)
