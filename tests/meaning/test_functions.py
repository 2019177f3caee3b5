"""The allow-list and the rules of types, by themselves."""

import pytest

from headrace.meaning.functions import FUNCTION_GROUPS, FUNCTIONS, is_allowed
from headrace.model.expr import Literal
from headrace.model.promotion import (
    arithmetic_type,
    average_type,
    common_type,
    common_type_of,
    operand_types,
    sum_type,
)
from headrace.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Type,
)


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (INT, BIGINT, BIGINT),
        (TINYINT, SMALLINT, SMALLINT),
        (INT, FLOAT, DOUBLE),
        (FLOAT, FLOAT, FLOAT),
        (Decimal(10, 2), DOUBLE, DOUBLE),
        (Decimal(10, 2), INT, Decimal(12, 2)),
        (Decimal(38, 10), Decimal(38, 0), Decimal(38, 0)),
        (DATE, TIMESTAMP, TIMESTAMP),
        (NULL, STRING, STRING),
        (STRING, INT, None),
        (BOOLEAN, INT, None),
        (Array(INT), Array(BIGINT), Array(BIGINT)),
        (Array(INT), Array(STRING), None),
    ],
)
def test_types_widen_to_the_narrowest_that_holds_both(left: Type, right: Type, common: Type | None):
    assert common_type(left, right) == common
    assert common_type(right, left) == common


def test_the_common_type_of_many():
    assert common_type_of(()) == NULL
    assert common_type_of((INT, NULL, BIGINT)) == BIGINT
    assert common_type_of((INT, STRING, BIGINT)) is None


@pytest.mark.parametrize(
    ("operator", "left", "right", "result"),
    [
        ("+", Decimal(10, 2), Decimal(10, 2), Decimal(11, 2)),
        ("*", Decimal(10, 2), Decimal(30, 10), Decimal(38, 9)),
        ("/", Decimal(10, 2), Decimal(30, 10), Decimal(38, 20)),
        ("/", Decimal(10, 2), Decimal(1, 0), Decimal(14, 6)),
        ("%", Decimal(10, 2), Decimal(1, 0), Decimal(3, 2)),
        ("/", INT, INT, DOUBLE),
        ("div", INT, INT, BIGINT),
        ("+", FLOAT, FLOAT, FLOAT),
        ("/", FLOAT, FLOAT, DOUBLE),
        ("*", INT, BIGINT, BIGINT),
    ],
)
def test_arithmetic_has_sparks_types(operator: str, left: Type, right: Type, result: Type):
    assert arithmetic_type(operator, *operand_types(operator, left, right)) == result


def test_sums_and_averages_have_room():
    assert (sum_type(INT), sum_type(Decimal(15, 2)), sum_type(FLOAT)) == (BIGINT, Decimal(25, 2), DOUBLE)
    assert (average_type(INT), average_type(Decimal(38, 37))) == (DOUBLE, Decimal(38, 38))


def test_names_on_the_list_are_unique_and_signatures_readable():
    assert sum(map(len, FUNCTION_GROUPS.values())) == len(FUNCTIONS)
    assert FUNCTIONS["round"].signature == "round(a number[, int])"
    assert FUNCTIONS["concat"].signature == "concat(a simple type, ...)"
    assert is_allowed("python:score@1")
    assert not is_allowed("rand")


def test_how_many_arguments_a_function_takes():
    substring, concat, now = FUNCTIONS["substring"], FUNCTIONS["concat"], FUNCTIONS["now"]
    assert [substring.accepts(count) for count in (1, 2, 3, 4)] == [False, True, True, False]
    assert [concat.accepts(count) for count in (0, 1, 9)] == [False, True, True]
    assert [now.accepts(count) for count in (0, 1)] == [True, False]


@pytest.mark.parametrize(
    ("digits", "type_"), [(1, Decimal(10, 1)), (0, Decimal(9, 0)), (-1, Decimal(9, 0)), (-12, Decimal(13, 0))]
)
def test_rounding_keeps_the_digits_that_it_is_asked_for(digits: int, type_: Type):
    assert FUNCTIONS["round"].result_type((Literal(None, Decimal(10, 2)), Literal(digits, INT))) == type_
