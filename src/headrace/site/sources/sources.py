"""Decides which sources to capture: those of both plans while a new plan is loading, then those of the new plan.

A spool has rows of one shape. A source that is declared with other columns, another key or another table than before is
released, and read again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from headrace.connect.tables.folder import FOLDER
from headrace.model.log import Commit, Lease
from headrace.model.source_shape import shape_of
from headrace.run.capture.spool import MEND_NOTE, MISSED_NOTE, SPOOL, STOPPED_NOTE
from headrace.run.logs.upkeep import READING_NOTE
from headrace.run.ports import Ledger
from headrace.site.loading import LOADED_NOTE
from headrace.site.running import Running
from headrace.site.sources.captures import Captures
from headrace.site.sources.databases import databases_of

SHAPE_NOTE = "shape:"
"""Of what a spool has rows of."""
ABOUT_A_SOURCE = (
    LOADED_NOTE, READING_NOTE, SHAPE_NOTE, MISSED_NOTE, STOPPED_NOTE, MEND_NOTE, "watermark:", "gone:",
)  # fmt: skip
ABOUT_ITS_FILES = ("file:", "rejected:")
"""What names of notes about a source begin with; a name follows, and in the second case that of a file."""
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
        self.captures.run(replace(wanted.plan, catalogue=both), databases_of(both, read))

    def capture_only(self, running: Running) -> None:
        self.captures.keep_only(running.plan, running.databases)
        self.captures.run(running.plan, running.databases)

    # Sources that have changed

    def changed(self, wanted: Running, before: Running | None) -> frozenset[str]:
        """Sources that are wanted in another shape than their spools have, or than the plan before asked for."""
        noted, earlier = self.ledger.notes(SHAPE_NOTE), {} if before is None else shapes_of(before)
        return frozenset(
            name
            for name, shape in shapes_of(wanted).items()
            if noted.get(SHAPE_NOTE + name, earlier.get(name, shape)) != shape
        )

    def note_shapes(self, wanted: Running, lease: Lease) -> None:
        """What spools will have rows of, before they do."""
        notes = {SHAPE_NOTE + name: shape for name, shape in shapes_of(wanted).items()}
        self.ledger.commit(lease, Commit(notes=dict[str, str | None](notes)))

    def notes_about(self, sources: Collection[str]) -> list[str]:
        """All notes about sources; they go with their spools."""
        whole = {prefix + source for source in sources for prefix in (*ABOUT_A_SOURCE, f"position:{FOLDER}")}
        begin = tuple(f"{prefix}{source}:" for source in sources for prefix in ABOUT_ITS_FILES)
        return [name for name in self.ledger.notes() if name in whole or name.startswith(begin)]

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
            notes = dict.fromkeys(self.notes_about(gone))
            self.ledger.commit(lease, Commit(notes=notes, forget=tuple(SPOOL + name for name in gone)))


def shapes_of(running: Running) -> dict[str, str]:
    """The shapes in which a plan reads its sources."""
    sources = running.plan.catalogue.sources
    return {name: shape_of(sources[name]) for name in running.sources}
