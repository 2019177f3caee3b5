"""Compares the tables of a capture with what they were when they were read.

The fingerprint of each table is a note in the ledger, committed with the rows that were read. `find_obsolete` says of
which tables these rows are worth nothing any more, and why. What else changed, the log tells of, or it does not matter:
then the new fingerprint takes the place of the old one, so that two harmless changes never look like a rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile

import psycopg

from headrace.connect.postgres.kept_rows import has_rows_from_before
from headrace.connect.postgres.publications import ALL_CHANGES, INSERTIONS
from headrace.connect.postgres.readiness import find_unfit
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import CaptureNames
from headrace.connect.postgres.table_look import AskedTable, MissingTable, SeenTable, look_at_tables
from headrace.model.notes import SourceFingerprint, read_document, read_notes
from headrace.model.table_name import TableName, show_table
from headrace.run.capture.pgoutput import Relation
from headrace.run.capture.spool import CapturedTable
from headrace.run.capture.table_fingerprint import (
    OtherTable,
    PublicationFingerprint,
    TableChange,
    TableFingerprint,
    find_changes,
    find_relation_changes,
    find_replaced_parts,
    say_change,
)
from headrace.run.ports import Ledger

SeenTables = Mapping[str, SeenTable | MissingTable]


class TableWatch:
    """`known` are the fingerprints of tables that were read, or of which some rows were.

    `followed` are the ids of the tables whose changes the capture takes from the log, by source: fixed when it opens.
    """

    def __init__(
        self, session: Connection, tables: Sequence[CapturedTable], names: CaptureNames, ledger: Ledger
    ) -> None:
        self._session = session
        self._tables = {one.source: one for one in tables}
        self._names = names
        noted = {name: read_document(note, TableFingerprint.from_text)
                 for name, note in read_notes(ledger, SourceFingerprint).items()}  # fmt: skip
        self.known = {name: one for name, one in noted.items() if one is not None and name in self._tables}
        self.followed: Mapping[str, int] = {}

    def look(self) -> SeenTables:
        return look_at_tables(self._session, map(self._ask, self._tables.values()))

    def look_if_free(self) -> SeenTables | None:
        """None while somebody keeps even the catalogue locked, as VACUUM FULL does: another look will tell."""
        try:
            return self.look()
        except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
            return None

    def look_at(self, session: Connection, captured: CapturedTable) -> SeenTable | MissingTable:
        """One table, as the session's transaction sees it."""
        return look_at_tables(session, [self._ask(captured)])[captured.source]

    def _ask(self, captured: CapturedTable) -> AskedTable:
        known = self.known.get(captured.source)
        return AskedTable(captured, self._publication_of(captured), None if known is None else known.oid)

    def _publication_of(self, captured: CapturedTable) -> str | None:
        if captured.static:
            return None
        return self._names.streams if captured.appends else self._names.tables

    def find_obsolete(self, seen: SeenTables) -> dict[str, str]:
        """The sources that have to be read again, and why."""
        found = {name: self.why_obsolete(name, table) for name, table in seen.items() if isinstance(table, SeenTable)}
        return {name: why for name, why in found.items() if why is not None}

    def why_obsolete(self, source: str, table: SeenTable) -> str | None:
        """Why the source has to be read again; None if what we hold of it, or are reading, is still good."""
        known, captured = self.known.get(source), self._tables[source]
        if self.followed.get(source, table.fingerprint.oid) != table.fingerprint.oid:
            return say_change(OtherTable())  # perhaps before anything of it was read: its changes would be passed over
        changes = () if known is None else self._find_changes(known, table.fingerprint)
        if changes:
            return say_change(changes[0])
        return None if captured.static else find_unpublished(captured, table.fingerprint)

    def _find_changes(self, was: TableFingerprint, now: TableFingerprint) -> tuple[TableChange, ...]:
        replaced = find_replaced_parts(was, now)
        if was.horizon is None:
            return find_changes(was, now)
        # Up to the first that was truncated: each search may take a second.
        kept = takewhile(partial(has_rows_from_before, self._session, horizon=was.horizon), replaced)
        return find_changes(was, now, frozenset(kept))

    def why_obsolete_told(self, source: str, table: SeenTable | MissingTable) -> str | None:
        """Why a table that a trigger saw, perhaps for a moment only, has to be read again; None if it has not."""
        captured = self._tables[source]
        if isinstance(table, MissingTable):
            return f"table {show_table(captured.table)} was not there for a while"
        unfit = None if captured.static else find_unfit(table.form)
        if unfit is not None:
            return f"for a while, {unfit.what}"
        if captured.keyed and not captured.static and not table.fingerprint.key_is_unique:
            return f"its table did not keep {', '.join(captured.key)} unique for a while"
        return self.why_obsolete(source, table)

    def ask_watched(self, seen: SeenTables) -> list[AskedTable]:
        """The tables that a trigger is to tell of: those that are there, by their whole names."""
        return [
            AskedTable(replace(captured, table=str(TableName(table.table.schema, table.table.name))),
                       self._publication_of(captured))
            for captured in self._tables.values()
            if captured.has_trigger and isinstance(table := seen[captured.source], SeenTable)
        ]  # fmt: skip

    def why_obsolete_in_log(self, captured: CapturedTable, relation: Relation) -> str | None:
        known = self.known.get(captured.source)
        changes = () if known is None else find_relation_changes(known, relation)
        return say_change(changes[0]) if changes else None

    def learn(self, source: str, fingerprint: TableFingerprint) -> SourceFingerprint:
        """The table was read, or is as good as it was then: what to note."""
        self.known[source] = fingerprint
        return SourceFingerprint(source, fingerprint.to_text())

    def learn_harmless(self, seen: SeenTables) -> Iterator[SourceFingerprint]:
        """Takes what changed and does not matter. Call it with tables of which none is obsolete."""
        for source, table in seen.items():
            if isinstance(table, SeenTable):
                was = self.known.get(source)
                note = self.learn(source, table.fingerprint)
                if was != table.fingerprint:
                    yield note

    def forget(self, source: str) -> None:
        """The table is to be read: until then there is nothing to compare with."""
        self.known.pop(source, None)


def find_unpublished(captured: CapturedTable, fingerprint: TableFingerprint) -> str | None:
    """What of the table is missing in the log, because of how it is published; None if nothing is."""
    published = fingerprint.published
    if published is None:
        return "its table is not published any more"
    if published.filtered:
        return "its table is published with a row filter"
    if not _publishes_columns(captured, fingerprint, published):
        return "its table is published without some of its columns"
    wanted = INSERTIONS if captured.appends else ALL_CHANGES
    missing = [operation for operation in wanted.split(", ") if operation[0] not in published.operations]
    return f"its table is published without {', '.join(missing)}" if missing else None


def _publishes_columns(
    captured: CapturedTable, fingerprint: TableFingerprint, published: PublicationFingerprint
) -> bool:
    numbers = {column.number for column in fingerprint.columns}
    return published.columns is None or numbers <= set(published.columns)
