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

from headrace.connect.spark.follow_rates import MARK, FollowFiles, JoinedFollows, join_follows
from headrace.connect.spark.stretches import number_values, whole_values
from headrace.connect.tables.output import merge_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COSTS = ("paid", "all_ahead", "all_on_read")

Arrays = dict[str, NDArray[np.float64]]
Rules = Callable[[Arrays, NDArray[Any]], tuple[NDArray[np.bool_], Arrays]]
"""Rates and prices by row, and numbers of consumers, to what is stored ahead and to the columns of COSTS.

It travels to the workers, so it must be importable there.
"""


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

    joined = join_follows(session, files)
    rows = joined.rows.repartition("consumer").sortWithinPartitions("consumer") if by_consumer else joined.rows
    decided = rows.mapInArrow(_decider(rules, joined.columns, by_consumer), _schema(joined))
    sums = [f.sum(f.col(f"{MARK}{cost}")).alias(cost) for cost in COSTS]
    stored = f.count_if(f.col("decision") == "push").alias("stored")
    seen = Observation("feeds")
    result = decided.observe(seen, stored, *sums).drop(*(f"{MARK}{cost}" for cost in COSTS))
    with TemporaryDirectory(dir=out.absolute().parent if out else None) as parts:
        result.write.parquet(f"{parts}/rows")
        if out is not None:
            merge_parts(sorted(Path(parts, "rows").glob("part-*.parquet")), out)
    joined.rows.unpersist()
    found = seen.get
    paid, all_ahead, all_on_read = (float(found[cost]) for cost in COSTS)
    return SparkFeedsResult(
        (paid, all_ahead, all_on_read), joined.pairs, int(found["stored"]), joined.producers, joined.consumers
    )


def _schema(joined: JoinedFollows) -> Any:
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

    kept = [joined.rows.schema[name] for name in joined.columns if name != "decision"]
    decided = [StructField("decision", StringType())]
    return StructType([*kept, *decided, *(StructField(f"{MARK}{cost}", DoubleType()) for cost in COSTS)])


def _decider(
    rules: Rules, columns: tuple[str, ...], by_consumer: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    kept = [column for column in columns if column != "decision"]

    def decide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        each = (pa.Table.from_batches([batch]) for batch in batches)
        stretches = whole_values(batches, "consumer") if by_consumer else each
        for rows in stretches:
            yield from _decide_rows(rows, rules, kept).to_batches()

    return decide


def _decide_rows(rows: pa.Table, rules: Rules, kept: list[str]) -> pa.Table:
    import pyarrow.compute as pc

    numbers, _ = number_values(rows["consumer"])
    arrays = {name: rows[f"{MARK}{name}"].to_numpy() for name in ("producer_rate", "consumer_rate")}
    own = {name: rows[f"{MARK}{name}"].to_numpy() for name in ("H", "L") if f"{MARK}{name}" in rows.column_names}
    ahead, costs = rules({"event_rate": arrays["producer_rate"], "query_rate": arrays["consumer_rate"], **own}, numbers)
    decision = pc.if_else(pa.array(ahead), "push", "pull")
    result = rows.select(kept).append_column("decision", decision)
    for cost in COSTS:
        result = result.append_column(f"{MARK}{cost}", pa.array(costs[cost]))
    return result
