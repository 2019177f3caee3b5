"""SQL types of our algebra, and the Python values that stand for them.

    BOOLEAN bool        TINYINT..BIGINT int        FLOAT, DOUBLE float        DECIMAL decimal.Decimal
    STRING str          BINARY bytes               DATE datetime.date         TIMESTAMP datetime (naive, UTC)
    DAY_TIME timedelta  YEAR_MONTH int (months)    ARRAY tuple                NULL None, in every type

The session time zone is always UTC, so TIMESTAMP needs no zone. Interval types occur in expressions only, never as
columns.
"""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The types without parameters."""

    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    DAY_TIME = "interval day to second"
    YEAR_MONTH = "interval year to month"
    NULL = "void"


@dataclass(frozen=True, slots=True)
class Simple:
    """A type without parameters."""

    kind: Kind

    def __str__(self) -> str:
        return self.kind.value


@dataclass(frozen=True, slots=True)
class Decimal:
    """Exact numbers: `precision` digits in all (at most 38), `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Array:
    """A list of values of one type."""

    element: Type

    def __str__(self) -> str:
        return f"array<{self.element}>"


Type = Simple | Decimal | Array
Value = (
    bool
    | int
    | float
    | decimal.Decimal
    | str
    | bytes
    | dt.date
    | dt.datetime
    | dt.timedelta
    | tuple["Value", ...]
    | None
)
Row = tuple[Value, ...]

BOOLEAN = Simple(Kind.BOOLEAN)
TINYINT = Simple(Kind.TINYINT)
SMALLINT = Simple(Kind.SMALLINT)
INT = Simple(Kind.INT)
BIGINT = Simple(Kind.BIGINT)
FLOAT = Simple(Kind.FLOAT)
DOUBLE = Simple(Kind.DOUBLE)
STRING = Simple(Kind.STRING)
BINARY = Simple(Kind.BINARY)
DATE = Simple(Kind.DATE)
TIMESTAMP = Simple(Kind.TIMESTAMP)
DAY_TIME = Simple(Kind.DAY_TIME)
YEAR_MONTH = Simple(Kind.YEAR_MONTH)
NULL = Simple(Kind.NULL)

INTEGERS: tuple[Simple, ...] = (TINYINT, SMALLINT, INT, BIGINT)
FRACTIONS: tuple[Simple, ...] = (FLOAT, DOUBLE)
INTERVALS: tuple[Simple, ...] = (DAY_TIME, YEAR_MONTH)

_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}
_WIDTHS = {
    Kind.BOOLEAN: 1,
    Kind.TINYINT: 1,
    Kind.SMALLINT: 2,
    Kind.INT: 4,
    Kind.BIGINT: 8,
    Kind.FLOAT: 4,
    Kind.DOUBLE: 8,
    Kind.DATE: 4,
    Kind.TIMESTAMP: 8,
    Kind.STRING: 24,
    Kind.BINARY: 64,
}


def is_numeric(type_: Type) -> bool:
    return type_ in INTEGERS or type_ in FRACTIONS or isinstance(type_, Decimal)


def default_width(type_: Type) -> int:
    """Bytes of a column whose width is not declared: fixed-size types their size, text 24, bytes 64, other 16."""
    return _WIDTHS.get(type_.kind, 16) if isinstance(type_, Simple) else 16


def integer_range(type_: Simple) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    half = 1 << (_BITS[type_.kind] - 1)
    return -half, half - 1


def as_decimal(type_: Type) -> Decimal:
    """The decimal type that holds every value of an integer type (Spark's widening); a decimal is itself."""
    if isinstance(type_, Decimal):
        return type_
    assert isinstance(type_, Simple), f"not an exact number: {type_}"
    return Decimal(_DIGITS[type_.kind], 0)
