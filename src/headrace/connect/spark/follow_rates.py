"""Follows with the rates of both ends, on Spark: read, joined, and checked in one pass over each table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.connect.tables.files import Format, columns_of, format_of
from headrace.model.errors import InputError, Location, Problem, nearest_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MARK = "headrace_"
"""Starts the names of columns that are ours while we work, and of none in the result."""


@dataclass(frozen=True, slots=True)
class FollowFiles:
    """Tables of follows (consumer, producer), and of rates (producer, rate, perhaps H and L; consumer, rate)."""

    follows: Path
    producers: Path
    consumers: Path


@dataclass(frozen=True, slots=True)
class JoinedFollows:
    """`rows` has the columns of the follows (`columns`), and marked ones: both rates, perhaps H and L.

    Spark keeps it until it is unpersisted.
    """

    rows: DataFrame
    columns: tuple[str, ...]
    pairs: int
    producers: int
    consumers: int


def join_follows(session: SparkSession, files: FollowFiles) -> JoinedFollows:
    from pyspark.sql import functions as f

    producers, producer_count = _rates(session, files.producers, "producer", ("H", "L"))
    consumers, consumer_count = _rates(session, files.consumers, "consumer", ())
    follows = _open_file(session, files.follows, ("consumer", "producer"))
    _check_kind(follows, files.follows, "producer", producers, files.producers)
    _check_kind(follows, files.follows, "consumer", consumers, files.consumers)
    rows = follows.join(producers, "producer", "left").join(consumers, "consumer", "left")
    rows = rows.select(*follows.columns, *(name for name in rows.columns if name.startswith(MARK))).persist()
    wrong = {
        'column "consumer" lacks a value': f.col("consumer").isNull(),
        'column "producer" lacks a value': f.col("producer").isNull(),
        "consumer has no rate": f.col(f"{MARK}consumer_rate").isNull(),
        "producer has no rate": f.col(f"{MARK}producer_rate").isNull(),
    }
    try:
        pairs = _check_rows(rows, files.follows, ("consumer", "producer"), wrong)
    except InputError:
        rows.unpersist()
        raise
    if not pairs:
        raise InputError([Problem("the table has no rows", Location(str(files.follows)), "follows are one row each")])
    return JoinedFollows(rows, tuple(follows.columns), pairs, producer_count, consumer_count)


def _open_file(session: SparkSession, file: Path, required: tuple[str, ...]) -> DataFrame:
    form = format_of(file)
    found = columns_of(file, form)
    problems = [
        Problem(f'column "{column}" is missing', Location(str(file)), nearest_name(column, found))
        for column in required
        if column not in found
    ]
    if problems:
        raise InputError(problems)
    path = str(file.absolute())
    # Identifiers in CSV stay text: 007 and 7 are two people.
    return session.read.csv(path, header=True) if form is Format.CSV else session.read.parquet(path)


def _rates(session: SparkSession, file: Path, kind: str, more: tuple[str, ...]) -> tuple[DataFrame, int]:
    """Identifiers and amounts as doubles, and how many there are."""
    from pyspark.sql import functions as f

    table = _open_file(session, file, (kind, "rate"))
    names = {"rate": f"{MARK}{kind}_rate"} | {name: f"{MARK}{name}" for name in more if name in table.columns}
    table = table.select(kind, *(f.col(name).try_cast("double").alias(mark) for name, mark in names.items()))
    wrong = {f'column "{kind}" lacks a value': f.col(kind).isNull()}
    for name, mark in names.items():
        wrong[f'column "{name}" lacks a number'] = f.col(mark).isNull()
        wrong[f'"{name}" is not finite'] = f.isnan(mark) | (f.abs(mark) == float("inf"))
        wrong[f'"{name}" is negative'] = f.col(mark) < 0
    return table, _check_rows(table, file, (kind,), wrong)


def _check_rows(table: DataFrame, file: Path, key: tuple[str, ...], wrong: dict[str, Column]) -> int:
    """The number of rows. Raises for a row about which something wrong is true, or whose key another row has."""
    from pyspark.sql import functions as f

    counts = [f.count_if(condition).alias(what) for what, condition in wrong.items()]
    found = table.agg(f.count(f.lit(1)).alias("rows"), f.count_distinct(*key).alias("keys"), *counts).first()
    assert found is not None
    for what, condition in wrong.items():
        if found[what]:
            _refuse(table.where(condition), file, key[-1] if key[-1] in what else key[0], what)
    if found["keys"] < found["rows"]:
        what = f"{key[0]} is there twice" if len(key) == 1 else "a producer is followed twice by the same consumer"
        _refuse(table.groupBy(*key).count().where("count > 1"), file, key[-1], what)
    return int(found["rows"])


def _refuse(wrong: DataFrame, file: Path, column: str, what: str) -> None:
    """Raises, naming one of the rows."""
    row = wrong.first()
    assert row is not None
    raise InputError([Problem(f'{what}: {column} "{row[column]}"', Location(str(file)))])


def _check_kind(follows: DataFrame, file: Path, column: str, rates: DataFrame, of: Path) -> None:
    here, there = (_kind(table, column) for table in (follows, rates))
    if here != there:
        message = f'column "{column}" holds {here}, but {there} in "{of}"'
        raise InputError([Problem(message, Location(str(file)), "store identifiers the same way in both tables")])


def _kind(table: DataFrame, column: str) -> str:
    return "text" if table.schema[column].dataType.simpleString() == "string" else "integers"
