"""Random schemas, tables and changes.

Values come from small pools, so that random joins find partners, groups have members and duplicates occur; each pool
still holds the values that break things: NULL, zero and negative numbers, NaN, empty and non-ASCII text, leap days, the
time before 1970.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Mapping

from hypothesis import strategies as st

from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Source, SourceColumn, SourceKind
from headrace.model.errors import Location
from headrace.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Row,
    Type,
    Value,
    integer_range,
)

Schema = Mapping[str, Source]
Tables = Mapping[str, ZSet]

MONEY = Decimal(10, 2)
COLUMN_TYPES: tuple[Type, ...] = (INT, BIGINT, DOUBLE, MONEY, STRING, DATE, TIMESTAMP, BOOLEAN)


def make_source(name: str, columns: Mapping[str, Type]) -> Source:
    """A table without a key: duplicate rows are allowed."""
    return Source(
        name=name,
        kind=SourceKind.TABLE,
        site="here",
        key=(),
        columns=tuple(SourceColumn(column, type_) for column, type_ in columns.items()),
        rows=None,
        rate=None,
        static=False,
        parent_first=False,
        stays=None,
        time=None,
        retention_s=None,
        origin=None,
        declared_at=Location("headrace.yml"),
    )


POOLS: dict[Type, tuple[Value, ...]] = {
    INT: (-1, 0, 1, 2, 3),
    BIGINT: (-2, 0, 1, 2, 3_000_000_000),
    DOUBLE: (0.0, 1.5, -2.25, 0.1, math.nan, math.inf),
    MONEY: tuple(map(decimal.Decimal, ("0.00", "1.00", "-1.50", "12.34", "99.99"))),
    STRING: ("", "a", "b", "Ab", "é", "日本", " a ", "10%_"),
    DATE: (dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 3, 1)),
    TIMESTAMP: (
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        dt.datetime(2024, 2, 29),
        dt.datetime(2024, 2, 29, 12, 30, 15),
        dt.datetime(2024, 2, 29, 12, 40),
        dt.datetime(2024, 3, 1, 0, 0, 0, 1),
    ),
    BOOLEAN: (True, False),
}
EXTREMES: dict[Type, tuple[Value, ...]] = {
    INT: integer_range(INT),
    BIGINT: integer_range(BIGINT),
    DOUBLE: (-math.inf, 1.7976931348623157e308, 5e-324),
    MONEY: (decimal.Decimal("99999999.99"), decimal.Decimal("-99999999.99")),
    STRING: ("\t", "a" * 40, "\U0001f600"),
    DATE: (dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    TIMESTAMP: (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
}
"""Values at the ends of each type, where arithmetic overflows."""

SCHEMA: dict[str, Source] = {
    "r": make_source(
        "r",
        {
            "id": INT,
            "k": INT,
            "n": BIGINT,
            "x": DOUBLE,
            "amount": MONEY,
            "name": STRING,
            "day": DATE,
            "at": TIMESTAMP,
            "ok": BOOLEAN,
        },
    ),
    "s": make_source("s", {"k": INT, "n": BIGINT, "price": MONEY, "label": STRING, "at": TIMESTAMP}),
    "t": make_source("t", {"k": INT, "x": DOUBLE, "name": STRING, "day": DATE, "ok": BOOLEAN}),
}


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Source]:
    """Two or three sources of one to five columns. Names repeat across sources, as they do in life."""
    names = draw(st.sampled_from((("a", "b"), ("a", "b", "c"))))
    return {name: make_source(name, draw(_draw_columns())) for name in names}


def _draw_columns() -> st.SearchStrategy[dict[str, Type]]:
    types = st.lists(st.sampled_from(COLUMN_TYPES), min_size=1, max_size=5)
    return types.map(lambda found: {f"c{index}": type_ for index, type_ in enumerate(found)})


def values(type_: Type, *, extreme: bool = False) -> st.SearchStrategy[Value]:
    """A value of the type or NULL; with `extreme` also the smallest and largest there are."""
    pool = _pool(type_) + (EXTREMES.get(type_, ()) if extreme else ())
    return st.sampled_from((*pool, None))


def _pool(type_: Type) -> tuple[Value, ...]:
    """Decimals of any size have zero and their smallest numbers; arrays have up to two elements."""
    if isinstance(type_, Array):
        first, *more = _pool(type_.element)
        return (), (first,), (*more[:1], first)
    if type_ in POOLS or not isinstance(type_, Decimal):
        return POOLS[type_]
    return tuple(decimal.Decimal(digits).scaleb(-type_.scale) for digits in (0, 1, -2))


def tables(
    schema: Schema = SCHEMA, *, min_rows: int = 0, max_rows: int = 6, extreme: bool = False
) -> st.SearchStrategy[dict[str, ZSet]]:
    """Rows for every source of a schema."""
    lists = {
        name: st.lists(rows(source, extreme=extreme), min_size=min_rows, max_size=max_rows)
        for name, source in schema.items()
    }
    return st.fixed_dictionaries({name: found.map(ZSet.of) for name, found in lists.items()})


def rows(source: Source, *, extreme: bool = False) -> st.SearchStrategy[Row]:
    assert source.columns is not None, f'source "{source.name}" has no declared columns'
    return st.tuples(*(values(column.type, extreme=extreme) for column in source.columns))


@st.composite
def changes(draw: st.DrawFn, tables: Tables, schema: Schema = SCHEMA, *, max_rows: int = 3) -> dict[str, ZSet]:
    """One batch: every table loses some rows that it has and gains some others (or the same: those cancel)."""
    return {name: draw(_draw_change(table, schema[name], max_rows)) for name, table in tables.items()}


def _draw_change(table: ZSet, source: Source, max_rows: int) -> st.SearchStrategy[ZSet]:
    present = tuple(table.rows())
    gone = st.lists(st.sampled_from(range(len(present))), unique=True, max_size=max_rows) if present else st.just([])
    new = st.lists(rows(source) | st.sampled_from(present) if present else rows(source), max_size=max_rows)
    return st.tuples(gone, new).map(lambda batch: ZSet.of(batch[1]) - ZSet.of(present[index] for index in batch[0]))
