"""What functions are worth, written by hand; `tests/live/test_functions_on_spark.py` asks Spark about many more."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.meaning.array_functions import ARRAY_FUNCTIONS
from headrace.meaning.fallible import can_fail
from headrace.meaning.functions import FUNCTIONS
from headrace.meaning.scalar import Surroundings, compile_expr, evaluate
from headrace.meaning.scalar_postgres_text import write_array
from headrace.model.errors import EvaluationError
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
    STRING,
    TIMESTAMP,
    TINYINT,
    YEAR_MONTH,
    Array,
    Decimal,
    Type,
    Value,
)
from tests.meaning.function_cases import FORMS, WITHOUT_FORMS, all_calls

D = decimal.Decimal
NAN, INF = math.nan, math.inf
MONEY = Decimal(10, 2)
LARGEST, SMALLEST = 2**31 - 1, -(2**31)


def literal(value: Value) -> Literal:
    if isinstance(value, D):
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        return Literal(value, Decimal(max(len(digits), -exponent), -exponent))
    types: dict[type, Type] = {
        tuple: Array(STRING),
        bool: BOOLEAN,
        int: INT,
        float: DOUBLE,
        str: STRING,
        bytes: BINARY,
        dt.date: DATE,
        dt.datetime: TIMESTAMP,
        dt.timedelta: DAY_TIME,
        type(None): NULL,
    }
    return Literal(value, types[type(value)])


def call(function: str, *values: Value) -> Call:
    arguments = tuple(map(literal, values))
    return Call(function, arguments, FUNCTIONS[function].result_type(arguments))


def worth(expr: Expr) -> Value:
    return evaluate(expr, {})


def same(left: Value, right: Value) -> bool:
    return left == right or (left != left and right != right)


DAY, LEAP = dt.date(2024, 1, 31), dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 30, 15, 123_456)
BEFORE_1970 = dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)

VALUES: list[tuple[str, tuple[Value, ...], Value]] = [
    ("and", (True, None), None),
    ("and", (False, None), False),
    ("and", (None, False), False),
    ("or", (None, True), True),
    ("or", (False, None), None),
    ("not", (None,), None),
    ("not", (True,), False),
    ("=", (NAN, NAN), True),
    ("=", (-0.0, 0.0), True),
    ("=", (1, None), None),
    ("<>", (NAN, 1.0), True),
    ("<", (INF, NAN), True),
    ("<", (NAN, INF), False),
    ("<", ("Z", "a"), True),
    ("<", ("ｚ", "\U0001f600"), True),
    ("<=", (D("1.50"), D("1.50")), True),
    (">", (True, False), True),
    (">=", (DAY, LEAP), False),
    ("<=>", (None, None), True),
    ("<=>", (None, 1), False),
    ("<=>", (NAN, NAN), True),
    ("+", (1, 2), 3),
    ("-", (1, 2), -1),
    ("*", (3, 4), 12),
    ("*", (D("1.25"), D("0.5")), D("0.625")),
    ("/", (1.0, 4.0), 0.25),
    ("/", (D("1.00"), D("3")), D("0.333333")),
    ("/", (D("2.00"), D("-3")), D("-0.666667")),
    ("div", (-7, 2), -3),
    ("div", (D("7.5"), D("2")), 3),
    ("%", (-5, 3), -2),
    ("%", (5, -3), 2),
    ("%", (-5.5, 3.0), -2.5),
    ("%", (INF, 3.0), NAN),
    ("%", (D("-7.5"), D("2")), D("-1.5")),
    ("pmod", (-5, 3), 1),
    ("pmod", (-5, -3), -2),
    ("negate", (5,), -5),
    ("in", (1, 2, None), None),
    ("in", (1, 1, None), True),
    ("in", (None, 1), None),
    ("in", (NAN, 1.0, NAN), True),
    ("in", (1, 2, 3), False),
    ("is_null", (None,), True),
    ("is_null", (0,), False),
    ("case", (None, 1, 2), 2),
    ("case", (False, 1, True, 2, 3), 2),
    ("coalesce", (None, 2, 3), 2),
    ("coalesce", (None, None), None),
    ("nullif", (NAN, NAN), None),
    ("nullif", (1, None), 1),
    ("nullif", (2, D("2.0")), None),
    ("greatest", (None, 1, 3), 3),
    ("greatest", (NAN, 1.0), NAN),
    ("least", (NAN, 1.0), 1.0),
    ("least", (None, None), None),
    ("concat", ("a", "", "b"), "ab"),
    ("concat", ("a", None), None),
    ("concat_ws", (",", "a", None, "b"), "a,b"),
    ("concat_ws", (None, "a"), None),
    ("lower", ("ΑΣ",), "ας"),
    ("upper", ("straße",), "STRASSE"),
    ("length", ("日本\U0001f600 ",), 4),
    ("trim", ("\t a ",), "\t a"),
    ("ltrim", ("  a ",), "a "),
    ("rtrim", (" a  ",), " a"),
    ("substring", ("abc", -5, 3), "a"),
    ("substring", ("abc", 0, 2), "ab"),
    ("substring", ("abc", 2, -1), ""),
    ("substring", ("abc", -2), "bc"),
    ("substring", ("日本語", 2, 1), "本"),
    ("substring", ("abc", SMALLEST, LARGEST), "ab"),
    ("replace", ("aaa", "aa", "b"), "ba"),
    ("replace", ("abc", "", "x"), "abc"),
    ("replace", ("abc", "b"), "ac"),
    ("split_part", ("a,b,c", ",", -1), "c"),
    ("split_part", ("a,b,c", ",", 5), ""),
    ("split_part", ("a,b", "", 1), "a,b"),
    ("regexp_extract", ("100-200", r"(\d+)-(\d+)", 2), "200"),
    ("regexp_extract", ("foo", "(o)(x)?", 2), ""),
    ("regexp_extract", ("foo", r"(\d)"), ""),
    ("regexp_extract", ("foo", r"\d", 1), ""),
    ("regexp_extract", ("ab", "(?<first>a)", 1), "a"),
    ("regexp_replace", ("100-200", r"(\d+)-(\d+)", "$2 to $1"), "200 to 100"),
    ("regexp_replace", ("foo", "o", "\\$"), "f$$"),
    ("only_row", (5, 1), 5),
    ("only_row", (None, None), None),
    ("rlike", ("é", r"\w"), False),
    ("rlike", ("foo", "o+$"), True),
    ("like", ("a\nb", "a_b"), True),
    ("like", ("a%", "a\\%"), True),
    ("like", ("ab", "a\\%"), False),
    ("like", ("a_b", "a#_b", "#"), True),
    ("like", ("", "%"), True),
    ("startswith", ("abc", ""), True),
    ("endswith", ("abc", "bc"), True),
    ("contains", ("abc", "d"), False),
    ("lpad", ("abc", 5, "xy"), "xyabc"),
    ("lpad", ("abc", 5, ""), "abc"),
    ("lpad", ("abc", 2), "ab"),
    ("lpad", ("abc", -1), ""),
    ("rpad", ("日", 3, "ab"), "日ab"),
    ("left", ("abc", -1), ""),
    ("right", ("abc", 2), "bc"),
    ("right", ("abc", 0), ""),
    ("right", ("abc", 9), "abc"),
    ("locate", ("b", "abcb"), 2),
    ("locate", ("", "abc"), 1),
    ("reverse", ("\U0001f600a",), "a\U0001f600"),
    ("repeat", ("ab", -1), ""),
    ("repeat", ("ab", 2), "abab"),
    ("md5", ("a",), "0cc175b9c0f1b6a831c399e269772661"),
    ("initcap", ("hello WORLD-foo ǆ",), "Hello World-foo ǅ"),
    ("translate", ("AaBbCc", "abc", "12"), "A1B2C"),
    ("abs", (-5,), 5),
    ("abs", (D("-1.5"),), D("1.5")),
    ("ceil", (-0.5,), 0),
    ("ceil", (NAN,), 0),
    ("ceil", (D("12345.678"),), D("12346")),
    ("floor", (-0.5,), -1),
    ("floor", (D("-1.20"),), D("-2")),
    ("round", (2.5,), 3.0),
    ("round", (-2.5,), -3.0),
    ("round", (1.005, 2), 1.01),
    ("round", (D("12.345"), 2), D("12.35")),
    ("round", (D("12.345"), -1), D("10")),
    ("round", (155, -1), 160),
    ("round", (NAN, 2), NAN),
    ("rint", (2.5,), 2.0),
    ("rint", (-1.5,), -2.0),
    ("decimal15", (3.3049999999999997,), D("3.305000000000000000")),
    ("sign", (-5.5,), -1.0),
    ("sqrt", (-1.0,), NAN),
    ("sqrt", (4.0,), 2.0),
    ("power", (0.0, -1.0), INF),
    ("power", (-0.0, -1.0), -INF),
    ("power", (-8.0, 0.5), NAN),
    ("power", (-10.0, 309.0), -INF),
    ("exp", (1000.0,), INF),
    ("ln", (0.0,), None),
    ("ln", (1.0,), 0.0),
    ("log10", (-1.0,), None),
    ("log10", (1000.0,), 3.0),
    ("log2", (8.0,), 3.0),
    ("log2", (NAN,), NAN),
    ("sin", (INF,), NAN),
    ("sin", (0.0,), 0.0),
    ("cos", (0.0,), 1.0),
    ("tan", (0.0,), 0.0),
    ("asin", (2.0,), NAN),
    ("acos", (1.0,), 0.0),
    ("atan", (0.0,), 0.0),
    ("atan2", (0.0, -1.0), math.pi),
    ("radians", (180.0,), math.pi),
    ("degrees", (math.pi,), 180.0),
    ("distance", (10.0, 20.0, 10.0, 20.0), 0.0),
    ("year", (DAY,), 2024),
    ("quarter", (dt.date(2024, 12, 31),), 4),
    ("month", (DAY,), 1),
    ("day", (DAY,), 31),
    ("dayofweek", (LEAP,), 5),
    ("dayofyear", (dt.date(2024, 12, 31),), 366),
    ("weekofyear", (dt.date(2024, 12, 31),), 1),
    ("weekday", (LEAP,), 3),
    ("from_utc_timestamp", (NOON, "America/St_Johns"), NOON - dt.timedelta(hours=3, minutes=30)),
    ("to_utc_timestamp", (NOON, "+05:30"), NOON - dt.timedelta(hours=5, minutes=30)),
    ("hour", (BEFORE_1970,), 23),
    ("minute", (NOON,), 30),
    ("second", (BEFORE_1970,), 59),
    ("date_trunc", ("week", NOON), dt.datetime(2024, 2, 26)),
    ("date_trunc", ("QUARTER", NOON), dt.datetime(2024, 1, 1)),
    ("date_trunc", ("millisecond", NOON), dt.datetime(2024, 2, 29, 12, 30, 15, 123_000)),
    ("date_trunc", ("hour", BEFORE_1970), dt.datetime(1969, 12, 31, 23)),
    ("date_trunc", ("fortnight", NOON), None),
    ("date_add", (dt.date(2024, 2, 28), 2), dt.date(2024, 3, 1)),
    ("date_sub", (dt.date(2024, 3, 1), 1), LEAP),
    ("add_months", (DAY, 1), LEAP),
    ("add_months", (LEAP, 12), dt.date(2025, 2, 28)),
    ("datediff", (dt.date(2024, 3, 1), dt.date(2024, 2, 28)), 2),
    ("last_day", (dt.date(2024, 2, 10),), LEAP),
    ("make_date", (2024, 2, 29), LEAP),
    ("date_format", (NOON, "yyyy-MM-dd'T'HH:mm:ss"), "2024-02-29T12:30:15"),
    ("date_format", (NOON, "yy M d H''S"), "24 2 29 12'1"),
    ("ascii", ("日本",), 26085),
    ("char", (321,), "A"),
    ("space", (2,), "  "),
    ("soundex", ("Tymczak",), "T522"),
    ("levenshtein", ("kitten", "sitting"), 3),
    ("levenshtein", ("kitten", "sitting", 2), -1),
    ("overlay", ("Spark SQL", "CORE", 7, 0), "Spark CORESQL"),
    ("overlay", ("Spark SQL", "_", 6), "Spark_SQL"),
    ("substring_index", ("a.b.c", ".", 2), "a.b"),
    ("substring_index", ("aXXXb", "XX", -2), "Xb"),
    ("find_in_set", ("b", "a,b,c"), 2),
    ("elt", (2, None, "b"), "b"),
    ("luhn_check", ("79927398713",), True),
    ("url_encode", ("a b&é/~*",), "a+b%26%C3%A9%2F%7E*"),
    ("url_decode", ("a+b%26%c3%a9%2F%ED%A0%80!",), "a b&é/\ufffd!"),
    ("parse_url", ("http://u@h.org:80/p?a=1&q=2#f", "HOST"), "h.org"),
    ("parse_url", ("http://u@h.org:80/p?a=1&q=2#f", "QUERY", "q"), "2"),
    ("parse_url", ("http://my_host:80/p?a=1", "FILE"), "/p?a=1"),
    ("try_parse_url", ("http://h/a b", "PATH"), None),
    ("try_url_decode", ("100%",), None),
    ("mask", ("AbC-日12", "X", "x", "0", None), "XxX-日00"),
    ("hash", ("Spark", 1, None, 2.5), 1762445889),
    ("xxhash64", ("Spark" * 9, 1, None, D("1.5")), 5016400705704857783),
    ("to_number", ("-$1,234.5", "S$9,999.99"), D("-1234.50")),
    ("try_to_number", ("12", "000"), None),
    ("format_number", (12345.675, 2), "12,345.67"),
    ("format_number", (D("0.125"), 2), "0.12"),
    ("format_string", ("%s is %,d, %05.1f%%", "a", 1234567, 2.25), "a is 1,234,567, 002.3%"),
    ("format_string", ("%s", None), "null"),
    ("trim_both", ("xyaxy", "xy"), "a"),
    ("trim_leading", ("xxax", "x"), "ax"),
    ("trim_trailing", ("xaxx", "x"), "xa"),
    ("regexp_count", ("abcabc", "a"), 2),
    ("regexp_instr", ("日b", "b"), 2),
    ("regexp_substr", ("abc", "b."), "bc"),
    ("regexp_substr", ("abc", "x"), None),
    ("locate", ("b", "abcb", 3), 4),
    ("sha1", ("a",), "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
    ("sha2", ("a", 1), None),
    ("sha2", ("a", 224), "abd37534c7d9a2efb9465de931cd7055ffdb8879563ae98078d6d6d5"),
    ("crc32", ("a",), 3904355907),
    ("base64", (b"a",), "YQ=="),
    ("unbase64", ("Y*Q",), b"a"),
    ("hex", (-1,), "FFFFFFFFFFFFFFFF"),
    ("hex", ("日",), "E697A5"),
    ("unhex", ("1FF",), b"\x01\xff"),
    ("unhex", ("0g",), None),
    ("encode", ("é", "ISO-8859-1"), b"\xe9"),
    ("decode", (b"\xe9", "ISO-8859-1"), "é"),
    ("bit_length", ("日",), 24),
    ("octet_length", (b"ab",), 2),
    ("&", (5, 3), 1),
    ("|", (5, 3), 7),
    ("^", (5, 3), 6),
    ("~", (5,), -6),
    ("shiftleft", (1, 33), 2),
    ("shiftright", (-8, 1), -4),
    ("shiftrightunsigned", (-8, 1), 2147483644),
    ("bit_count", (-1,), 64),
    ("bit_get", (11, 2), 0),
    ("bin", (13,), "1101"),
    ("conv", ("-10", 16, -10), "-16"),
    ("conv", ("-1", 10, 16), "FFFFFFFFFFFFFFFF"),
    ("factorial", (20,), 2432902008176640000),
    ("factorial", (21,), None),
    ("sinh", (-1000.0,), -INF),
    ("cosh", (0.0,), 1.0),
    ("tanh", (0.0,), 0.0),
    ("asinh", (0.0,), 0.0),
    ("acosh", (0.5,), NAN),
    ("atanh", (1.0,), INF),
    ("cot", (0.0,), INF),
    ("csc", (0.0,), INF),
    ("sec", (0.0,), 1.0),
    ("cbrt", (-8.0,), -2.0),
    ("expm1", (1000.0,), INF),
    ("log1p", (-1.0,), None),
    ("hypot", (3.0, 4.0), 5.0),
    ("log", (2.0, 8.0), 3.0),
    ("log", (1.0, 8.0), INF),
    ("bround", (2.5,), 2.0),
    ("bround", (35, -1), 40),
    ("width_bucket", (5.3, 0.2, 10.6, 5), 3),
    ("width_bucket", (-0.9, 5.2, 0.5, 2), 3),
    ("isnan", (None,), False),
    ("isnan", (NAN,), True),
    ("nanvl", (NAN, 5.0), 5.0),
    ("try_add", (LARGEST, 1), None),
    ("try_subtract", (1, 2), -1),
    ("try_multiply", (LARGEST, 2), None),
    ("try_divide", (1.0, 0.0), None),
    ("try_mod", (5, 0), None),
    ("timestampdiff", ("MONTH", dt.datetime(2024, 1, 31), dt.datetime(2024, 2, 29)), 0),
    ("timestampdiff", ("HOUR", dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 1, 0, 30)), -23),
    ("timestampadd", ("QUARTER", 1, dt.datetime(2024, 1, 31, 10)), dt.datetime(2024, 4, 30, 10)),
    ("months_between", (dt.datetime(1997, 2, 28, 10, 30), dt.datetime(1996, 10, 30)), 3.94959677),
    ("next_day", (dt.date(2015, 1, 14), "TU"), dt.date(2015, 1, 20)),
    ("trunc", (dt.date(2024, 5, 17), "week"), dt.date(2024, 5, 13)),
    ("make_timestamp", (2024, 2, 29, 12, 30, D("60.000000")), dt.datetime(2024, 2, 29, 12, 31)),
    ("timestamp_seconds", (D("1.5"),), dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)),
    ("timestamp_millis", (-1,), dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
    ("timestamp_micros", (5,), dt.datetime(1970, 1, 1, 0, 0, 0, 5)),
    ("unix_seconds", (BEFORE_1970,), -1),
    ("unix_millis", (BEFORE_1970,), -500),
    ("unix_micros", (BEFORE_1970,), -500_000),
    ("unix_date", (dt.date(1970, 1, 5),), 4),
    ("date_from_unix_date", (-1,), dt.date(1969, 12, 31)),
    ("from_unixtime", (0, "yyyy-MM-dd"), "1970-01-01"),
    ("dayname", (LEAP,), "Thu"),
    ("monthname", (LEAP,), "Feb"),
    ("yearofweek", (dt.date(2024, 12, 30),), 2025),
    ("second_part", (NOON,), D("15.123456")),
    ("parse_timestamp", ("17 may 2024 3:04 PM", "d MMM yyyy h:mm a"), dt.datetime(2024, 5, 17, 15, 4)),
    ("try_parse_timestamp", ("31/02/2024", "dd/MM/yyyy"), None),
    ("get_json_object", ('{"a": {"b": [1, {"c": "x"}]}}', "$.a.b[1].c"), "x"),
    ("get_json_object", ('{"a": {"b": [1, 2.50]}}', "$.a"), '{"b":[1,2.5]}'),
    ("json_array_length", ("[1, [2, 3]]",), 2),
    ("json_array_length", ("{}",), None),
    ("json_object_keys", ('{"b": 1, "a": 2}',), ("b", "a")),
    ("from_json", ('["a", 1.5, null, {"b": 2}]', "array<string>"), ("a", "1.5", None, '{"b":2}')),
    ("json_field", ('{"a": {"b": 1.50}, "c": [1, "]"]}', "c"), '[1, "]"]'),
    ("json_field", ('{"a" : 1.50 }', "a"), "1.50"),
    ("json_item", ('[1, {"a": [2]}, "x"]', -2), '{"a": [2]}'),
    ("json_step", ('[1, "x"]', "1"), '"x"'),
    ("json_text", ('"x\\u00e9"',), "xé"),
    ("json_text", ("null",), None),
    ("json_text", ("1.50",), "1.50"),
    ("json_kind", (" [1]",), "array"),
    ("numeric_product", (D("0.0001"), D("0.00000000001")), D("0.000000000000001000")),
    ("cut_in_zone", ("day", dt.datetime(2024, 7, 1, 1), "America/New_York"), dt.datetime(2024, 6, 30, 4)),
    ("enum_place", ("b", ("a", "b")), 2),
    ("interval_added", (dt.datetime(2024, 1, 31), "1 mon 1 day"), dt.datetime(2024, 3, 1)),
    ("interval_taken", (dt.datetime(2024, 3, 31), "1 mon 24:00:00"), dt.datetime(2024, 2, 28)),
    ("interval_age", (dt.datetime(2024, 3, 1), dt.datetime(2023, 1, 31, 12)), "1 year 1 mon 12:00:00"),
    ("interval_between", (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2, 12)), "-1 days -12:00:00"),
    ("interval_difference", ("1 mon", "-2 days +01:00:00"), "1 mon 2 days -01:00:00"),
    ("interval_divided", ("1 mon", 4.0), "7 days 12:00:00"),
    ("interval_justified", ("interval", "1 mon -1 hour"), "29 days 23:00:00"),
    ("interval_mean", (D(10**29 + 10**20), 2), "15 days 12:00:00"),
    ("interval_order", ("1 mon -24:00:00",), D(29 * 86_400_000_000)),
    ("interval_packed", ("1 mon 1 day 00:00:00.000001",), D(10**29 + 10**20 + 1)),
    ("interval_part", ("hour", "1 day 26:30:00"), D("26.000000")),
    ("interval_sum", ("1 day", "24:00:00"), "1 day 24:00:00"),
    ("interval_text", ("2 weeks 90 min ago",), "-14 days -01:30:00"),
    ("interval_times", ("1 day", 1.5), "1 day 12:00:00"),
    ("interval_total", (D(-(10**29) + 1),), "-1 mons +00:00:00.000001"),
    ("time_text", ("1:02 pm",), "13:02:00"),
    ("age_part", ("month", dt.datetime(2024, 3, 1), dt.datetime(2023, 1, 31)), decimal.Decimal(1)),
    ("capitalise_words", ("hello wORLD-foo",), "Hello World-Foo"),
    ("json_quoted", ('a"b',), '"a\\"b"'),
    ("float_text", (1e15,), "1e+15"),
    ("float_text", (-0.0001,), "-0.0001"),
    ("float_text", (123456789012345.0,), "123456789012345"),
    ("float_text", (math.nan,), "NaN"),
    ("jsonb_changed", ('{"a": [1, 2]}', '["a", "-1"]', '{"b": 1.50}', True), '{"a": [1, {"b": 1.50}]}'),
    ("jsonb_changed", ('{"a": [1, 2]}', '["b", "c"]', "3", True), '{"a": [1, 2]}'),
    ("jsonb_inserted", ('{"a": [1, 2]}', '["a", "0"]', "3", True), '{"a": [1, 3, 2]}'),
    ("jsonb_pretty_text", ('{"a": [1], "b": {}}',), '{\n    "a": [\n        1\n    ],\n    "b": {\n    }\n}'),
    ("jsonb_without_nulls", ('{"a": null, "b": [null]}',), '{"b": [null]}'),
    ("jsonb_without_path", ('{"a": [1, 2]}', '["a", "0"]'), '{"a": [2]}'),
    ("jsonb_joined", ('{"a": 1}', '{"b": 2, "a": 3}'), '{"a": 3, "b": 2}'),
    ("jsonb_key", ('{"a": 1.50}',), '{"a": 1.5}'),
    ("jsonb_without", ('{"a": 1, "b": 2}', "a"), '{"b": 2}'),
    ("jsonb_without_item", ("[1, 2]", -1), "[1]"),
    ("number_to_char", (decimal.Decimal("-1.50"), "990.9"), "  -1.5"),
    ("numeric_quotient", (decimal.Decimal("1.00"), decimal.Decimal("8.00")), decimal.Decimal("0.125")),
    ("instant_in_zone", (dt.datetime(2024, 7, 1, 2), "europe/paris"), dt.datetime(2024, 7, 1)),
    ("time_in_zone", (dt.datetime(2024, 7, 1), "Europe/Paris"), dt.datetime(2024, 7, 1, 2)),
    ("time_to_char", (dt.datetime(2024, 2, 29), "FMDDth RM"), "29th II  "),
    ("uuid_text", ("{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}",), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json_items", ('[1.50, {"a": 1}, "b"]',), ("1.50", '{"a": 1}', '"b"')),
    ("json_length", ("[1, [2, 3]]",), 2),
    ("json_names", ('{"a": 1, "b": {"c": 2}}',), ("a", "b")),
    ("json_values", ('{"a": 1, "b": {"c": 2}}',), ("1", '{"c": 2}')),
    ("json_contains", ('{"a": [1, 2, {"b": 3, "c": 4}]}', '{"a": [{"b": 3}, 1.0]}'), True),
    ("json_contains", ("[1, [2]]", "2"), False),
    ("json_has", ('["a", {"b": 1}]', "b"), False),
    ("jsonb", ('{"b":1, "aa":2, "a":1e3, "b":1.50}',), '{"a": 1000, "b": 1.50, "aa": 2}'),
    ("window_start", (NOON, 600_000, 0), dt.datetime(2024, 2, 29, 12, 30)),
    ("window_start", (BEFORE_1970, 3_600_000, 900_000), dt.datetime(1969, 12, 31, 23, 15)),
    ("unix_timestamp", (BEFORE_1970,), 0),
    ("unix_timestamp", (dt.datetime(1969, 12, 31, 23, 59, 58, 500_000),), -1),
]

FAILURES: list[tuple[str, tuple[Value, ...]]] = [
    ("+", (LARGEST, 1)),
    ("-", (SMALLEST, 1)),
    ("*", (LARGEST, 2)),
    ("/", (1.0, 0.0)),
    ("/", (D("1.0"), D("0.0"))),
    ("%", (1, 0)),
    ("%", (1.0, 0.0)),
    ("div", (1, 0)),
    ("url_decode", ("100%",)),
    ("parse_url", ("http://h/a b", "PATH")),
    ("to_number", ("12", "000")),
    ("pmod", (1, 0)),
    ("negate", (SMALLEST,)),
    ("abs", (SMALLEST,)),
    ("ceil", (1e20,)),
    ("floor", (INF,)),
    ("round", (LARGEST, -1)),
    ("split_part", ("a", ",", 0)),
    ("parse_timestamp", ("31/02/2024", "dd/MM/yyyy")),
    ("next_day", (dt.date(2015, 1, 14), "x")),
    ("json_items", ('{"a": 1}',)),
    ("json_length", ('{"a": 1}',)),
    ("json_names", ("[1]",)),
    ("jsonb", ("{x}",)),
    ("elt", (3, "a", "b")),
    ("conv", ("9" * 20, 10, 10)),
    ("unbase64", ("Y",)),
    ("encode", ("日", "US-ASCII")),
    ("decode", (b"\xff", "UTF-8")),
    ("bit_get", (11, 32)),
    ("bround", (LARGEST, -1)),
    ("like", ("ab", "a\\b")),
    ("like", ("a\\", "a\\")),
    ("only_row", (5, 2)),
    ("rlike", ("a", "(")),
    ("regexp_extract", ("foo", "o", 1)),
    ("make_date", (2023, 2, 29)),
    ("date_add", (dt.date(9999, 12, 31), 1)),
    ("add_months", (dt.date(1, 1, 1), -1)),
]


@pytest.mark.parametrize(("function", "arguments", "expected"), VALUES)
def test_a_function_has_the_value_that_spark_gives_it(function: str, arguments: tuple[Value, ...], expected: Value):
    found = worth(call(function, *arguments))
    assert same(found, expected), found
    assert type(found) is type(expected)


@pytest.mark.parametrize(("function", "arguments"), FAILURES)
def test_what_has_no_answer_fails(function: str, arguments: tuple[Value, ...]):
    with pytest.raises(EvaluationError):
        worth(call(function, *arguments))


def test_an_array_is_written_as_postgres_writes_it():
    texts = ("a b", "", None, "null", 'q"', "x\\y", "plain")
    assert write_array(texts, Array(STRING)) == '{"a b","",NULL,"null","q\\"","x\\\\y",plain}'
    assert write_array((0.1, 1e20), Array(DOUBLE)) == "{0.1,1e+20}"
    assert write_array(((1, 2), (3,)), Array(Array(INT))) == "{{1,2},{3}}"


def test_every_function_of_the_allow_list_is_tried_by_hand_and_at_the_edges():
    arrays = {"array_text", *(function.name for function in ARRAY_FUNCTIONS)}
    assert {function for function, _, _ in VALUES} | arrays | set(WITHOUT_FORMS) == set(FUNCTIONS)
    assert set(FORMS) | set(WITHOUT_FORMS) == set(FUNCTIONS)


def test_every_call_at_the_edges_has_a_value_or_fails_as_an_evaluation_error():
    """Those that readers of a view evaluate, since they cannot fail, have a value."""
    for calls in all_calls():
        function = compile_expr(calls.call, tuple(calls.columns))
        for row in calls.rows:
            with contextlib.suppress(*([EvaluationError] if can_fail(calls.call) else [])):
                function(row)


CASTS: list[tuple[Value, Type, Value]] = [
    (" 12 ", INT, 12),
    ("+5", TINYINT, 5),
    ("1.0d", DOUBLE, 1.0),
    ("-Infinity", DOUBLE, -INF),
    ("nan", DOUBLE, NAN),
    ("1e400", DOUBLE, INF),
    (" 1.005 ", MONEY, D("1.01")),
    ("1e2", MONEY, D("100.00")),
    (" YES ", BOOLEAN, True),
    ("0", BOOLEAN, False),
    ("2024-2", DATE, dt.date(2024, 2, 1)),
    ("2024-02-03 x", DATE, dt.date(2024, 2, 3)),
    ("2024-02-03 10", TIMESTAMP, dt.datetime(2024, 2, 3, 10)),
    ("2024-02-03T10:01:02.1234567", TIMESTAMP, dt.datetime(2024, 2, 3, 10, 1, 2, 123_456)),
    ("2024-02-03 10:01:02 +0130", TIMESTAMP, dt.datetime(2024, 2, 3, 8, 31, 2)),
    ("2024-02-03 10:01:02 Europe/Paris", TIMESTAMP, dt.datetime(2024, 2, 3, 9, 1, 2)),
    ("é", BINARY, "é".encode()),
    (b"\xff", STRING, "�"),
    (-1.9, INT, -1),
    (1.005, MONEY, D("1.01")),
    (NAN, MONEY, None),
    (INF, FLOAT, INF),
    (0.1, FLOAT, 0.10000000149011612),
    (1e39, FLOAT, INF),
    (D("-1.9"), INT, -1),
    (D("0.0000000001"), STRING, "0.0000000001"),
    (D("1.995"), MONEY, D("2.00")),
    (2, MONEY, D("2.00")),
    (3, DOUBLE, 3.0),
    (True, INT, 1),
    (True, MONEY, D("1.00")),
    (NAN, BOOLEAN, True),
    (0, BOOLEAN, False),
    (False, STRING, "false"),
    (12, STRING, "12"),
    (1e7, STRING, "1.0E7"),
    (9999999.0, STRING, "9999999.0"),
    (0.001, STRING, "0.001"),
    (0.0001, STRING, "1.0E-4"),
    (-1.5e-5, STRING, "-1.5E-5"),
    (5e-324, STRING, "4.9E-324"),
    (100.0, STRING, "100.0"),
    (-0.0, STRING, "-0.0"),
    (-INF, STRING, "-Infinity"),
    (DAY, STRING, "2024-01-31"),
    (dt.date(1, 1, 1), TIMESTAMP, dt.datetime(1, 1, 1)),
    (dt.datetime(1, 1, 1), STRING, "0001-01-01 00:00:00"),
    (BEFORE_1970, STRING, "1969-12-31 23:59:59.5"),
    (BEFORE_1970, BIGINT, -1),
    (BEFORE_1970, DOUBLE, -0.5),
    (NOON, DATE, LEAP),
    (-1.5, TIMESTAMP, dt.datetime(1969, 12, 31, 23, 59, 58, 500_000)),
    (10, TIMESTAMP, dt.datetime(1970, 1, 1, 0, 0, 10)),
    (None, INT, None),
]
BAD_CASTS: list[tuple[Value, Type]] = [
    ("", INT),
    ("1.5", INT),
    ("1_000", INT),
    ("３", INT),
    ("300", TINYINT),
    ("-nan", DOUBLE),
    ("--1", DOUBLE),
    ("0x", DOUBLE),
    ("abc", MONEY),
    ("123456789", MONEY),
    ("2", BOOLEAN),
    ("2024-02-30", DATE),
    ("24-01-01", DATE),
    ("20240203", DATE),
    ("2024-02-03T", TIMESTAMP),
    ("2024-02-03 24:00:00", TIMESTAMP),
    ("2024-02-03 10:01:02 Nowhere/City", TIMESTAMP),
    ("2024-02-03 10:01:02+19:00", TIMESTAMP),
    (NAN, INT),
    (INF, TIMESTAMP),
    (2147483648.5, INT),
    (300, TINYINT),
    (1e30, MONEY),
    (D("10000000000"), INT),
]


@pytest.mark.parametrize(("value", "target", "expected"), CASTS)
def test_a_cast_has_the_value_that_spark_gives_it(value: Value, target: Type, expected: Value):
    found = worth(Call("cast", (literal(value),), target))
    assert same(found, expected), found
    assert type(found) is type(expected)


@pytest.mark.parametrize(("value", "target"), BAD_CASTS)
def test_a_cast_that_cannot_be_fails_instead_of_being_null(value: Value, target: Type):
    with pytest.raises(EvaluationError):
        worth(Call("cast", (literal(value),), target))


@given(st.floats(allow_nan=False))
def test_a_double_reads_back_from_its_text(number: float):
    text = worth(Call("cast", (literal(number),), STRING))
    assert worth(Call("cast", (Literal(text, STRING),), DOUBLE)) == number


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-99999999, max_value=99999999))
def test_a_decimal_reads_back_from_its_text(number: D):
    text = worth(Call("cast", (Literal(number, MONEY),), STRING))
    assert worth(Call("cast", (Literal(text, STRING),), MONEY)) == number


FAILING = Call(">", (call("div", 1, 0), Literal(0, BIGINT)), BOOLEAN)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Call("and", (FALSE, FAILING), BOOLEAN), False),
        (Call("or", (TRUE, FAILING), BOOLEAN), True),
        (Call("coalesce", (TRUE, FAILING), BOOLEAN), True),
        (Call("case", (TRUE, FALSE, FAILING), BOOLEAN), False),
        (Call("case", (FALSE, FAILING, TRUE), BOOLEAN), True),
        (Call("in", (TRUE, TRUE, FAILING), BOOLEAN), True),
    ],
)
def test_a_branch_that_is_not_reached_does_not_fail(expr: Expr, expected: Value):
    assert worth(expr) is expected


def test_a_branch_that_is_reached_fails():
    with pytest.raises(EvaluationError):
        worth(Call("and", (TRUE, FAILING), BOOLEAN))


def test_null_divided_by_zero_is_null():
    assert worth(Call("/", (Literal(None, DOUBLE), Literal(0.0, DOUBLE)), DOUBLE)) is None


HOUR, MONTH = Literal(dt.timedelta(hours=1), DAY_TIME), Literal(1, YEAR_MONTH)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Call("+", (literal(NOON), HOUR), TIMESTAMP), NOON + dt.timedelta(hours=1)),
        (Call("+", (HOUR, literal(NOON)), TIMESTAMP), NOON + dt.timedelta(hours=1)),
        (Call("-", (literal(NOON), HOUR), TIMESTAMP), NOON - dt.timedelta(hours=1)),
        (Call("+", (literal(DAY), MONTH), DATE), LEAP),
        (Call("-", (literal(NOON), MONTH), TIMESTAMP), NOON.replace(month=1)),
        (Call("+", (literal(DAY), HOUR), TIMESTAMP), dt.datetime(2024, 1, 31, 1)),
        (Call("+", (literal(DAY), Literal(dt.timedelta(days=1), DAY_TIME)), DATE), dt.date(2024, 2, 1)),
        (Call("-", (literal(NOON), literal(BEFORE_1970)), DAY_TIME), NOON - BEFORE_1970),
        (Call("+", (HOUR, HOUR), DAY_TIME), dt.timedelta(hours=2)),
        (Call("negate", (HOUR,), DAY_TIME), dt.timedelta(hours=-1)),
    ],
)
def test_intervals_move_dates_and_timestamps(expr: Expr, expected: Value):
    found = worth(expr)
    assert found == expected
    assert type(found) is type(expected)


def test_a_time_beyond_the_year_9999_fails():
    with pytest.raises(EvaluationError):
        worth(Call("+", (literal(dt.datetime(9999, 12, 31, 23, 30)), HOUR), TIMESTAMP))


def test_now_is_what_one_is_told():
    assert evaluate(Call("now", (), TIMESTAMP), {}, now=NOON) == NOON


def test_columns_are_found_by_name():
    assert evaluate(Call("+", (Column("r.a", INT), Column("r.b", INT)), INT), {"r.b": 1, "r.a": 2}) == 3


def test_float_results_are_rounded_to_32_bits():
    tenth = Literal(0.10000000149011612, FLOAT)
    assert worth(Call("*", (tenth, tenth), FLOAT)) == 0.010000000707805157


def test_products_of_many_digits_are_exact_before_they_are_rounded():
    many = Literal(D("9" * 20 + "." + "9" * 18), Decimal(38, 18))
    assert worth(Call("-", (many, many), Decimal(38, 17))) == 0
    half = Literal(D("0.500000000000000000"), Decimal(38, 18))
    assert worth(Call("*", (many, half), Decimal(38, 6))) == D("50000000000000000000.000000")


def test_a_python_function_gets_nulls_and_its_exceptions_are_evaluation_errors():
    double = Call("python:double@1", (Column("a", INT),), INT)
    around = Surroundings(python={"double@1": lambda value: value * 2})
    compiled = compile_expr(double, ("a",), around)
    assert compiled((2,)) == 4
    with pytest.raises(EvaluationError, match=r"python:double@1.*failed"):
        compiled((None,))


def test_distance_is_in_metres_along_the_great_circle():
    berlin_to_paris = worth(call("distance", 52.52, 13.405, 48.8566, 2.3522))
    assert isinstance(berlin_to_paris, float)
    assert 877_000 < berlin_to_paris < 878_500
