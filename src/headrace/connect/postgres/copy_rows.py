"""Arrow tables as what COPY reads, and the types of PostgreSQL that hold our values.

Every value is in quotes and NULL is nothing at all, so that an empty text is not NULL.
"""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from psycopg import sql
from pyarrow import csv, types

from headrace.connect.postgres.sessions import Connection
from headrace.model.types import Array, Decimal, Kind, Type, Value
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.json_rows import json_value

ROWS_AT_ONCE = 50_000

_NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "smallint",
    Kind.SMALLINT: "smallint",
    Kind.INT: "integer",
    Kind.BIGINT: "bigint",
    Kind.FLOAT: "real",
    Kind.DOUBLE: "double precision",
    Kind.STRING: "text",
    Kind.BINARY: "bytea",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp with time zone",
    Kind.NULL: "text",
}


def postgres_type(type_: Type) -> str:
    """Arrays of arrays are JSON: those of PostgreSQL are matrices, all rows of one length."""
    match type_:
        case Decimal(precision, scale):
            return f"numeric({precision},{scale})"
        case Array(Array()):
            return "jsonb"
        case Array(element):
            return f"{postgres_type(element)}[]"
        case _:
            assert type_.kind in _NAMES, f"no column can be of type {type_}"
            return _NAMES[type_.kind]


def copy_rows(session: Connection, target: sql.Composable, rows: pa.Table) -> None:
    """Appends rows to a table that has at least these columns."""
    columns = sql.SQL(", ").join(map(sql.Identifier, rows.column_names))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(target, columns)
    with session.cursor() as cursor, cursor.copy(statement) as copy:
        for part in _write_parts(rows):
            copy.write(part)


def _write_parts(rows: pa.Table) -> Iterator[bytes]:
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    for batch in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
        written = io.BytesIO()
        columns = [_writable(column) for column in batch.columns]
        csv.write_csv(pa.table(columns, names=rows.column_names), written, options)
        yield written.getvalue()


def _writable(column: pa.Array) -> pa.Array:
    """The column, as text where Arrow has none that PostgreSQL reads."""
    if types.is_binary(column.type):
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string())
    if types.is_list(column.type):
        write = _json if types.is_list(column.type.value_type) else _array
        values = [value for (value,) in rows_of_arrow(pa.table([column], names=["value"]))]
        return pa.array([None if value is None else write(value) for value in values], pa.string())
    return column


def _json(value: Value) -> str:
    return json.dumps(json_value(value))


def _array(values: Any) -> str:
    return "{" + ",".join("NULL" if value is None else _element(value) for value in values) + "}"


def _element(value: Value) -> str:
    match value:
        case bytes():
            text = f"\\x{value.hex()}"
        case dt.datetime():
            text = f"{value.isoformat()}Z"
        case _:
            text = str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
