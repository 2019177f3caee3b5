"""Writes the values of a column as PostgreSQL writes an array.

psycopg looks at every value of a list by itself, which takes longer than PostgreSQL takes to store it. A statement that
is given such a text has to say the array's type.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

SEPARATOR = "\0"
"""The one character that no text of a database can hold."""
_BOOLEANS = {True: "t", False: "f", None: "NULL"}


def write_column(column: pa.ChunkedArray) -> str:
    """A column of texts, whole numbers or truth values."""
    values = column.to_pylist()
    if pa.types.is_string(column.type):
        return write_texts(values)
    if pa.types.is_boolean(column.type):
        return "{" + ",".join([_BOOLEANS[value] for value in values]) + "}"
    return write_numbers(values)


def write_texts(values: Sequence[str]) -> str:
    """Raises `ValueError` for a text that no database can hold."""
    joined = SEPARATOR.join(values)
    if not values:
        return "{}"
    if joined.count(SEPARATOR) != len(values) - 1:
        raise ValueError("a text with the character NUL cannot be stored in PostgreSQL")
    return '{"' + joined.replace("\\", "\\\\").replace('"', '\\"').replace(SEPARATOR, '","') + '"}'


def write_numbers(values: Sequence[int | None]) -> str:
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"
