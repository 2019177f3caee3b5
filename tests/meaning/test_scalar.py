"""What functions are worth, written by hand; `tests/live/test_functions_on_spark.py` asks Spark about many more."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.meaning.fallible import can_fail
from headrace.meaning.functions import FUNCTIONS
from headrace.meaning.scalar import Surroundings, compile_expr, evaluate
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
    Decimal,
    Type,
    Value,
)
from tests.meaning.function_cases import FORMS, all_calls

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
    ("pmod", (1, 0)),
    ("negate", (SMALLEST,)),
    ("abs", (SMALLEST,)),
    ("ceil", (1e20,)),
    ("floor", (INF,)),
    ("round", (LARGEST, -1)),
    ("split_part", ("a", ",", 0)),
    ("like", ("ab", "a\\b")),
    ("like", ("a\\", "a\\")),
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


def test_every_function_of_the_allow_list_is_tried_by_hand_and_at_the_edges():
    assert {function for function, _, _ in VALUES} | {"cast", "now"} == set(FUNCTIONS)
    assert set(FORMS) | {"cast", "now"} == set(FUNCTIONS)


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
