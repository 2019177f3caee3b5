"""A table of pairs in Spark, checked, with its rates as integers: what `connect.tables.pairs` does in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from headrace.connect.tables.files import Format
from headrace.connect.tables.pairs import LARGEST, RESERVED, SCALE, check_columns
from headrace.model.errors import InputError, Location, Problem

RATE_AB, RATE_BA = "headrace rate_ab", "headrace rate_ba"
"""Columns that hold the rates as integers."""

RATES = ("rate_ab", "rate_ba")
WHOLE = ("tinyint", "smallint", "int", "bigint")


def read_rates(session: SparkSession, file: Path, form: Format) -> tuple[DataFrame, int]:
    """The table with two more columns, which hold the rates as bigint, and the scale of the rates in them."""
    table = _open_file(session, file, form)
    scale = SCALE if _has_fractions(table, file) else 1
    columns = {RATE_AB: _integer(table, "rate_ab", scale), RATE_BA: _integer(table, "rate_ba", scale)}
    return table.withColumns(columns), scale


def _has_fractions(table: DataFrame, file: Path) -> bool:
    """Whether some rate is no integer. The same pass over the table raises for mistakes."""
    tests = _mistakes(table)
    counts = [fn.count_if(fn.coalesce(test, fn.lit(False))) for test in tests.values()]
    fractional = [fn.count_if(fn.col(name) != fn.rint(fn.col(name).cast("double"))) for name in RATES]
    row = table.agg(*fractional, *counts).first()
    assert row is not None
    found = zip(tests.items(), row[2:], strict=True)
    problems = [_problem(table.where(test), what, count, file) for (what, test), count in found if count]
    if problems:
        raise InputError(problems)
    return bool(row[0] or row[1])


def _open_file(session: SparkSession, file: Path, form: Format) -> DataFrame:
    if form is Format.PARQUET:
        table = session.read.parquet(str(file.absolute()))
        check_columns(file, table.columns)
    else:
        table = session.read.csv(str(file.absolute()), header=True)
        check_columns(file, table.columns)
        table = table.withColumns({name: _parse_column(table, name) for name in RATES})
    for name in RATES:
        kind = dict(table.dtypes)[name]
        if not kind.startswith((*WHOLE, "float", "double", "decimal")):
            raise InputError([Problem(f'column "{name}" holds {kind}, not numbers', Location(str(file)))])
    ids = {name: kind for name, kind in table.dtypes if name in ("a", "b")}
    if len(set(ids.values())) > 1:
        table = table.withColumns({name: fn.col(name).cast("string") for name in ids})
    return table


def _parse_column(table: DataFrame, name: str) -> Column:
    """Text of a CSV as integers if all of it is, else as numbers; what is neither is refused as missing."""
    text = fn.trim(fn.col(name))
    odd = table.where(fn.col(name).isNotNull() & text.try_cast("bigint").isNull())
    return text.try_cast("bigint" if odd.isEmpty() else "double")


def _integer(table: DataFrame, name: str, scale: int) -> Column:
    kind = dict(table.dtypes)[name]
    if kind.startswith(("float", "double")):
        return fn.rint(fn.col(name).cast("double") * float(scale)).cast("bigint")
    if kind.startswith("decimal"):
        return fn.bround(fn.col(name) * scale, 0).cast("bigint")
    return fn.col(name).cast("bigint") * scale


def _mistakes(table: DataFrame) -> dict[str, Any]:
    kinds = dict(table.dtypes)
    tests: dict[str, Any] = {
        f'a value of column "{name}" is missing': fn.col(name).isNull() for name in ("a", "b", *RATES)
    }
    tests["a device is paired with itself"] = fn.col("a") == fn.col("b")
    for name in RATES:
        tests[f'a rate of column "{name}" is negative'] = fn.col(name) < 0
        if kinds[name] in ("float", "double"):
            endless = fn.isnan(name) | (fn.abs(name) == float("inf"))
            tests[f'a rate of column "{name}" is not finite'] = endless
        largest = LARGEST if kinds[name] in WHOLE else LARGEST // SCALE
        too_large = (fn.col(name) > largest) & (fn.col(name) < float("inf"))
        tests[f'a rate of column "{name}" is too large'] = too_large
    if "string" in (kinds["a"], kinds["b"]):
        for word, what in (
            (RESERVED, f'"{RESERVED}" is reserved and cannot name a device'),
            ("", "a device has no name"),
        ):
            tests[what] = (fn.col("a") == word) | (fn.col("b") == word)
    return tests


def _problem(wrong: DataFrame, what: str, found: int, file: Path) -> Problem:
    row = wrong.select("a", "b", *RATES).first()
    example = "" if row is None else f" (a {row[0]}, b {row[1]}, rate_ab {row[2]}, rate_ba {row[3]})"
    more = f"; {found} rows are like this" if found > 1 else ""
    return Problem(f"{what}{example}{more}", Location(str(file)))
