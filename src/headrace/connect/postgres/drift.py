"""Decides whether a table still matches its source: new columns do not matter, missing columns do."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.connect.postgres.facts import HAS_TEXTS, ColumnFacts, Hindrance
from headrace.connect.postgres.readiness import find_unfit, holds
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.table_look import MissingTable, SeenTable
from headrace.model.table_name import TableName, read_table_name, show_table
from headrace.run.capture.pgoutput import Relation
from headrace.run.capture.spool import CapturedTable


def find_drift(captured: CapturedTable, columns: Sequence[ColumnFacts]) -> str | None:
    """Why the table cannot be captured as declared any more; None if it can."""
    present = {column.name: column for column in columns}
    for name, type_ in captured.columns:
        column = present.get(name)
        if column is None:
            return (
                f'column "{name}" of source "{captured.source}" is not in table {show_table(captured.table)} any more'
            )
        if column.type is None or not holds(type_, column.type):
            return (
                f'column "{name}" of source "{captured.source}" is declared {type_}, '
                f"and is now {column.type_name} in table {show_table(captured.table)}"
            )
    return None


def find_table_drift(captured: CapturedTable, table: SeenTable | MissingTable) -> Hindrance | None:
    """Why a table cannot be captured as declared now; None if it can."""
    name, source = show_table(captured.table), captured.source
    if isinstance(table, MissingTable):
        if table.now_called is None:
            return Hindrance(f'table {name} of source "{source}" no longer exists', "")
        return Hindrance(f'table {name} of source "{source}" is now called {show_table(table.now_called)}', "")
    drift = find_drift(captured, table.columns)
    if drift is not None:
        return Hindrance(drift, "")
    if captured.static:
        return None
    return find_unfit(table.form) or (None if captured.appends else _find_key_drift(captured, table))


def _find_key_drift(captured: CapturedTable, table: SeenTable) -> Hindrance | None:
    name, identity = show_table(captured.table), table.fingerprint.identity
    if not captured.key:
        what = f'table {name} of source "{captured.source}" has no REPLICA IDENTITY FULL any more'
        return None if identity == "f" else Hindrance(what, "")
    listed = ", ".join(captured.key)
    if not table.fingerprint.key_is_unique:
        what = f'table {name} of source "{captured.source}" does not keep {listed} unique any more'
        now = f"its primary key is {', '.join(table.primary_key)} now" if table.primary_key else "it has no primary key"
        return Hindrance(what, f"{now}: `headrace apply` reads it anew, unless the project's files give another key")
    if identity != "f" and not set(captured.key) <= set(table.identity_key):
        what = f'changes of table {name} of source "{captured.source}" do not name rows by {listed} any more'
        return Hindrance(what, "")
    return None


def find_identity_drift(captured: CapturedTable, relation: Relation) -> str | None:
    """Why changes in the log do not say which row they change any more; None if they do."""
    if captured.appends:
        return None
    named = {column.name for column in relation.columns if column.in_key}
    if captured.key and not set(captured.key) <= named:
        listed = ", ".join(captured.key)
        table = show_table(captured.table)
        return f'changes of table {table} of source "{captured.source}" do not name rows by {listed} any more'
    if not captured.key and len(named) < len(relation.columns):
        return f'table {show_table(captured.table)} of source "{captured.source}" has no REPLICA IDENTITY FULL any more'
    return None


def find_name_drift(captured: CapturedTable, relation: Relation) -> str | None:
    asked, now = read_table_name(captured.table), TableName(relation.schema, relation.name)
    if asked.name == now.name and asked.schema in (None, now.schema):
        return None
    was = show_table(captured.table)
    return f'table {was} of source "{captured.source}" is now called {show_table(str(now))}'


def columns_of_relation(session: Connection, relation: Relation) -> tuple[ColumnFacts, ...]:
    """The columns of a table as the log describes it, with the names of their types."""
    oids = [column.type_oid for column in relation.columns]
    modifiers = [column.modifier for column in relation.columns]
    rows = session.execute(_TYPES, {"oids": oids, "modifiers": modifiers}).fetchall()
    return tuple(
        ColumnFacts(column.name, row["type_name"], row["as_text"], True, False, None, None)
        for column, row in zip(relation.columns, rows, strict=True)
    )


_TYPES = (
    """
SELECT CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod)
            ELSE format_type(c.oid, c.modifier) END AS type_name,
       coalesce("""
    + HAS_TEXTS
    + """, false) AS as_text
FROM unnest(%(oids)s::oid[], %(modifiers)s::int[]) WITH ORDINALITY AS c(oid, modifier, position)
LEFT JOIN pg_type t ON t.oid = c.oid
ORDER BY c.position
"""
)
