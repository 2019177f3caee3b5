"""Spark in ANSI mode is the authority on what a function is worth; `model.scalar` must agree, also on what fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.connect.spark.sql_text import spark_text
from headrace.meaning.json_functions import ONLY_OURS
from headrace.meaning.scalar import compile_expr
from headrace.meaning.zset import normal_row
from headrace.model.errors import EvaluationError
from headrace.model.expr import Literal, rename_columns, substitute
from headrace.model.types import Row, Type, Value
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.testing.engines import same_value
from tests.meaning.function_cases import Calls, all_calls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILS = object()
LOWEST = (-(2**31), -(2**63))
OURS_ALONE = ("distance", *ONLY_OURS)
"""Functions that Spark does not have."""


def expected(calls: Calls) -> list[object]:
    """Our value for each row, or FAILS."""
    function = compile_expr(calls.call, tuple(calls.columns))
    return [_value(function, row) for row in calls.rows]


def _value(function, row: Row) -> object:
    try:
        return function(row)
    except EvaluationError:
        return FAILS


def test_spark_and_we_agree_on_every_value_of_every_function(spark: SparkSession):
    cases = [calls for calls in all_calls() if calls.call.function not in OURS_ALONE]
    wrong = []
    for chunk in _chunks(cases, 60):
        wrong += list(_disagreements(spark, chunk))
    assert not wrong, f"{len(wrong)} disagreements:\n" + "\n".join(wrong)


def _chunks(items: list[Calls], size: int) -> Iterator[list[Calls]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _disagreements(spark: SparkSession, cases: list[Calls]) -> Iterator[str]:
    """All calls of a chunk in one query, side by side; row i holds the i-th arguments of each."""
    kept = [[row for row, value in zip(c.rows, expected(c), strict=True) if value is not FAILS] for c in cases]
    kept = [[row for row in rows if not _overflows_in_spark(c, row)] for c, rows in zip(cases, kept, strict=True)]
    try:
        types, found = _run(spark, cases, kept)
    except Exception as error:
        if len(cases) == 1:
            yield f"{cases[0].name}: we answer, Spark fails: {str(error).splitlines()[0]} on one of {kept[0]}"
            return
        for half in (cases[: len(cases) // 2], cases[len(cases) // 2 :]):
            yield from _disagreements(spark, half)
        return
    for case, rows, type_, column in zip(cases, kept, types, found, strict=True):
        if type_ != str(case.call.type):
            yield f"{case.name}: Spark says the type is {type_}"
        function = compile_expr(case.call, tuple(case.columns))
        for row, value in zip(rows, column, strict=False):
            ours = function(normal_row(row))  # tables hold no -0.0
            if not same_value(ours, value):
                yield f"{case.name}: {row} is {value!r} in Spark, {ours!r} here"


def _overflows_in_spark(calls: Calls, row: Row) -> bool:
    """`pmod` by the smallest number there is: Spark adds it to a negative rest without noticing the overflow."""
    return calls.call.function == "pmod" and row[1] in LOWEST


def _run(spark: SparkSession, cases: list[Calls], kept: list[list[Row]]) -> tuple[list[str], list[list[Value]]]:
    columns: dict[str, Type] = {}
    texts = []
    for number, case in enumerate(cases):
        names = {name: f"c{number}_{name}" for name in case.columns}
        columns |= {names[name]: type_ for name, type_ in case.columns.items()}
        texts.append(f"{spark_text(rename_columns(case.call, names))} AS v{number}")
    height = max(map(len, kept))
    padded = [
        rows + [(None,) * len(case.columns)] * (height - len(rows)) for rows, case in zip(kept, cases, strict=True)
    ]
    rows = [tuple(value for row in level for value in row) for level in zip(*padded, strict=True)]
    frame = spark.createDataFrame(arrow_table(columns, rows)).selectExpr(*texts)
    return [type_ for _, type_ in frame.dtypes], [
        list(column) for column in zip(*rows_of_arrow(frame.toArrow()), strict=True)
    ]


@pytest.mark.long
def test_spark_fails_where_we_fail(spark: SparkSession):
    wrong = []
    for calls in all_calls():
        if calls.call.function in OURS_ALONE:
            continue
        failing = [row for row, value in zip(calls.rows, expected(calls), strict=True) if value is FAILS]
        for row in failing[:20]:
            answer = _answer(spark, calls, row)
            if answer is not None:
                wrong.append(f"{calls.name}: {row} fails here, Spark answers {answer}")
    assert not wrong, f"{len(wrong)} disagreements:\n" + "\n".join(wrong)


def _answer(spark: SparkSession, calls: Calls, row: Row) -> str | None:
    """What Spark answers, None when it fails, or answers with a year that Python does not have."""
    from pyspark.errors import PySparkException

    literals = {name: Literal(value, type_) for (name, type_), value in zip(calls.columns.items(), row, strict=True)}
    try:
        return repr(spark.sql(f"SELECT {spark_text(substitute(calls.call, literals))}").collect())
    except (PySparkException, ValueError):
        return None
