"""Our types and rows as Arrow, and back.

Timestamps are microseconds of UTC in Arrow and naive in our rows; arrays are lists and tuples. Floats are put into
their one form (a single NaN, no -0.0) on both ways.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.meaning.zset import normal
from headrace.model.types import FRACTIONS, TIMESTAMP, Array, Decimal, Kind, Row, Type, Value

_SIMPLE = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.NULL: pa.null(),
}

_FIRST = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
_LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
NO_SUCH_TIME = "a time outside of the years 1 to 9999"


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type of a column; intervals have none, since no column holds them."""
    match type_:
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(element):
            return pa.list_(arrow_type(element))
        case _:
            assert type_.kind in _SIMPLE, f"no column can be of type {type_}"
            return _SIMPLE[type_.kind]


def has_no_such_time(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether some date or timestamp is outside of the years 1 to 9999: Arrow holds it, and nobody could read it."""
    if pa.types.is_list(column.type):
        return has_no_such_time(pc.list_flatten(column))
    if not (pa.types.is_date32(column.type) or pa.types.is_timestamp(column.type)):
        return False
    first, last = (pa.scalar(moment, pa.timestamp("us", tz="UTC")) for moment in (_FIRST, _LAST))
    bounds = [bound.cast(column.type) if pa.types.is_date32(column.type) else bound for bound in (first, last)]
    outside = pc.or_(pc.less(column, bounds[0]), pc.greater(column, bounds[1]))
    return bool(pc.any(outside, min_count=0).as_py())


def arrow_table(columns: Mapping[str, Type], rows: Sequence[Row]) -> pa.Table:
    """Rows as a table, their values in the order of the columns. Needs at least one column to keep rows apart."""
    arrays = []
    for position, type_ in enumerate(columns.values()):
        values = [row[position] for row in rows]
        arrays.append(pa.array(values if _is_alike(type_) else list(map(_theirs, values)), arrow_type(type_)))
    return pa.table(arrays, names=list(columns))


def _is_alike(type_: Type) -> bool:
    """Whether values are the same in Arrow: those of most types are, and looking at each takes long."""
    return not isinstance(type_, Array) and type_ not in FRACTIONS and type_ != TIMESTAMP


def rows_of_arrow(table: pa.Table) -> list[Row]:
    columns = [[_ours(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [() for _ in range(table.num_rows)]


def _theirs(value: Value) -> Any:
    match value:
        case dt.datetime():
            return value.replace(tzinfo=dt.UTC)
        case tuple():
            return [_theirs(element) for element in value]
        case _:
            return normal(value)


def _ours(value: Any) -> Value:
    match value:
        case dt.datetime():
            return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        case list():
            return tuple(_ours(element) for element in value)
        case _:
            return normal(value)
