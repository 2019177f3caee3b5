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
from headrace.meaning.json_functions import ONLY_OURS
from headrace.meaning.scalar_calendar import UNITS
from headrace.meaning.scalar_parse_url import PARTS
from headrace.model.expr import FALSE, TRUE, Call, Column, Expr, Literal
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    YEAR_MONTH,
    Array,
    Decimal,
    Row,
    Type,
    Value,
    integer_range,
)

D = decimal.Decimal
INTS, TEXTS, DOUBLES, NESTED = Array(INT), Array(STRING), Array(DOUBLE), Array(Array(INT))
SECONDS = Decimal(16, 6)
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
    SECONDS: tuple(map(D, ("0.000000", "15.123456", "59.999999", "60.000000", "60.500000", "-1.000000"))),
    Decimal(10, 6): tuple(map(D, ("0.000000", "1.500000", "-0.000001"))),
    INTS: ((), (1,), (3, None, 1, 3), (None,), (2, 2, -1)),
    TEXTS: ((), ("a",), ("b", None, "a", "b"), ("", "日")),
    DOUBLES: ((), (1.5, math.nan, 0.0, math.nan), (None, math.inf)),
    NESTED: ((), ((1, 2), ()), ((1,), None), ((3, None), (1,))),
}
SMALL = (0, 1, 2, 5, -1, -2, -5, 12)
NUMERIC = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, MONEY, FINE, WIDE, WHOLE)
COMPARED = (BOOLEAN, INT, BIGINT, DOUBLE, FLOAT, MONEY, STRING, DATE, TIMESTAMP)
DOCUMENTS = (
    *('{"a": {"b": [1, {"c": "x"}]}, "d": null}', '[1, 2.50, "x", null, true, [3]]', '{"a": 1e3, "b c": "q\\"r"}', "5"),
    *('"x\\u00e9"', "null", "[]", "{}", '{"日": "本", "a": [0.10, {"b": -0}]}', '{"a":{"b":1},"a":{"c":2}}'),
    *(
        "",
        "x",
        '{"a":1',
        '{"a":1} x',
        "{'a':'x\"y'}",
        '{"a":1,}',
        '{"a":01}',
        '{"a b":1, "a":"\\ud800"}',
        "[1,,2]",
        "[1] x",
    ),
    *('{"a":"\\u001f\\/"}', '{"a":12345678901234567890}', '{"a":NaN}', ' {"a" : "\n"}', '{"a":1.0E+2,"b":1e-7}'),
)
TIMES_AS_TEXT = (
    *(
        "2024-05-17",
        "17/05/2024",
        "5/7/24 1:02",
        "20240517",
        "2024-05-17 10:20:30.5",
        "2024-05-17 10:20:30.123",
        "may 3 2024",
    ),
    *(
        "May 3, 2024",
        "2024-05-17 12:05 AM",
        "2024-05-17 01:05 pm",
        "2024-05-17T03:04:05+01:30",
        "2024-05-17 10",
        "2024",
    ),
    *(
        "2024-05-17 10:07",
        "10:20",
        "2024-02-30",
        "17/5/2024",
        " 2024-05-17",
        "2024-05-17 x",
        "",
        "x",
        "12345-01-01",
    ),
    *("2024-13-01", "31/12/1969", "2024-05-17 24:00", "2024-05-17T03:04:05Z", "March 31, 1900", "1/1/99 23:59"),
)
ADDING = ("interval_sum", "interval_difference")
OF_INTERVALS = (
    *("interval_order", "interval_packed", "interval_text", "interval_times", "interval_divided"),
    *ADDING,
)
INTERVALS_AS_TEXT = (
    *("1 day", "24:00:00", "1 mon", "30 days", "-1 days +02:00:00", "1 year 2 mons 3 days 04:05:06.789"),
    *("-00:00:30", "1.5 years", "-1.5 days ago", "90", "2 weeks 3 h", "x", "", "5000000 years"),
)
ESCAPED = (
    *("", "a+b%26%C3%A9%2F%7E*", "%", "%2", "a%2", "%zz", "%+F", "%-0", "% 1", "%E6%97%A5", "%e6%97", "%E6x%97%A5"),
    *(
        "%ED%A0%80",
        "%ED%A0",
        "%ED%A0x",
        "%ED%A0%C3%A9",
        "%F0%9F%98%80",
        "%F0%9F%98",
        "%F5%80",
        "%C0%80",
        "%F4%90%80%80",
    ),
    *("%E0%80%80", "%FF%FE", "日+本", "%%41", "%25%32%35", "%80%41", "%F0%80%80%80", "%E6%97%41", "%ED%BF%BF%ED%A0%80"),
    *("%１２", "%Ｆｆ", "%٤1", "%-1", "%+٣", "%G1", "%Ｇ1", "%𝟏", "%𝟏𝟏", "%\n1", "%-٠"),
)
WRITTEN_NUMBERS = (
    *(
        "",
        " ",
        "1",
        "12",
        "123",
        "1234",
        "007",
        "1,234",
        "12,34",
        "1,2,3",
        ",123",
        "123,",
        ",",
        "-5",
        "+5",
        "- 5",
        " -5",
    ),
    *("$5", "-$5", "$-5", "$1,234.50", "$1,234.5", "1.5", "1.", ".5", ".", "5.123", "1 2 3", "1\u00a02", "1\u20092"),
    *("٣٤", "12.3,4", "-0", "-0.00", "99,999.99", "12,345", "1e2", "--5", "5-", "$", "-", "1.2.3", "9" * 28 + ".01"),
    *("0,123.4", "-1,234.5", "+1,234.5", "12,000.10", "0", "1, 234", "1.5 ", "𝟏", "x1", "1x", "000", "1.x", "1. 5"),
)
ADDRESSES = (
    *(
        "",
        "/",
        "//",
        "//a",
        "///x",
        "a",
        "a:",
        ":a",
        "1a://b",
        "a+b.c-d://e",
        "http:",
        "http://",
        "http:///p",
        "http:/p",
    ),
    *(
        "http://user:pw@Example.com:8080/a/b;c?q=1&a.b=2&x-y=&q=3#top",
        "http://h?q",
        "http://h#",
        "http://h?",
        "?q=1&q",
        "#f",
    ),
    *("mailto:a@b.c?q=1#x", "http://h/a b", "http://h/%zz", "http://h/%4", "http://h/%41?q=%20", "http://h/é日?q=é#日"),
    *(
        "http://my_host/p",
        "http://h-/p",
        "http://-h/p",
        "http://a.1/p",
        "http://a.1b",
        "http://1.a",
        "http://h.",
        "http://.h",
    ),
    *(
        "http://1.2.3.4:80/",
        "http://1.2.3.256",
        "http://1.2.3",
        "http://1.2.3.4.5",
        "http://01.2.3.4",
        "http://1.2.3.4a",
    ),
    *(
        "http://[::1]:80/p",
        "http://[::1",
        "http://[1:2]",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%e_0.x]",
        "http://[x]",
    ),
    *(
        "http://[::1.2.3.4]",
        "http://[1:2:3:4:5:6:7::]",
        "http://[::1]x",
        "http://h:/p",
        "http://h:x/",
        "http://h:99999999999",
    ),
    *(
        "http://@h",
        "http://a@b@c",
        "http://u%40@h",
        "http://%41",
        "http://é.com/",
        "http://h/[x]",
        "http://h?[x]=1",
        "a?b:c",
    ),
    *(
        "http://h/a\u2003b",
        "http://h/a\x85b",
        "http://h\n",
        "http://h/^",
        "http://h/?q=^",
        "a/b:c",
        "http://h/\U0001f600",
    ),
    *(
        "http://a..b",
        "http://h:1:2",
        "http://h,i",
        "http://u@",
        "http://[::1%]",
        "http://[::1]%41",
        "//h:0x1",
        "x://:80",
    ),
)
NARROW: dict[tuple[str, int], tuple[Value, ...]] = {
    **{(name, 1): SMALL for name in ("repeat", "lpad", "rpad", "date_add", "date_sub", "add_months")},
    ("split_part", 1): (",", "", "b", ",,", "日"),
    ("split_part", 2): SMALL,
    ("make_date", 0): (1, 1900, 2023, 2024, 9999),
    ("make_date", 1): (0, 1, 2, 12, 13, -1),
    ("make_date", 2): (0, 1, 28, 29, 31, 32),
    ("like", 1): ("%", "_", "", "a%", "%本%", "100\\%", "a_c", "__", "%\\_"),
    **{
        (name, 1): (0, 1, 2, 4, 5, -1, -4)
        for name in ("element", "element_at", "try_element_at", "get", "array_repeat")
    },
    ("array_insert", 1): (0, 1, 2, 3, 5, 9, -1, -2, -3, -4, -6, 2**31 - 1),
    **{(name, 0): ESCAPED for name in ("url_decode", "try_url_decode")},
    **{(name, 0): ADDRESSES for name in ("parse_url", "try_parse_url")},
    ("mask", 0): ("", "aB1é日ß \U0001f600", "Ⅷⅷªº\u01c5", "٣½²", "AbC-123", "\u0130ıΣςǅ"),
    ("slice", 1): (0, 1, 2, 5, -1, -2, -5),
    ("slice", 2): (0, 1, 2, 9, -1),
    **{("sequence", place): (0, 1, -7, 10, 127) for place in range(3)},
    **{(name, 0): DOCUMENTS for name in ("get_json_object", "json_array_length", "json_object_keys", "from_json")},
    **{
        (name, 0): DOCUMENTS
        for name in ONLY_OURS
        - {"array_text", "float_text", "number_to_char", "numeric_product", "numeric_quotient", "time_to_char"}
        - {"time_in_zone", "instant_in_zone", "enum_place", "time_text", "interval_mean", "interval_total"}
        - {*OF_INTERVALS, "interval_added", "interval_taken", "interval_age", "interval_between"}
    },
    **{(name, 0): INTERVALS_AS_TEXT for name in OF_INTERVALS},
    **{(name, 1): INTERVALS_AS_TEXT for name in (*ADDING, "interval_added", "interval_taken")},
    **{(name, 1): INTERVALS_AS_TEXT for name in ("interval_part", "interval_justified")},
    **{(name, 1): (0.0, 1.0, -2.5, 1 / 3) for name in ("interval_times", "interval_divided")},
    **{(name, 0): tuple(map(D, ("0", "100000000000000000000", "-5"))) for name in ("interval_mean", "interval_total")},
    ("interval_mean", 1): (1, 3),
    ("time_text", 0): ("8:30", "08:30:00.500", "24:00", "1:02 pm", "25:00", "", "x"),
    ("cut_in_zone", 2): ("Europe/Paris", "america/new_york", "utc", "+02:00", ""),
    ("enum_place", 0): ("a", "日", "x"),
    **{
        (name, 1): ("Europe/Paris", "america/new_york", "utc", "Etc/GMT-2", "+02:00", "EST", "")
        for name in ("time_in_zone", "instant_in_zone")
    },
    **{(name, 1): ("a", "0", "-1", "b c", "日") for name in ("json_field", "json_step", "json_has")},
    ("json_item", 1): (0, 1, -1, 9),
    **{
        (name, 1): ('["a"]', '["a", "0"]', '["-1"]', "[]", '["x", "y"]', "a")
        for name in ("jsonb_changed", "jsonb_inserted", "jsonb_without_path")
    },
    ("json_contains", 1): DOCUMENTS,
    ("timestampadd", 1): (0, 1, -1, 12, -300, 5),
    ("next_day", 1): ("MO", "tuesday", "Wed", "x", ""),
    **{("make_timestamp", place): (0, 1, 2, 12, 23, 29) for place in range(1, 5)},
    ("make_timestamp", 0): (1900, 2024, 2023),
    ("timestamp_seconds", 0): (0, 1, -7, 3_000_000_000),
    ("timestamp_millis", 0): (0, 1, -1, 1_700_000_000_000, -62_135_596_800_000),
    ("timestamp_micros", 0): (0, 1, -1, 1_700_000_000_000_000),
    ("date_from_unix_date", 0): (0, 1, -1, 20_000, -25_000),
    ("from_unixtime", 0): (0, 1, -1, 1_700_000_000),
    ("parse_timestamp", 0): TIMES_AS_TEXT,
    ("try_parse_timestamp", 0): TIMES_AS_TEXT,
    ("space", 0): SMALL,
    ("elt", 0): (1, 2),
    ("overlay", 2): SMALL,
    ("overlay", 3): SMALL,
    ("substring_index", 1): (",", "", "b", ",,", "日", "aa"),
    ("substring_index", 2): SMALL,
    ("find_in_set", 1): ("", "a,b", "a,b,,c", "abc", ","),
    ("char", 0): (0, 65, 128, 255, 256, 321, -1),
    ("soundex", 0): ("", "Miller", "ab1c", "é", "Aé", "bhb", "bab", "a b", "Ashcraft", "Tymczak", " a", "lloyd"),
    ("luhn_check", 0): ("", "a", "0", "18", " 18", "79927398713", "79927398714", "4111111111111111"),
    ("unbase64", 0): ("", "YQ==", "YQ", "Y", "Y*Q==", "YQ=", "=", "YQ==YQ==", "YR==", "YWJj", "YWI="),
    ("unhex", 0): ("", "F", "0g", "1FF", "ab"),
    **{(name, 0): WRITTEN_NUMBERS for name in ("to_number", "try_to_number")},
    ("conv", 0): ("", "100", "-10", "zz", "9", "1.5", "x", "-", "+5", "18446744073709551615", "9" * 20, "-ff", " 7 "),
    ("conv", 1): (10, 2, 16, 36, 1, 37),
    ("conv", 2): (10, 2, -10, 16, -16, -37, 0),
    ("bit_get", 1): (0, 1, 7, 8, 31, 32, 63, 64, -1),
    **{(name, 1): (0, 1, 5, 31, 33, 63, 65, -1) for name in ("shiftleft", "shiftright", "shiftrightunsigned")},
    ("factorial", 0): (0, 1, 5, 20, 21, -1),
    ("width_bucket", 3): (0, 1, 5, -3, 2**63 - 1),
    ("sha2", 1): (0, 224, 256, 384, 512, 1),
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


WITHOUT_FORMS = ("now", "cast", "try_cast", "lambda_variable")
"""Functions that depend on the time, on a type, or on what is around them."""


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
        if function not in WITHOUT_FORMS:
            for arguments in FORMS[function]:
                yield make_calls(function, arguments, rows)
    for source, targets in CAST_TARGETS.items():
        for target in targets:
            if source != target:
                column = Column("a0", source)
                for cast in ("cast", "try_cast"):
                    rows_of_cast = ((None,), *((value,) for value in CASTS[source]))
                    yield Calls(Call(cast, (column,), target), {"a0": source}, rows_of_cast)


Argument = Type | Literal | Call
"""A column of a type, or an expression of the call."""


def make_calls(function: str, arguments: tuple[Argument, ...], most: int) -> Calls:
    exprs: list[Expr] = []
    columns: dict[str, Type] = {}
    pools: list[tuple[Value, ...]] = []
    for position, argument in enumerate(arguments):
        if isinstance(argument, Literal | Call):
            exprs.append(argument)
            continue
        name = f"a{len(columns)}"
        columns[name] = argument
        exprs.append(Column(name, argument))
        narrow = NARROW.get((function, position))
        whole = (TINYINT, INT, BIGINT)
        fits = narrow is not None and (function not in ("sequence", "timestamp_seconds") or argument in whole)
        pools.append((None, *(narrow if narrow is not None and fits else POOLS[argument])))
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
ARRAYS = (INTS, TEXTS, DOUBLES, NESTED)
_EACH = Call("lambda_variable", (Literal(1, INT),), INT)
_DAYS, _BACK, _HOURS = (Literal(dt.timedelta(**span), DAY_TIME) for span in ({"days": 2}, {"days": -7}, {"hours": 700}))
_MONTHS = Literal(1, YEAR_MONTH)
_OTHER = Call("lambda_variable", (Literal(2, INT),), INT)
_SPLITTERS = _texts(",", "", "b", "[,b]+", "(?=b)", "a|,", ".")
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
    "only_row": tuple((type_, BIGINT) for type_ in COMPARED),
    "case": ((BOOLEAN, INT, INT), (BOOLEAN, STRING, BOOLEAN, STRING, STRING)),
    **{name: _same(COMPARED, 2) for name in ("coalesce", "greatest", "least")},
    "concat": ((STRING, STRING), (STRING, STRING, STRING)),
    "concat_ws": ((STRING, STRING, STRING),),
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim", "reverse", "initcap", "length"), ((STRING,),)),
    "substring": ((STRING, INT), (STRING, INT, INT)),
    "replace": ((STRING, STRING), (STRING, STRING, STRING)),
    "translate": ((STRING, STRING, STRING),),
    "split_part": ((STRING, STRING, INT),),
    "regexp_extract": (
        *((STRING, pattern, number) for pattern in _PATTERNS for number in _numbers(0, 1, 2)),
        *((STRING, pattern) for pattern in _PATTERNS[1:3]),
    ),
    "regexp_replace": tuple(
        (STRING, pattern, *_texts(replacement))
        for pattern in _PATTERNS
        if pattern.value
        for replacement in ("", "<$0>", "\\$x")
    ),
    "rlike": tuple((STRING, pattern) for pattern in _PATTERNS),
    "like": ((STRING, STRING), (STRING, STRING, Literal("#", STRING))),
    **dict.fromkeys(("startswith", "endswith", "contains"), ((STRING, STRING),)),
    "locate": ((STRING, STRING), *((STRING, STRING, number) for number in _numbers(-1, 0, 1, 2, 5))),
    **dict.fromkeys(("trim_both", "trim_leading", "trim_trailing", "find_in_set"), ((STRING, STRING),)),
    **dict.fromkeys(("ascii", "soundex", "luhn_check", "url_encode", "unbase64", "unhex"), ((STRING,),)),
    **dict.fromkeys(
        ("parse_url", "try_parse_url"),
        (
            *((STRING, part) for part in _texts(*PARTS)),
            *((STRING, Literal("QUERY", STRING), key) for key in _texts("q", "a.b", "x-y")),
            (STRING, *_texts("HOST", "q")),
        ),
    ),
    **dict.fromkeys(("url_decode", "try_url_decode"), ((STRING,),)),
    **dict.fromkeys(
        ("hash", "xxhash64"),
        (
            *_same((*COMPARED, TINYINT, SMALLINT, BINARY, FINE, WIDE, WHOLE, *ARRAYS), 1),
            (INT, STRING, DOUBLE),
            (INT, BIGINT),
            (INTS, MONEY, DATE, TIMESTAMP),
            (Literal(None, NULL), STRING),
            *((text, STRING) for text in _texts("日本x" * 4, "日本x" * 5, "日本x" * 14)),
        ),
    ),
    "mask": (
        (STRING, *_texts("X", "x", "n"), Literal(None, STRING)),
        (STRING, Literal(None, STRING), *_texts("é", "0", "*")),
        (STRING, *_texts("\U0001f600", "日", "n", " ")),
    ),
    "char": ((BIGINT,),),
    "space": ((INT,),),
    "levenshtein": ((STRING, STRING), *((STRING, STRING, number) for number in _numbers(-1, 0, 2, 5))),
    "overlay": ((STRING, STRING, INT), (STRING, STRING, INT, INT)),
    "substring_index": ((STRING, STRING, INT),),
    "elt": ((INT, STRING, STRING),),
    "format_number": tuple((type_, digits) for type_ in NUMERIC for digits in _numbers(0, 1, 2, 5, -1)),
    "format_string": (
        (*_texts("%s|%5s|%-5s|%3s|%%"), STRING, STRING, STRING, STRING),
        (*_texts("%d|%5d|%-5d|%05d|%+d|%,d|%,015d"), INT, BIGINT, INT, INT, TINYINT, BIGINT, INT),
        (*_texts("%x %X %08x %s"), INT, BIGINT, INT, INT),
        (*_texts("%f|%.2f|%10.1f|%-9.0f|%,.3f|%+010.2f"), DOUBLE, DOUBLE, DOUBLE, FLOAT, DOUBLE, DOUBLE),
        (*_texts("%s %s %s %10s"), DOUBLE, MONEY, BOOLEAN, FLOAT),
    ),
    **dict.fromkeys(
        ("regexp_count", "regexp_instr", "regexp_substr"),
        tuple((STRING, pattern) for pattern in _PATTERNS if pattern.value),
    ),
    **dict.fromkeys(("md5", "sha1", "crc32", "base64", "bit_length", "octet_length"), ((STRING,), (BINARY,))),
    "sha2": ((STRING, INT), (BINARY, INT)),
    "hex": ((STRING,), (BINARY,), (BIGINT,)),
    "encode": tuple((STRING, charset) for charset in _texts("UTF-8", "US-ASCII", "iso-8859-1", "UTF-16BE", "UTF-16LE")),
    "decode": tuple((BINARY, charset) for charset in _texts("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16BE")),
    "array": (*_same((INT, STRING, DOUBLE, INTS), 2), (INT,)),
    **dict.fromkeys(
        ("size", "array_distinct", "array_sort", "array_compact", "array_reverse", "array_min", "array_max"),
        _same(ARRAYS, 1),
    ),
    **dict.fromkeys(("element", "element_at", "try_element_at", "get"), tuple((type_, INT) for type_ in ARRAYS)),
    **dict.fromkeys(
        ("array_contains", "array_position", "array_remove", "array_append", "array_prepend"),
        ((INTS, INT), (TEXTS, STRING), (DOUBLES, DOUBLE), (NESTED, INTS)),
    ),
    "sort_array": (*((type_, order) for type_ in ARRAYS for order in (TRUE, FALSE)), *_same(ARRAYS, 1)),
    **dict.fromkeys(
        ("array_union", "array_intersect", "array_except", "arrays_overlap", "array_concat"), _same(ARRAYS, 2)
    ),
    "array_join": ((TEXTS, STRING), (TEXTS, STRING, STRING)),
    "array_repeat": ((STRING, INT), (INTS, INT)),
    "array_insert": ((INTS, INT, INT), (TEXTS, INT, STRING), (NESTED, INT, INTS)),
    "slice": ((INTS, INT, INT),),
    "flatten": ((NESTED,),),
    "sequence": (
        *((type_, type_) for type_ in (TINYINT, INT, BIGINT, DATE)),
        (INT, INT, INT),
        *((DATE, DATE, step) for step in (_DAYS, _MONTHS, _BACK)),
        *((TIMESTAMP, TIMESTAMP, step) for step in (_HOURS, _MONTHS)),
    ),
    "split": (
        *((STRING, pattern) for pattern in _SPLITTERS),
        *((STRING, pattern, number) for pattern in _SPLITTERS for number in _numbers(-1, 0, 1, 2)),
    ),
    "regexp_extract_all": tuple(
        (STRING, pattern, number) for pattern in _PATTERNS if pattern.value for number in _numbers(0, 1)
    ),
    "timestampdiff": tuple((unit, TIMESTAMP, TIMESTAMP) for unit in _texts(*UNITS)),
    "timestampadd": tuple((unit, INT, TIMESTAMP) for unit in _texts(*UNITS)),
    "months_between": ((TIMESTAMP, TIMESTAMP), *((TIMESTAMP, TIMESTAMP, rounded) for rounded in (TRUE, FALSE))),
    "next_day": ((DATE, STRING),),
    "trunc": tuple((DATE, unit) for unit in _texts("year", "YY", "quarter", "MM", "week", "day", "x")),
    "make_timestamp": (
        (INT, INT, INT, INT, INT, SECONDS),
        (INT, INT, INT, INT, INT, SECONDS, *_texts("Europe/Paris")),
    ),
    "timestamp_seconds": ((BIGINT,), (DOUBLE,), (Decimal(10, 6),)),
    **dict.fromkeys(("timestamp_millis", "timestamp_micros"), ((BIGINT,),)),
    **dict.fromkeys(("unix_seconds", "unix_millis", "unix_micros", "second_part"), ((TIMESTAMP,),)),
    **dict.fromkeys(("unix_date", "dayname", "monthname", "yearofweek"), ((DATE,),)),
    "date_from_unix_date": ((INT,),),
    "from_unixtime": ((BIGINT,), *((BIGINT, pattern) for pattern in _texts("yyyy-MM-dd", "HH:mm"))),
    **dict.fromkeys(
        ("parse_timestamp", "try_parse_timestamp"),
        tuple(
            (STRING, pattern)
            for pattern in _texts(
                *("yyyy-MM-dd", "dd/MM/yyyy", "d/M/yy H:mm", "yyyyMMdd", "yyyy-MM-dd HH:mm:ss.SSS", "MMM d yyyy"),
                *(
                    "MMMM d, yyyy",
                    "yyyy-MM-dd hh:mm a",
                    "yyyy-MM-dd'T'HH:mm:ssXXX",
                    "yyyy-MM-dd HH[:mm]",
                    "yyyy",
                    "HH:mm",
                ),
            )
        ),
    ),
    "get_json_object": tuple(
        (STRING, path) for path in _texts("$", "$.a", "$.a.b", "$.a[0]", "$[1]", "$['a b']", "$.a.b[1].c", "$.日")
    ),
    **dict.fromkeys(("json_array_length", "json_object_keys"), ((STRING,),)),
    "from_json": ((STRING, *_texts("array<string>")),),
    **dict.fromkeys(("json_field", "json_step"), ((STRING, STRING),)),
    "json_item": ((STRING, INT),),
    **dict.fromkeys(("json_text", "json_kind", "json_items", "json_length", "jsonb"), ((STRING,),)),
    **dict.fromkeys(("json_names", "json_values"), ((STRING,),)),
    **dict.fromkeys(("json_contains", "json_has"), ((STRING, STRING),)),
    "age_part": tuple((part, TIMESTAMP, TIMESTAMP) for part in _texts("year", "month", "day", "second", "epoch")),
    **dict.fromkeys(("interval_age", "interval_between"), ((TIMESTAMP, TIMESTAMP),)),
    **dict.fromkeys(("interval_added", "interval_taken"), ((TIMESTAMP, STRING),)),
    **dict.fromkeys(("interval_order", "interval_packed", "interval_text", "time_text"), ((STRING,),)),
    **dict.fromkeys(("interval_sum", "interval_difference"), ((STRING, STRING),)),
    **dict.fromkeys(("interval_times", "interval_divided"), ((STRING, DOUBLE),)),
    "interval_mean": ((WHOLE, BIGINT),),
    "interval_total": ((WHOLE,),),
    "interval_part": tuple((part, STRING) for part in _texts("year", "month", "hour", "minute", "second", "epoch")),
    "interval_justified": tuple((how, STRING) for how in _texts("hours", "days", "interval")),
    "cut_in_zone": tuple((unit, TIMESTAMP, STRING) for unit in _texts("hour", "day", "month")),
    "enum_place": ((STRING, TEXTS),),
    **dict.fromkeys(("capitalise_words", "json_quoted", "jsonb_key", "uuid_text"), ((STRING,),)),
    **dict.fromkeys(("jsonb_pretty_text", "jsonb_without_nulls"), ((STRING,),)),
    **dict.fromkeys(("jsonb_changed", "jsonb_inserted"), ((STRING, STRING, STRING, BOOLEAN),)),
    "jsonb_without_path": ((STRING, STRING),),
    "float_text": ((DOUBLE,), (FLOAT,)),
    "array_text": ((Array(STRING),), (Array(INT),)),
    **dict.fromkeys(("jsonb_joined", "jsonb_without"), ((STRING, STRING),)),
    "jsonb_without_item": ((STRING, INT),),
    "number_to_char": tuple((type_, pattern) for type_ in (INT, MONEY) for pattern in _texts("FM990.0", "S9,999")),
    **dict.fromkeys(("numeric_product", "numeric_quotient"), ((MONEY, MONEY),)),
    **dict.fromkeys(("instant_in_zone", "time_in_zone"), ((TIMESTAMP, STRING),)),
    "time_to_char": tuple((TIMESTAMP, pattern) for pattern in _texts("IYYY-IW Day", "FMDDth RM J CC")),
    "aggregate": ((INTS, Literal(0, INT), _EACH, _OTHER, Call("+", (_EACH, _OTHER), INT)),),
    **dict.fromkeys(("transform",), ((INTS, _EACH, Call("+", (_EACH, Literal(1, INT)), INT)),)),
    **dict.fromkeys(("filter", "exists", "forall"), ((INTS, _EACH, Call(">", (_EACH, Literal(1, INT)), BOOLEAN)),)),
    **dict.fromkeys(("&", "|", "^"), _same((TINYINT, SMALLINT, INT, BIGINT), 2)),
    "~": _same((TINYINT, SMALLINT, INT, BIGINT), 1),
    **dict.fromkeys(("shiftleft", "shiftright", "shiftrightunsigned"), ((INT, INT), (BIGINT, INT))),
    "bit_get": tuple((type_, INT) for type_ in (TINYINT, SMALLINT, INT, BIGINT)),
    **dict.fromkeys(("bit_count", "bin"), ((BIGINT,),)),
    **dict.fromkeys(
        ("to_number", "try_to_number"),
        tuple(
            (STRING, pattern)
            for pattern in _texts(
                "999", "000", "S$9,999.99", "MI0G000D0", "$999.", "99,000.09", "S099", "9" * 30 + ".99"
            )
        ),
    ),
    "conv": ((STRING, INT, INT),),
    "factorial": ((INT,),),
    **dict.fromkeys(
        ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cot", "csc", "sec", "cbrt", "expm1", "log1p", "isnan"),
        ((DOUBLE,),),
    ),
    **dict.fromkeys(("hypot", "log", "nanvl"), ((DOUBLE, DOUBLE),)),
    "width_bucket": ((DOUBLE, DOUBLE, DOUBLE, BIGINT),),
    **dict.fromkeys(("try_add", "try_subtract", "try_multiply", "try_mod"), _ARITHMETIC),
    "try_divide": ((DOUBLE, DOUBLE), *_DECIMAL_PAIRS),
    **dict.fromkeys(("lpad", "rpad"), ((STRING, INT), (STRING, INT, STRING))),
    **dict.fromkeys(("left", "right", "repeat"), ((STRING, INT),)),
    **dict.fromkeys(
        ("sign", "sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan"), ((DOUBLE,),)
    ),
    **dict.fromkeys(("radians", "degrees", "rint", "decimal15"), ((DOUBLE,),)),
    **dict.fromkeys(("power", "atan2"), ((DOUBLE, DOUBLE),)),
    **dict.fromkeys(
        ("round", "bround"),
        (
            *_same(NUMERIC, 1),
            *((type_, digits) for type_ in NUMERIC for digits in _numbers(0, 1, -1, 5, -3)),
        ),
    ),
    "distance": ((DOUBLE, DOUBLE, DOUBLE, DOUBLE),),
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofweek", "dayofyear", "last_day"), ((DATE,),)),
    **dict.fromkeys(("weekofyear", "weekday"), ((DATE,),)),
    **dict.fromkeys(
        ("from_utc_timestamp", "to_utc_timestamp"),
        tuple((TIMESTAMP, zone) for zone in _texts("Europe/Paris", "America/St_Johns", "+05:30", "UTC", "Asia/Tokyo")),
    ),
    **dict.fromkeys(("hour", "minute", "second", "unix_timestamp"), ((TIMESTAMP,),)),
    "date_trunc": tuple(
        (unit, TIMESTAMP)
        for unit in _texts("year", "QUARTER", "mon", "week", "dd", "hour", "minute", "second", "millisecond", "x")
    ),
    "window_start": tuple(
        (TIMESTAMP, Literal(slide, BIGINT), Literal(offset, BIGINT))
        for slide, offset in ((60_000, 0), (3_600_000, 900_000), (31 * 86_400_000, 0), (7, 3))
    ),
    **dict.fromkeys(("date_add", "date_sub", "add_months"), ((DATE, INT),)),
    "datediff": ((DATE, DATE),),
    "make_date": ((INT, INT, INT),),
    "date_format": tuple(
        (TIMESTAMP, pattern)
        for pattern in _texts(
            *("yyyy-MM-dd HH:mm:ss", "yy/M/d H'h'm''s", "SSS", "y", "yyy yyyyyy", "MMM MMMM LLL LLLL M", "D DD DDD"),
            *("E EE EEE EEEE", "q qq qqq qqqq Q QQ QQQ QQQQ", "a h hh k kk K KK", "S SS SSSSSS SSSSSSSSS", "G GGG"),
            *("VV z zzz O", "X XX XXX XXXX XXXXX x xx xxx xxxx xxxxx", "Z ZZZ ZZZZZ", "'a''b' ''", "é, 日 (%)!"),
        )
    ),
}
