"""Acts on what is seen of the tables of a capture: stops their sources, has them read again, takes them again.

What is seen comes from looks (`table_watch`), from descriptions of tables in the log, and from our event trigger.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psycopg

from headrace.connect.postgres.capture_parts import CaptureParts
from headrace.connect.postgres.capture_settings import CaptureSettings, SourceRecovered
from headrace.connect.postgres.ddl_trigger import drop_trigger, keep_trigger
from headrace.connect.postgres.drift import (
    columns_of_relation,
    find_drift,
    find_identity_drift,
    find_name_drift,
    find_table_drift,
)
from headrace.connect.postgres.facts import Hindrance
from headrace.connect.postgres.publications import explain_lock
from headrace.connect.postgres.publish_sources import SourcePublications
from headrace.connect.postgres.reading_rights import find_unreadable, say_unreadable
from headrace.connect.postgres.slots import SqlTable
from headrace.connect.postgres.spool_target import SpoolTarget
from headrace.connect.postgres.table_look import SeenTable
from headrace.connect.postgres.table_watch import SeenTables
from headrace.connect.postgres.unheld import is_still_there
from headrace.model.notes import SourceUnreadable, SourceUnwatched, read_notes
from headrace.model.table_name import show_table
from headrace.run.capture.pgoutput import Relation
from headrace.run.capture.row_changes import Layout, layout_of
from headrace.run.capture.spool import CapturedTable

log = logging.getLogger("headrace.capture")

PROBE_LOCK_WITHIN = "100ms"
"""How long a look at a stopped table waits for a lock: many tables may be locked, and all others wait meanwhile."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """`look_soon` has the tables looked at with the next step, `answer` is called during long work."""

    look_soon: Callable[[], None]
    answer: Callable[[], None]


class TableChecks:
    """The tables of one open capture. `oids` are those whose changes it takes from the log, with their sources."""

    def __init__(
        self,
        parts: CaptureParts,
        settings: CaptureSettings,
        publications: SourcePublications,
        oids: Mapping[int, Sequence[CapturedTable]],
        callbacks: Callbacks,
    ) -> None:
        self._session, self._ledger = parts.session, parts.ledger
        self._watch, self._intake, self._loads = parts.watch, parts.intake, parts.loads
        self._settings = settings
        self._publications = publications
        self._oids = oids
        self._callbacks = callbacks

    def check_tables(self, seen: SeenTables) -> None:
        """Stop the sources whose tables cannot be captured as declared, and take those that can again.

        Raises SourceRecovered if one of those that were stopped can be captured again: who opens us anew reads it.
        """
        halted = any(target.halted for target in self._intake.targets.values())
        covered = self._publications.find_covered_sources(seen) if halted else {}
        for target in self._intake.targets.values():
            if target.halted and not (target.drifted or target.mend):
                continue
            table = seen[target.captured.source]
            found = find_table_drift(target.captured, table)
            if found is not None:
                if found.what != target.halted:
                    self._intake.halt(target, found.what, drifted=True, mend=found.hint or None)
            elif target.halted:
                assert isinstance(table, SeenTable), "a table that is missing has drifted"
                if target.captured.source in covered:
                    continue
                self._callbacks.answer()
                self._look_again(target, table.table)

    def compare_tables(self, seen: SeenTables) -> None:
        """Has tables read again that are not the ones that were read. Others may have changed in what does not matter.

        Those that are still to be read are left out: what they are is noted with their first rows.
        """
        obsolete = self._watch.find_obsolete(seen)
        settled = {}
        for source, target in self._intake.targets.items():
            if target.halted or self._loads.is_to_begin(source):
                continue
            if source in obsolete:
                self._intake.set_aside(target, obsolete[source])
            else:
                settled[source] = seen[source]
        self._intake.note(*self._watch.learn_harmless(settled))

    def note_rights(self, seen: SeenTables) -> None:
        """Notes which tables our role may not read any more. Their changes still come, since the log has them all; but
        nobody can read or check them, and the next reason to read one again would stop its source.
        """
        noted = read_notes(self._ledger, SourceUnreadable)
        for source, target in self._intake.targets.items():
            table = seen[source]
            found = say_unreadable(table.table, table.rights) if isinstance(table, SeenTable) else None
            if found is None or target.halted:
                if source in noted:
                    self._intake.note(SourceUnreadable.remove(source))
            elif (note := SourceUnreadable(source, found.what, found.hint)) != noted.get(source):
                self._intake.note(note)

    def keep_trigger(self, seen: SeenTables) -> None:
        """Makes the event trigger of those sources that ask for one, puts it back if somebody dropped or changed it,
        and says why it cannot. Without it their tables are looked at like all others.
        """
        asked = self._ask_for_trigger()
        if not asked:
            return
        found = keep_trigger(self._session, self._settings.names, self._watch.ask_watched(seen))
        wanted = {} if found is None else {name: SourceUnwatched(name, found.what, found.hint) for name in asked}
        noted = read_notes(self._ledger, SourceUnwatched)
        self._intake.note(*(SourceUnwatched.remove(name) for name in asked if name in noted and name not in wanted))
        self._intake.note(*(note for name, note in wanted.items() if noted.get(name) != note))

    def drop_unasked_trigger(self) -> None:
        """Drops the trigger if no source asks for it, and what was noted of sources that ask no more."""
        asked = self._ask_for_trigger()
        if not asked:
            drop_trigger(self._session, self._settings.names)
        noted = self._intake.targets.keys() & read_notes(self._ledger, SourceUnwatched).keys()
        self._intake.note(*(SourceUnwatched.remove(name) for name in sorted(noted - set(asked))))

    def _ask_for_trigger(self) -> list[str]:
        return [one.source for one in self._settings.tables if one.has_trigger]

    def compare_told(self, told: SeenTables) -> None:
        """Has tables read again that were not what they should be when somebody's statement ended."""
        for source, table in told.items():
            target = self._intake.targets.get(source)
            if target is None or not target.captured.has_trigger or target.halted or self._loads.is_to_begin(source):
                continue
            try:
                why = self._watch.why_obsolete_told(source, table)
            except psycopg.Error:
                raise
            except Exception as error:  # what was told may be anybody's, and make no sense
                log.warning("what the log tells of source %s makes no sense: %s", source, error)
                continue
            if why is not None:
                self._intake.set_aside(target, why)

    def _look_again(self, target: SpoolTarget, table: SqlTable) -> None:
        """Looks again at a table that is as declared, and was stopped."""
        if time.monotonic() < target.look_at:
            return
        found = self._find_hindrance(target, table)
        if found is None:
            raise SourceRecovered(
                f"table {show_table(target.captured.table)} can be captured again, and is being read again"
            )
        if found.what != target.halted:
            self._intake.halt(target, found.what, mend=found.hint)

    def _find_hindrance(self, target: SpoolTarget, table: SqlTable) -> Hindrance | None:
        captured = target.captured
        try:
            with self._session.transaction(force_rollback=True):
                self._session.execute(f"SET LOCAL lock_timeout = '{PROBE_LOCK_WITHIN}'".encode())
                unreadable = find_unreadable(self._session, captured.names, table)
                if unreadable is None and is_still_there(self._session, target, table):
                    return Hindrance(str(target.unheld), target.mend or "")
                if unreadable is not None or captured.static:
                    return unreadable
                return self._publications.find_hindrance(captured, table)
        except psycopg.errors.LockNotAvailable:
            return explain_lock(self._session, table)

    def resolve(self, relation: Relation) -> tuple[Layout, ...]:
        """The sources that a table of the log is. The log tells of a table again after it was changed: a reason to look
        at once.
        """
        found = [one for one in self._oids.get(relation.oid, ()) if not self._intake.targets[one.source].halted]
        columns = columns_of_relation(self._session, relation) if found else ()
        layouts = []
        for captured in found:
            self._callbacks.look_soon()
            target = self._intake.targets[captured.source]
            drift = find_name_drift(captured, relation) or find_drift(captured, columns)
            drift = drift or find_identity_drift(captured, relation)
            obsolete = self._watch.why_obsolete_in_log(captured, relation)
            if drift is None and obsolete is None:
                padded = {column.name for column in columns if column.is_padded}
                layouts.append(layout_of(captured, relation, padded))
            elif target.unread:
                continue  # as the table was before it is read again
            elif drift is not None:
                self._intake.halt(target, drift, drifted=True)
            elif obsolete is not None:
                self._intake.set_aside(target, obsolete)
        return tuple(layouts)


def group_by_oid(tables: Sequence[CapturedTable], seen: SeenTables) -> dict[int, list[CapturedTable]]:
    """Several sources may be one table."""
    found: dict[int, list[CapturedTable]] = {}
    for captured in tables:
        table = seen[captured.source]
        if isinstance(table, SeenTable):
            found.setdefault(table.fingerprint.oid, []).append(captured)
    return found
