"""Finds the row that a table refuses, so that people are told which one: by trying, since the database knows best.

    the first half of the rows -> it is taken:   it stays there, and the row is in the second half
                               -> it is refused: the row is in it

This is done with the table itself, in a transaction that is rolled back, so that all its constraints, indexes and
triggers count: a value that occurs twice is found at its second row. No row is copied more than twice, on average.
"""

from __future__ import annotations

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import errors, sql

from headrace.connect.postgres.copy_rows import copy_rows
from headrace.connect.postgres.sessions import Connection
from headrace.model.bad_row import say_text
from headrace.model.errors import RefusedRow
from headrace.model.types import Value
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.changes import WEIGHT
from headrace.run.views.view import repeat_rows

REFUSALS = (psycopg.DataError, psycopg.IntegrityError, errors.ProgramLimitExceeded, errors.RaiseException)
"""What PostgreSQL raises because of a row, and not because of its own state."""

NUL = "\0"
PROBE = sql.Identifier("pg_temp", "headrace_probe")
LIMITS = ("SET LOCAL statement_timeout = '60s'", "SET LOCAL lock_timeout = '5s'")
"""Of each statement of a search: the database is somebody else's."""
LONGEST_MESSAGE = 200
"""Characters of what PostgreSQL says, and as many of its details."""
MEND_VALUE = "correct the row, or change the value in the view; the copy then resumes by itself"
MEND_CONSTRAINT = "correct the row, or drop the constraint on the copy; the copy then resumes by itself"


def choose_rows_to_try(changes: pa.Table) -> pa.Table:
    """The rows that a change brings. One that it brings many times is tried twice: that finds what must be unique."""
    came = changes.filter(pc.greater(changes.column(WEIGHT), 0))
    times = pc.min_element_wise(came.column(WEIGHT), pa.scalar(2, came.column(WEIGHT).type))
    return repeat_rows(came.set_column(came.column_names.index(WEIGHT), WEIGHT, times))


def find_refused_row(
    session: Connection, table: sql.Identifier, rows: pa.Table, columns: list[str]
) -> RefusedRow | None:
    """None if the table takes all rows. `columns` are those of the view; the rows may have more."""
    session.execute("SET CONSTRAINTS ALL IMMEDIATE")
    while rows.num_rows > 1:
        first = rows.slice(0, rows.num_rows // 2)
        taken = _try_rows(session, table, first) is None
        rows = rows.slice(first.num_rows) if taken else first
    error = _try_rows(session, table, rows)
    if error is None:
        return None
    shown = rows.select(columns)
    row = dict(zip(columns, rows_of_arrow(shown)[0], strict=True))
    # The column that PostgreSQL names may be one that somebody added to the copy, or what a trigger calls it.
    named = error.diag.column_name
    column = named if named in row else _find_column(session, table, shown)
    return RefusedRow(*_say_refusal(error, row, column), row, column)


def _try_rows(session: Connection, table: sql.Identifier, rows: pa.Table) -> psycopg.Error | None:
    """Why they are refused; rows that are taken stay."""
    try:
        with session.transaction():
            copy_rows(session, table, rows)
    except REFUSALS as error:
        return error
    return None


def _find_column(session: Connection, table: sql.Identifier, row: pa.Table) -> str | None:
    """The column whose value the table's type does not take.

    None if it is the row as a whole that is refused, or if we may not make a temporary table.
    """
    # Not LIKE: that would copy NOT NULL, and each column is tried without the others.
    probe = sql.SQL("CREATE TEMPORARY TABLE {} AS SELECT * FROM {} WITH NO DATA").format(PROBE, table)
    try:
        with session.transaction():
            session.execute(probe)
    except errors.InsufficientPrivilege:
        return None
    return next((name for name in row.column_names if _try_rows(session, PROBE, row.select([name])) is not None), None)


def _say_refusal(error: psycopg.Error, row: dict[str, Value], column: str | None) -> tuple[str, str]:
    """What is wrong, and what mends it."""
    if column is not None and _has_nul(row[column]):
        return f'column "{column}" has a NUL character, which PostgreSQL cannot hold', MEND_VALUE
    said = say_text(error.diag.message_primary or str(error).partition("\n")[0], LONGEST_MESSAGE)
    if isinstance(error, errors.UniqueViolation) and error.diag.message_detail:
        said = f"{said}: {say_text(error.diag.message_detail.removesuffix('.'), LONGEST_MESSAGE)}"
    if isinstance(error, psycopg.IntegrityError):
        return said, MEND_CONSTRAINT
    return (said if column is None else f'column "{column}": {said}'), MEND_VALUE


def _has_nul(value: Value) -> bool:
    match value:
        case str():
            return NUL in value
        case tuple():
            return any(_has_nul(element) for element in value)
        case _:
            return False
