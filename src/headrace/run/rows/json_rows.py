"""Rows and changes of a view as JSON values, for `show`, `changes` and HTTP.

decimal    text with all its digits           timestamp  ISO 8601 in UTC, "2024-02-29T12:30:15Z"
binary     text in base64                     NaN, infinities  "NaN", "Infinity", "-Infinity"
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa

from headrace.model.types import Value
from headrace.run.rows.arrow import rows_of_arrow

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | None
JsonRow: TypeAlias = dict[str, JsonValue]
JsonChange: TypeAlias = dict[str, int | str | JsonRow]


def json_rows(table: pa.Table) -> Iterator[JsonRow]:
    for batch in table.to_batches():
        for row in rows_of_arrow(pa.Table.from_batches([batch])):
            yield dict(zip(table.column_names, map(json_value, row), strict=True))


def json_changes(changes: Iterable[tuple[int, pa.Table, pa.Table]]) -> Iterator[JsonChange]:
    """One value for each row of what `run.views.view.changes_after` yields: at each time first those that went."""
    for t, went, came in changes:
        for operation, rows in (("delete", went), ("insert", came)):
            for row in json_rows(rows):
                yield {"t": t, "op": operation, "row": row}


def json_value(value: Value) -> JsonValue:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case decimal.Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case dt.datetime():
            return f"{value.isoformat()}Z"
        case dt.date():
            return value.isoformat()
        case tuple():
            return [json_value(element) for element in value]
        case _:
            raise AssertionError(f"no column holds {value!r}")


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
