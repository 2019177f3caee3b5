"""Decides follows of any number on Spark: rates are joined to follows, and the rules run on the rows where these are.

The rules come as a function of arrays, the same one that decides in a single process, so the decisions are the same.
Models that price a consumer's pairs together see all rows of a consumer at once; others need no shuffle but the joins'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.connect.tables.files import Format, columns_of, format_of
from headrace.connect.tables.output import merge_parts
from headrace.model.errors import InputError, Location, Problem, nearest_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 1 << 17
"""Rows decided together, more or less."""

MARK = "headrace_"
"""Starts the names of columns that are ours while we work, and of none in the result."""

COSTS = ("paid", "all_ahead", "all_on_read")

Arrays = dict[str, NDArray[np.float64]]
Rules = Callable[[Arrays, NDArray[Any]], tuple[NDArray[np.bool_], Arrays]]
"""Rates and prices by row, and numbers of consumers, to what is stored ahead and to the columns of COSTS.

It travels to the workers, so it must be importable there.
"""


@dataclass(frozen=True, slots=True)
class FollowFiles:
    """Tables of follows (consumer, producer), and of rates (producer, rate, perhaps H and L; consumer, rate)."""

    follows: Path
    producers: Path
    consumers: Path


@dataclass(frozen=True, slots=True)
class SparkFeedsResult:
    """Sums over all rows, in the order of COSTS, and counts."""

    costs: tuple[float, float, float]
    pairs: int
    stored_ahead: int
    producers: int
    consumers: int


def decide_follows(
    session: SparkSession, files: FollowFiles, rules: Rules, by_consumer: bool, out: Path | None
) -> SparkFeedsResult:
    """Writes the follows with a column `decision` to one file, in no particular order, and returns the sums."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    producers = _rates(session, files.producers, "producer", ("H", "L"))
    consumers = _rates(session, files.consumers, "consumer", ())
    follows = _read(session, files.follows, ("consumer", "producer"))
    _check_kinds(follows, files, producers, consumers)
    _check_follows(follows, files.follows)
    joined = _join(follows, files.follows, producers, consumers)
    if by_consumer:
        joined = joined.repartition("consumer").sortWithinPartitions("consumer")
    decided = joined.mapInArrow(_decider(rules, follows.columns), _schema(follows))
    sums = [f.sum(f.col(f"{MARK}{cost}")).alias(cost) for cost in COSTS]
    stored = f.sum((f.col("decision") == "push").cast("long")).alias("stored")
    seen = Observation("feeds")
    result = decided.observe(seen, f.count(f.lit(1)).alias("pairs"), stored, *sums)
    with TemporaryDirectory(dir=out.absolute().parent if out else None) as parts:
        result.drop(*(f"{MARK}{cost}" for cost in COSTS)).write.parquet(f"{parts}/rows")
        found = seen.get
        if not found["pairs"]:
            hint = "follows are one row each"
            raise InputError([Problem("the table has no rows", Location(str(files.follows)), hint)])
        if out is not None:
            merge_parts(sorted(Path(parts, "rows").glob("part-*.parquet")), out)
    paid, all_ahead, all_on_read = (float(found[cost]) for cost in COSTS)
    counts = int(found["pairs"]), int(found["stored"]), producers.count(), consumers.count()
    return SparkFeedsResult((paid, all_ahead, all_on_read), *counts)


# Tables


def _read(session: SparkSession, file: Path, required: tuple[str, ...]) -> DataFrame:
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


def _rates(session: SparkSession, file: Path, kind: str, more: tuple[str, ...]) -> DataFrame:
    """Identifier and amounts as doubles, checked."""
    from pyspark.sql import functions as f

    table = _read(session, file, (kind, "rate"))
    amounts = {"rate": f"{MARK}{kind}_rate"} | {name: f"{MARK}{name}" for name in more if name in table.columns}
    for name in amounts:
        value = f.col(name).try_cast("double")
        _refuse(table.where(value.isNull()), file, kind, f'column "{name}" lacks a number')
        _refuse(table.where(f.isnan(value) | (f.abs(value) == float("inf"))), file, kind, f'"{name}" is not finite')
        _refuse(table.where(value < 0), file, kind, f'"{name}" is negative')
    _refuse(table.where(f.col(kind).isNull()), file, kind, f'column "{kind}" lacks a value')
    _refuse(table.groupBy(kind).count().where("count > 1"), file, kind, f"{kind} is there twice")
    return table.select(kind, *(f.col(name).cast("double").alias(mark) for name, mark in amounts.items()))


def _check_kinds(follows: DataFrame, files: FollowFiles, producers: DataFrame, consumers: DataFrame) -> None:
    for column, rates, file in (("producer", producers, files.producers), ("consumer", consumers, files.consumers)):
        kinds = [_is_text(table, column) for table in (follows, rates)]
        if kinds[0] != kinds[1]:
            words = ["text" if text else "integers" for text in kinds]
            message = f'column "{column}" holds {words[0]}, but {words[1]} in "{file}"'
            hint = "store identifiers the same way in both tables"
            raise InputError([Problem(message, Location(str(files.follows)), hint)])


def _is_text(table: DataFrame, column: str) -> bool:
    return bool(table.schema[column].dataType.simpleString() == "string")


def _check_follows(follows: DataFrame, file: Path) -> None:
    for column in ("consumer", "producer"):
        _refuse(follows.where(follows[column].isNull()), file, "consumer", f'column "{column}" lacks a value')
    twice = follows.groupBy("consumer", "producer").count().where("count > 1")
    _refuse(twice, file, "producer", "a producer is followed twice by the same consumer")


def _join(follows: DataFrame, file: Path, producers: DataFrame, consumers: DataFrame) -> DataFrame:
    for column, rates in (("producer", producers), ("consumer", consumers)):
        _refuse(follows.join(rates, column, "left_anti"), file, column, f"{column} has no rate")
    return follows.join(producers, "producer").join(consumers, "consumer")


def _refuse(wrong: DataFrame, file: Path, column: str, what: str) -> None:
    """Raises if there is such a row, naming one."""
    row = wrong.first()
    if row is not None:
        raise InputError([Problem(f'{what}: {column} "{row[column]}"', Location(str(file)))])


# Rows


def _schema(follows: DataFrame) -> Any:
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

    kept = [field for field in follows.schema.fields if field.name != "decision"]
    decided = [StructField("decision", StringType(), nullable=False)]
    return StructType([*kept, *decided, *(StructField(f"{MARK}{cost}", DoubleType()) for cost in COSTS)])


def _decider(rules: Rules, columns: list[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    kept = [column for column in columns if column != "decision"]

    def decide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _whole_consumers(batches):
            yield from _decided(rows, rules, kept).to_batches()

    return decide


def _whole_consumers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows in stretches that end where a consumer does, given that rows of a consumer stand together."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= ROWS:
            rows = pa.Table.from_batches(held)
            consumer = rows["consumer"].combine_chunks()
            last = _start_of_last(consumer)
            if last:
                yield rows.slice(0, last)
                held = rows.slice(last).to_batches()
    if held:
        yield pa.Table.from_batches(held)


def _start_of_last(values: pa.Array) -> int:
    import pyarrow.compute as pc

    return int(pc.index(values, values[-1]).as_py())


def _decided(rows: pa.Table, rules: Rules, kept: list[str]) -> pa.Table:
    import pyarrow.compute as pc

    numbers = rows["consumer"].combine_chunks().dictionary_encode().indices.to_numpy()
    arrays = {name: rows[f"{MARK}{name}"].to_numpy() for name in ("producer_rate", "consumer_rate")}
    own = {name: rows[f"{MARK}{name}"].to_numpy() for name in ("H", "L") if f"{MARK}{name}" in rows.column_names}
    ahead, costs = rules({"event_rate": arrays["producer_rate"], "query_rate": arrays["consumer_rate"], **own}, numbers)
    decision = pc.if_else(pa.array(ahead), "push", "pull")
    result = rows.select(kept).append_column("decision", decision)
    for cost in COSTS:
        result = result.append_column(f"{MARK}{cost}", pa.array(costs[cost]))
    return result
