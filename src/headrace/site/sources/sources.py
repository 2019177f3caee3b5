"""Decides which sources to capture: those of both plans while a new plan is loading, then those of the new plan.

A spool has rows of one shape. A source that is declared with other columns, another key or another table than before is
released, and read again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from headrace.model.log import Commit, Lease
from headrace.model.note_texts import RemovedNote
from headrace.model.notes import SourceShape, remove_notes_about
from headrace.model.source_shape import shape_of
from headrace.run.capture.spool import SPOOL
from headrace.run.load.transition import find_made_from
from headrace.run.ports import Ledger
from headrace.run.program import Program
from headrace.site.running import Running
from headrace.site.sources.captures import Captures
from headrace.site.sources.databases import databases_of

LET_GO_WITHIN_S = 10.0
"""How long a plan waits for captures to let go of a source that it wants to have read again."""


@dataclass(frozen=True, slots=True)
class Sources:
    ledger: Ledger
    captures: Captures
    stop: threading.Event

    def capture_both(self, running: Running | None, wanted: Running) -> None:
        """Views that run are kept until those that are wanted run."""
        sources, read = wanted.plan.catalogue.sources, wanted.sources
        if running is not None:
            sources = {**running.plan.catalogue.sources, **sources}
            read |= running.sources
        both = replace(wanted.plan.catalogue, sources=sources)
        self.captures.run(both, databases_of(both, read))

    def capture_only(self, running: Running) -> None:
        self.captures.keep_only(running.databases)
        self.captures.run(running.plan.catalogue, running.databases)

    # Sources that have changed

    def note_shapes(self, wanted: Running, lease: Lease) -> None:
        """Records the shape of each spool before rows are written to it."""
        notes = tuple(SourceShape(name, shape) for name, shape in shapes_of(wanted).items())
        self.ledger.commit(lease, Commit(notes=notes))

    def forget_notes_about(self, sources: Collection[str]) -> tuple[RemovedNote, ...]:
        """Removes all notes about sources; they go with their spools."""
        return remove_notes_about(self.ledger, frozenset(sources))

    def forget_made_from(self, sources: Collection[str], programs: Iterable[Program], lease: Lease) -> frozenset[str]:
        """Forgets what was read of sources and all that programs make from it, in one commit; returns what they make.

        Nobody captures these sources, pushes or compacts meanwhile.
        """
        spools = [SPOOL + source for source in sources]
        made = frozenset[str]().union(*(find_made_from(program, spools) for program in programs))
        known = self.ledger.times()
        gone = tuple(name for name in (*spools, *sorted(made)) if name in known)
        self.ledger.commit(lease, Commit(notes=self.forget_notes_about(sources), forget=gone))
        return made

    # Sources that nobody reads

    def forget_unread(self, read: frozenset[str], lease: Lease, wanted: frozenset[str] = frozenset()) -> None:
        """Spools of other sources than are read go once no capture writes to them: what comes back is read again.

        Waits for that only if one of them is wanted again.
        """
        spools = {name.removeprefix(SPOOL) for name in self.ledger.times() if name.startswith(SPOOL)}
        gone = sorted(spools - read)
        until = time.monotonic() + (LET_GO_WITHIN_S if wanted.intersection(gone) else 0.0)
        while gone and not self.captures.are_settled(self.ledger):
            if time.monotonic() > until or self.stop.wait(0.05):
                return
        if gone:
            notes = self.forget_notes_about(gone)
            self.ledger.commit(lease, Commit(notes=notes, forget=tuple(SPOOL + name for name in gone)))


def shapes_of(running: Running) -> dict[str, str]:
    """The shapes in which a plan reads its sources."""
    sources = running.plan.catalogue.sources
    return {name: shape_of(sources[name]) for name in running.sources}
