"""Asks the ledger what exists: all that the steps between two plans depend on, beside the plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.model.notes import CaptureSlot, DeliveredCopy, LogKeys, SourceLoaded, SourceShape, read_notes
from headrace.run.ports import Ledger
from headrace.site.folder import Folder


@dataclass(frozen=True, slots=True)
class Existing:
    """What there is when somebody asks for steps.

    `logs` are the names of all logs, spools included. `loaded` are the sources that were read completely, `shapes` the
    shapes of the rows in spools, `keys` the keys by which logs can be looked up. `copies` and `slots` were made in
    other people's databases and folders, by a project in `directory`.
    """

    logs: frozenset[str] = frozenset()
    loaded: frozenset[str] = frozenset()
    shapes: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, frozenset[tuple[str, ...]]] = field(default_factory=dict)
    copies: tuple[DeliveredCopy, ...] = ()
    slots: tuple[CaptureSlot, ...] = ()
    directory: str = ""


def find_existing(ledger: Ledger, project: Path) -> Existing:
    """What a ledger names, of the project in a folder."""
    return Existing(
        logs=frozenset(ledger.times()),
        loaded=frozenset(read_notes(ledger, SourceLoaded)),
        shapes={name: note.shape for name, note in read_notes(ledger, SourceShape).items()},
        keys={name: frozenset(note.keys) for name, note in read_notes(ledger, LogKeys).items()},
        copies=tuple(read_notes(ledger, DeliveredCopy).values()),
        slots=tuple(read_notes(ledger, CaptureSlot).values()),
        directory=str(project.absolute()),
    )


def existing_in(folder: Folder) -> Existing:
    """What a project's folder holds, whether a service runs there or not.

    What Headrace 0.1 captured and computed counts for nothing: a service forgets it before its first step.
    """
    if not folder.exists:
        return Existing(directory=str(folder.project.absolute()))
    ledger = folder.ledger()
    try:
        found = find_existing(ledger, folder.project)
    finally:
        ledger.close()
    if folder.is_of_old_version:
        return Existing(copies=found.copies, slots=found.slots, directory=found.directory)
    return found
