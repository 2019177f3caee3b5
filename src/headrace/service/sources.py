"""Which sources are captured: while a plan is on its way those that run and those that come, then those of the plan."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace

from headrace.model.log import Lease, Round
from headrace.model.plan import Plan
from headrace.run.capture.spool import SPOOL
from headrace.run.compile.program import compile_plan
from headrace.run.ports import Ledger
from headrace.run.upkeep import READING_NOTE
from headrace.service.captures import Captures
from headrace.service.databases import databases_of
from headrace.service.loading import LOADED_NOTE
from headrace.service.plan_facts import sources_of

LET_GO_WITHIN_S = 10.0
"""How long a plan waits for captures to let go of a source that it wants to have read anew."""


@dataclass(frozen=True, slots=True)
class Sources:
    ledger: Ledger
    captures: Captures
    stop: threading.Event

    def capture_both(self, running: Plan | None, plan: Plan) -> None:
        """Views that run are kept until the plan does."""
        sources, read = plan.catalogue.sources, sources_of(compile_plan(plan))
        if running is not None:
            sources = {**running.catalogue.sources, **sources}
            read |= sources_of(compile_plan(running))
        both = replace(plan.catalogue, sources=sources)
        self.captures.run(replace(plan, catalogue=both), databases_of(both, read))

    def capture_only(self, plan: Plan) -> None:
        databases = databases_of(plan.catalogue, sources_of(compile_plan(plan)))
        self.captures.keep_only(plan, databases)
        self.captures.run(plan, databases)

    def forget_unread(self, read: frozenset[str], lease: Lease, wanted: frozenset[str] = frozenset()) -> None:
        """Spools of other sources than are read go once no capture writes to them: what comes back is read anew.

        Waits for that only if one of them is wanted again.
        """
        spools = {name.removeprefix(SPOOL) for name in self.ledger.times() if name.startswith(SPOOL)}
        gone = sorted(spools - read)
        until = time.monotonic() + (LET_GO_WITHIN_S if wanted.intersection(gone) else 0.0)
        while gone and not self.captures.are_settled(self.ledger):
            if time.monotonic() > until or self.stop.wait(0.05):
                return
        if gone:
            notes = {note + name: None for name in gone for note in (LOADED_NOTE, READING_NOTE)}
            self.ledger.commit(lease, Round(notes=notes, forget=tuple(SPOOL + name for name in gone)))
