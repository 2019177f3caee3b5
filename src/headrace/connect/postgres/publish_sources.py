"""Publishes the tables of a capture: tables with all changes, streams with insertions, and none twice."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.connect.postgres.facts import Hindrance
from headrace.connect.postgres.publications import (
    ALL_CHANGES,
    INSERTIONS,
    find_covered,
    find_unpublishable,
    publish,
    say_covered,
)
from headrace.connect.postgres.readiness import find_unfit
from headrace.connect.postgres.reading import writers_of
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import CaptureNames, SqlTable
from headrace.connect.postgres.table_look import SeenTable
from headrace.connect.postgres.table_watch import SeenTables
from headrace.run.capture.spool import CapturedTable


class SourcePublications:
    """The publications of one capture."""

    def __init__(self, session: Connection, names: CaptureNames, tables: Sequence[CapturedTable]) -> None:
        self._session = session
        self._names = names
        self._tables = tables

    def find_covered_sources(self, seen: SeenTables) -> dict[str, Hindrance]:
        """Sources whose tables are partitions of other sources' tables, and why they cannot be captured."""
        tables = {one.source: seen[one.source] for one in self._tables if not one.static}
        names = {source: table.table for source, table in tables.items() if isinstance(table, SeenTable)}
        roots = find_covered(self._session, list(names.values()))
        return {source: say_covered(table, roots[table]) for source, table in names.items() if table in roots}

    def publish_sources(self, seen: SeenTables) -> tuple[dict[SqlTable, frozenset[str]], dict[str, Hindrance]]:
        """The tables that were not published before, or not completely, each with the transactions that wrote to it
        before it was; and the sources whose tables cannot be published.
        """
        added: list[SqlTable] = []
        refused: dict[str, Hindrance] = {}
        for streams in (False, True):
            chosen = {
                one.source: table.table
                for one in self._tables
                if one.appends is streams and not one.static
                if isinstance(table := seen.get(one.source), SeenTable) and find_unfit(table.form) is None
            }
            wanted: dict[SqlTable, frozenset[str]] = {}
            for one in self._tables:
                if (name := chosen.get(one.source)) is not None:
                    wanted[name] = wanted.get(name, frozenset()) | _present_columns(one, seen)
            published = publish(self._session, self.name_publication(streams), wanted, name_operations(streams))
            added += published.added
            refused |= {name: published.refused[one] for name, one in chosen.items() if one in published.refused}
        return {table: writers_of(self._session, table) for table in added}, refused

    def name_publication(self, streams: bool) -> str:
        return self._names.streams if streams else self._names.tables

    def find_hindrance(self, captured: CapturedTable, table: SqlTable) -> Hindrance | None:
        """Why a table could not be published now; None if it could, or is."""
        publication, operations = self.name_publication(captured.appends), name_operations(captured.appends)
        return find_unpublishable(self._session, publication, table, frozenset(captured.names), operations)


def _present_columns(captured: CapturedTable, seen: SeenTables) -> frozenset[str]:
    table = seen[captured.source]
    return frozenset(column.name for column in table.columns) if isinstance(table, SeenTable) else frozenset()


def name_operations(streams: bool) -> str:
    return INSERTIONS if streams else ALL_CHANGES
