"""Calls of every function of the allow-list, with arguments at the edges of their types."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.meaning.functions import FUNCTIONS
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Decimal,
    Row,
    Type,
    Value,
    integer_range,
)

D = decimal.Decimal
MONEY, WIDE, WHOLE, FINE = Decimal(10, 2), Decimal(38, 18), Decimal(38, 0), Decimal(20, 10)

POOLS: dict[Type, tuple[Value, ...]] = {
    BOOLEAN: (True, False),
    TINYINT: (0, 1, -7, 127, -128),
    SMALLINT: (0, 2, -300, 32767),
    INT: (0, 1, -1, 2, 3, -7, 10, *integer_range(INT)),
    BIGINT: (0, 1, -1, 2, -7, 3_000_000_000, *integer_range(BIGINT)),
    FLOAT: (0.0, 1.5, -2.25, math.nan, math.inf, 16777216.0),
    DOUBLE: (0.0, -0.0, 1.0, 1.5, -2.5, 0.1, 2.675, -1e-5, 1e7, 123456.789, 1e308, math.nan, math.inf, -math.inf),
    MONEY: tuple(map(D, ("0.00", "1.00", "-1.50", "0.05", "12.34", "99999999.99", "-99999999.99"))),
    FINE: tuple(map(D, ("0.0000000000", "0.0000000001", "-1.5000000000", "1234567890.0123456789"))),
    WIDE: tuple(map(D, ("0E-18", "1.500000000000000000", "-0.000000000000000001", "9" * 20 + "." + "9" * 18))),
    WHOLE: tuple(map(D, ("0", "7", "-3", "9" * 34, "9" * 38))),
    STRING: ("", "a", "abc", "ABC", "a b", " a ", "é", "日本語", "ß", "\U0001f600x", "a,b,,c", "100%", "x\ty", "3"),
    DATE: (
        dt.date(1969, 12, 31),
        dt.date(1970, 1, 1),
        dt.date(2024, 2, 29),
        dt.date(2023, 12, 31),
        dt.date(1900, 3, 1),
    ),
    TIMESTAMP: (
        dt.datetime(1969, 12, 31, 23, 59, 59, 500_000),
        dt.datetime(1970, 1, 1),
        dt.datetime(2024, 2, 29, 12, 30, 15, 123_456),
        dt.datetime(2023, 12, 31, 0, 0, 0, 1),
        dt.datetime(1900, 3, 1, 7),
    ),
    BINARY: (b"", b"a", "日".encode()),
}
SMALL = (0, 1, 2, 5, -1, -2, -5, 12)
NUMERIC = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, MONEY, FINE, WIDE, WHOLE)
COMPARED = (BOOLEAN, INT, BIGINT, DOUBLE, FLOAT, MONEY, STRING, DATE, TIMESTAMP)
NARROW: dict[tuple[str, int], tuple[Value, ...]] = {
    **{(name, 1): SMALL for name in ("repeat", "lpad", "rpad", "date_add", "date_sub", "add_months")},
    ("split_part", 1): (",", "", "b", ",,", "日"),
    ("split_part", 2): SMALL,
    ("make_date", 0): (1, 1900, 2023, 2024, 9999),
    ("make_date", 1): (0, 1, 2, 12, 13, -1),
    ("make_date", 2): (0, 1, 28, 29, 31, 32),
    ("like", 1): ("%", "_", "", "a%", "%本%", "100\\%", "a_c", "__", "%\\_"),
    ("distance", 0): (0.0, 52.5, -90.0, math.nan),
    ("distance", 1): (0.0, 13.4, 180.0),
    ("distance", 2): (0.0, 48.85, 90.0),
    ("distance", 3): (0.0, 2.35, -180.0),
}
"""Arguments for which any value of the type would only make huge texts, or dates beyond Python's."""

CASTS: dict[Type, tuple[Value, ...]] = {
    **POOLS,
    STRING: (
        *(
            "",
            " ",
            "0",
            "-1",
            "+5",
            " 12 ",
            "1.5",
            "1.",
            ".5",
            "-.5e1",
            "1e2",
            "1E-3",
            "abc",
            "1d",
            "2F",
            "0x10",
            "1_0",
        ),
        *("9" * 5000, "0" * 5000 + "7", "-", "+", "1e999999", "-1e999999", "1e-999999", "7" * 70_000),
        *("inf", "-Infinity", "+inf", "nan", "-nan", "NaN", "1e400", "2147483648", "-9223372036854775808", "9" * 25),
        *("t", "TRUE", " yes ", "n", "No", "2", "\t3\n", "\u00a03", "３", "--1", "1.005", "-0.005", "0.00000000005"),
        *(
            "2024",
            "2024-2",
            "2024-2-3",
            "2024-02-30",
            "2024-02-03 x",
            "2024-02-03Tx",
            "24-01-01",
            "+2024-01-01",
            "20240203",
        ),
        *(
            "2024-02-03 10",
            "2024-02-03 10:1",
            "2024-02-03T10:01:02.1234567",
            "2024-02-03 10:01:02.",
            "2024-02-03 24:00:00",
        ),
        *("2024-02-03 10:01:02Z", "2024-02-03 10:01:02+01:30", "2024-02-03 10:01:02 -5", "2024-02-03 10:01:02 +0130"),
        *("2024-02-03 10:01:02 UTC", "2024-02-03 10:01:02UTC+01:00", "2024-02-03 10:01:02 Europe/Paris", "2024-02-03T"),
        *("2024-02-03 10:01:02 Nowhere/City", "2024-02-03 10:01:02+19:00", "2024-02-03 10:01Z", "2024-02-03 10:60:00"),
    ),
    DOUBLE: (
        *POOLS[DOUBLE],
        5e-324,
        0.001,
        9999999.0,
        12345678.9,
        1e21,
        1.005,
        2147483648.5,
        -128.9,
        9.3e18,
        1e-7,
        100.0,
    ),
    FLOAT: (*POOLS[FLOAT], 0.10000000149011612, 1.0000000200408773e20, 3.4028234663852886e38),
}
CAST_TARGETS: dict[Type, tuple[Type, ...]] = {
    STRING: (BOOLEAN, TINYINT, INT, BIGINT, FLOAT, DOUBLE, MONEY, WIDE, DATE, TIMESTAMP, BINARY),
    BOOLEAN: (STRING, INT, DOUBLE, MONEY),
    **dict.fromkeys(NUMERIC, (STRING, BOOLEAN, TINYINT, INT, BIGINT, FLOAT, DOUBLE, MONEY, WIDE, WHOLE)),
    DATE: (STRING, TIMESTAMP),
    TIMESTAMP: (STRING, DATE, INT, BIGINT, DOUBLE, Decimal(20, 6)),
    BINARY: (STRING,),
}


@dataclass(frozen=True, slots=True)
class Calls:
    """One call over columns `a0`, `a1`, ... and rows of arguments for it."""

    call: Call
    columns: dict[str, Type]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        return f"{self.call} : {', '.join(map(str, self.columns.values()))} -> {self.call.type}"


def all_calls(rows: int = 60) -> Iterator[Calls]:
    """Every function in every form, each with at most this many rows."""
    for function in sorted(FUNCTIONS):
        if function not in ("now", "cast"):
            for arguments in FORMS[function]:
                yield make_calls(function, arguments, rows)
    for source, targets in CAST_TARGETS.items():
        for target in targets:
            if source != target:
                column = Column("a0", source)
                yield Calls(Call("cast", (column,), target), {"a0": source}, ((None,), *((v,) for v in CASTS[source])))


Argument = Type | Literal
"""A column of a type, or a constant of the call."""


def make_calls(function: str, arguments: tuple[Argument, ...], most: int) -> Calls:
    exprs: list[Expr] = []
    columns: dict[str, Type] = {}
    pools: list[tuple[Value, ...]] = []
    for position, argument in enumerate(arguments):
        if isinstance(argument, Literal):
            exprs.append(argument)
            continue
        name = f"a{len(columns)}"
        columns[name] = argument
        exprs.append(Column(name, argument))
        pools.append((None, *NARROW.get((function, position), POOLS[argument])))
    product = list(itertools.product(*pools))
    chosen = product if len(product) <= most else random.Random(function).sample(product, most)
    type_ = FUNCTIONS[function].result_type(tuple(exprs))
    return Calls(Call(function, tuple(exprs), type_), columns, tuple(chosen))


def _texts(*values: str) -> tuple[Literal, ...]:
    return tuple(Literal(value, STRING) for value in values)


def _numbers(*values: int) -> tuple[Literal, ...]:
    return tuple(Literal(value, INT) for value in values)


def _same(types: tuple[Type, ...], count: int) -> tuple[tuple[Argument, ...], ...]:
    return tuple((type_,) * count for type_ in types)


_DECIMAL_PAIRS = tuple(itertools.product((MONEY, FINE, WIDE, WHOLE), repeat=2))
_ARITHMETIC = (*_same((TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE), 2), *_DECIMAL_PAIRS)
_PATTERNS = _texts("a", "(\\d+)", "^(.)(.*)$", "[a-c]+", "(?i)AB", "(x)?a", "\\w", "", "^$", "a|(b)")

FORMS: dict[str, tuple[tuple[Argument, ...], ...]] = {
    **dict.fromkeys(("and", "or"), ((BOOLEAN, BOOLEAN), (BOOLEAN, BOOLEAN, BOOLEAN))),
    "not": ((BOOLEAN,),),
    **{name: _same(COMPARED, 2) for name in ("=", "<>", "<", "<=", ">", ">=", "<=>", "nullif")},
    **dict.fromkeys(("+", "-", "*", "%", "pmod"), _ARITHMETIC),
    "/": ((DOUBLE, DOUBLE), *_DECIMAL_PAIRS),
    "div": ((BIGINT, BIGINT), *_DECIMAL_PAIRS),
    **{name: _same(NUMERIC, 1) for name in ("negate", "abs", "ceil", "floor")},
    "in": _same((INT, DOUBLE, STRING), 3),
    "is_null": _same(COMPARED, 1),
    "case": ((BOOLEAN, INT, INT), (BOOLEAN, STRING, BOOLEAN, STRING, STRING)),
    **{name: _same(COMPARED, 2) for name in ("coalesce", "greatest", "least")},
    "concat": ((STRING, STRING), (STRING, STRING, STRING)),
    "concat_ws": ((STRING, STRING, STRING),),
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim", "reverse", "md5", "initcap", "length"), ((STRING,),)),
    "substring": ((STRING, INT), (STRING, INT, INT)),
    "replace": ((STRING, STRING), (STRING, STRING, STRING)),
    "translate": ((STRING, STRING, STRING),),
    "split_part": ((STRING, STRING, INT),),
    "regexp_extract": (
        *((STRING, pattern, number) for pattern in _PATTERNS for number in _numbers(0, 1, 2)),
        *((STRING, pattern) for pattern in _PATTERNS[1:3]),
    ),
    "rlike": tuple((STRING, pattern) for pattern in _PATTERNS),
    "like": ((STRING, STRING), (STRING, STRING, Literal("#", STRING))),
    **dict.fromkeys(("startswith", "endswith", "contains", "locate"), ((STRING, STRING),)),
    **dict.fromkeys(("lpad", "rpad"), ((STRING, INT), (STRING, INT, STRING))),
    **dict.fromkeys(("left", "right", "repeat"), ((STRING, INT),)),
    **dict.fromkeys(
        ("sign", "sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan"), ((DOUBLE,),)
    ),
    **dict.fromkeys(("radians", "degrees"), ((DOUBLE,),)),
    **dict.fromkeys(("power", "atan2"), ((DOUBLE, DOUBLE),)),
    "round": (
        *_same(NUMERIC, 1),
        *((type_, digits) for type_ in NUMERIC for digits in _numbers(0, 1, -1, 5, -3)),
    ),
    "distance": ((DOUBLE, DOUBLE, DOUBLE, DOUBLE),),
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofweek", "dayofyear", "last_day"), ((DATE,),)),
    **dict.fromkeys(("hour", "minute", "second", "unix_timestamp"), ((TIMESTAMP,),)),
    "date_trunc": tuple(
        (unit, TIMESTAMP)
        for unit in _texts("year", "QUARTER", "mon", "week", "dd", "hour", "minute", "second", "millisecond", "x")
    ),
    **dict.fromkeys(("date_add", "date_sub", "add_months"), ((DATE, INT),)),
    "datediff": ((DATE, DATE),),
    "make_date": ((INT, INT, INT),),
    "date_format": tuple(
        (TIMESTAMP, pattern) for pattern in _texts("yyyy-MM-dd HH:mm:ss", "yy/M/d H'h'm''s", "SSS", "y")
    ),
}
