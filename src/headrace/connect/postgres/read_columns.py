"""Reads some columns of a table at once, for a plan that has to know its rows before anything captures them."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import pyarrow as pa
import pyarrow.csv as csv
from psycopg import sql

from headrace.connect.postgres.sessions import connect_reading, database_errors
from headrace.model.catalogue import SourceColumn
from headrace.model.types import INTEGERS, is_numeric


def read_columns(dsn: str, table: str, columns: Sequence[SourceColumn]) -> pa.Table:
    """Whole numbers as int64, other numbers as doubles, all else as text. Raises ConnectError."""
    names = sql.SQL(", ").join(sql.Identifier(one.name) for one in columns)
    # The name of a table is kept as SQL writes it.
    query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)").format(names, sql.SQL(table))
    with database_errors(dsn), connect_reading(dsn) as session, session.cursor() as cursor, cursor.copy(query) as rows:
        text = b"".join(bytes(part) for part in rows)
    types = {one.name: _arrow_type(one) for one in columns}
    read = csv.ReadOptions(column_names=list(types))
    convert = csv.ConvertOptions(column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False)
    return (
        csv.read_csv(BytesIO(text), read, csv.ParseOptions(newlines_in_values=True), convert)
        if text
        else _nothing(types)
    )


def _arrow_type(column: SourceColumn) -> pa.DataType:
    if column.type in INTEGERS:
        return pa.int64()
    return pa.float64() if is_numeric(column.type) else pa.string()


def _nothing(types: dict[str, pa.DataType]) -> pa.Table:
    return pa.schema(list(types.items())).empty_table()
