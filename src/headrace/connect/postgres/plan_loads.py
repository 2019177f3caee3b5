"""Decides which tables a capture reads when it opens, from where on, and notes that with its first commit."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.connect.postgres.capture_parts import CaptureParts
from headrace.connect.postgres.load_state import Load
from headrace.connect.postgres.reading import writers_of
from headrace.connect.postgres.slots import SqlTable
from headrace.connect.postgres.table_look import SeenTable
from headrace.connect.postgres.table_watch import SeenTables
from headrace.model.notes import (
    SourceLoaded,
    SourceLoading,
    SourceMend,
    SourceMissed,
    SourceObsolete,
    SourceStopped,
    note_keys,
    read_notes,
)


def plan_loads(
    parts: CaptureParts,
    seen: SeenTables,
    added: Mapping[SqlTable, frozenset[str]],
    obsolete: Mapping[str, str | None],
) -> None:
    """A table is read if it never was, if its reading was interrupted, or if what we hold of it is `obsolete`."""
    ledger, watch, intake = parts.ledger, parts.watch, parts.intake
    stopped = frozenset(note_keys(ledger, SourceStopped))
    loading, missed = read_notes(ledger, SourceLoading), read_notes(ledger, SourceMissed)
    loaded, noted = read_notes(ledger, SourceLoaded), note_keys(ledger, SourceLoading)
    pending = read_notes(ledger, SourceObsolete)
    for target in intake.targets.values():
        captured, table, source = target.captured, seen[target.captured.source], target.captured.source
        if target.halted or not isinstance(table, SeenTable):
            continue
        why = obsolete.get(source)
        if source in stopped:
            intake.note(SourceStopped.remove(source), SourceMend.remove(source))
        if captured.static and source in loaded and source not in noted and why is None:
            continue
        # Nobody knows any more how far a reading was whose note cannot be read: it starts again.
        damaged = source in noted and source not in loading
        if why is None and (damaged or target.t != intake.position.t or source in stopped):
            why = "changes of its table were missed"
        repeats = target.t is not None and why is not None
        writers = added.get(table.table, frozenset())
        if source in noted and source not in watch.known and not captured.static:
            # A capture ended before it read anything, perhaps while it waited for writers.
            writers |= writers_of(parts.session, table.table)
        load = Load(captured, table.table, table.rows, repeats, wait_for=writers)
        if source in loading and not repeats:
            load.resume(loading[source])
        elif source in loaded and not repeats:
            continue
        else:
            watch.forget(source)
        parts.loads.add(load)
        # What has to be read is committed with the position that makes it necessary.
        if repeats and why is not None:
            told = source in pending
            intake.note_obsolete(target, pending[source].why if told else why, missed.get(source), tell=not told)
        intake.note(load.to_note())
