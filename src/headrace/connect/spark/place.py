"""Places a table of pairs with Spark: every device's upload limit by window functions, so that tables may exceed one
machine.

The same decisions as `plan.place.threshold` makes. What two devices both want is collected (it is little: a
thousandth of the views for realistic rates) and settled by the function that is passed in; its new limits go back as
a small table.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from headrace.connect.spark.pair_rates import RATE_AB, RATE_BA, read_rates
from headrace.connect.tables.files import Format
from headrace.connect.tables.output import merge_parts

BROADCAST_DEVICES = 2_000_000
PARTITIONS = 16
LOCAL = "local thresholds"


@dataclass(frozen=True, slots=True)
class RatePrices:
    """Per unit of rate, as integers."""

    up: int
    down: int


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Devices in conflict, numbered in the order of their names.

    `ends`: device, own rate and added download of all their views. `contested`: the two devices that want a view, and
    their own rates.
    """

    devices: int
    ends: tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]
    contested: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Settlement:
    """New limits of the devices in conflict, in their order; what they pay; twice a lower bound of that; the method."""

    limit: NDArray[Any]
    cost: int
    twice_bound: int
    method: str


Settle = Callable[[Conflicts], Settlement]


@dataclass(frozen=True, slots=True)
class SparkPlacement:
    """Costs in integers: rates times `scale`, times the integer prices."""

    cost: int
    twice_bound: int
    all_cloud_cost: int
    scale: int
    devices: int
    pairs: int
    on_devices: int
    method: str


def place_on_spark(
    session: SparkSession, file: Path, form: Format, prices: RatePrices, settle: Settle, out: Path | None
) -> SparkPlacement:
    """Decides every row of a table and writes it, with a further column `at`, to one file."""
    table, scale = read_rates(session, file, form, prices.up + prices.down)
    ends = _ends(table).persist()
    limits = _own_limits(ends, prices).persist()
    devices, cost, all_cloud_cost = _totals(limits)
    contested = (
        _wanted(table, limits, devices).where("wants_a AND wants_b").select("a", "b", RATE_AB, RATE_BA).toArrow()
    )
    settled, of_these = Settlement(np.empty(0, np.int64), 0, 0, LOCAL), 0
    if contested.num_rows:
        names = _names(contested)
        settled = settle(_collected(session, contested, names, ends))
        of_these = _cost_of(session, limits, names)
        limits = _with_new_limits(session, limits, names, settled.limit).persist()
    placed = _placed(table, limits, devices).persist()
    pairs, on_devices = _counts(placed)
    if out is not None:
        _write(placed.drop(RATE_AB, RATE_BA), out)
    return SparkPlacement(
        cost=cost - of_these + settled.cost,
        twice_bound=2 * (cost - of_these) + settled.twice_bound,
        all_cloud_cost=all_cloud_cost,
        scale=scale,
        devices=devices,
        pairs=pairs,
        on_devices=on_devices,
        method=settled.method,
    )


def _ends(table: DataFrame) -> DataFrame:
    """Both ends of every view: the device, its own rate, and what running the view there adds to its downloads."""
    pairs = table.select("a", "b", RATE_AB, RATE_BA)
    one = pairs.select(
        fn.col("a").alias("device"),
        fn.col("b").alias("partner"),
        fn.col(RATE_AB).alias("own"),
        fn.col(RATE_BA).alias("down"),
    )
    other = pairs.select(
        fn.col("b").alias("device"),
        fn.col("a").alias("partner"),
        fn.col(RATE_BA).alias("own"),
        fn.col(RATE_AB).alias("down"),
    )
    ends = one.unionAll(other)
    if _has_repeated_pairs(pairs):
        ends = _only_what_is_added(ends)
    return ends.select("device", "own", "down").repartition(PARTITIONS, "device")


def _has_repeated_pairs(pairs: DataFrame) -> bool:
    counted = pairs.groupBy(fn.least("a", "b"), fn.greatest("a", "b")).count()
    return not counted.where("count > 1").isEmpty()


def _only_what_is_added(ends: DataFrame) -> DataFrame:
    """Views of one pair share a download: from the highest own rate down, each adds what it needs beyond the earlier
    ones.
    """
    distinct = ends.groupBy("device", "partner", "own").agg(fn.max("down").alias("down"))
    earlier = Window.partitionBy("device", "partner").orderBy(fn.desc("own")).rowsBetween(Window.unboundedPreceding, -1)
    before = fn.coalesce(fn.max("down").over(earlier), fn.lit(0).cast(_type_of(ends, "down")))
    return distinct.select("device", "own", (fn.greatest("down", before) - before).alias("down"))


def _own_limits(ends: DataFrame, prices: RatePrices) -> DataFrame:
    """Each device's cheapest upload limit (the largest among equals), its cost, and that of uploading for all views."""
    number = _type_of(ends, "own")
    up, down = fn.lit(prices.up).cast(number), fn.lit(prices.down).cast(number)
    fastest_first = Window.partitionBy("device").orderBy(fn.desc("own"))
    steps = ends.groupBy("device", "own").agg(fn.sum("down").cast(number).alias("down"))
    so_far = fn.sum("down").over(fastest_first.rowsBetween(Window.unboundedPreceding, 0)).cast(number)
    lower = fn.coalesce(fn.lead("own").over(fastest_first), fn.lit(0).cast(number))
    choices = steps.select("device", "own", lower.alias("lower"), so_far.alias("fetched")).select(
        "device", "own", "lower", (up * fn.col("lower") + down * fn.col("fetched")).cast(number).alias("cost")
    )
    best = choices.groupBy("device").agg(
        fn.max("own").alias("fastest"), fn.min(fn.struct("cost", (-fn.col("lower")).alias("minus_lower"))).alias("best")
    )
    all_cloud = (up * fn.col("fastest")).cast(number)
    stays = all_cloud <= fn.col("best.cost")
    return best.select(
        "device",
        fn.when(stays, fn.col("fastest")).otherwise(-fn.col("best.minus_lower")).cast(number).alias("limit"),
        fn.when(stays, all_cloud).otherwise(fn.col("best.cost")).alias("cost"),
        all_cloud.alias("all_cloud"),
    )


def _totals(limits: DataFrame) -> tuple[int, int, int]:
    """Devices, their cost, and the cost of everything in the Cloud."""
    row = limits.agg(
        fn.count("*"), fn.sum(fn.col("cost").cast("decimal(38,0)")), fn.sum(fn.col("all_cloud").cast("decimal(38,0)"))
    ).first()
    assert row is not None
    return row[0], int(row[1] or 0), int(row[2] or 0)


def _wanted(table: DataFrame, limits: DataFrame, devices: int) -> DataFrame:
    """The table with whether each of its two devices wants to run the view."""

    def of(end: str) -> DataFrame:
        part = limits.select(fn.col("device").alias(end), fn.col("limit").alias(f"limit_{end}"))
        return fn.broadcast(part) if devices < BROADCAST_DEVICES else part

    joined = table.join(of("a"), "a").join(of("b"), "b")
    return joined.withColumns(
        {"wants_a": fn.col(RATE_AB) > fn.col("limit_a"), "wants_b": fn.col(RATE_BA) > fn.col("limit_b")}
    )


def _placed(table: DataFrame, limits: DataFrame, devices: int) -> DataFrame:
    kept = [name for name in table.columns if name != "at"]
    at = fn.when(fn.col("wants_a"), "a").when(fn.col("wants_b"), "b").otherwise("cloud")
    return _wanted(table, limits, devices).select(*kept, at.alias("at"))


def _counts(placed: DataFrame) -> tuple[int, int]:
    row = placed.agg(fn.count("*"), fn.count_if(fn.col("at") != "cloud")).first()
    assert row is not None
    return row[0], row[1]


# What two devices both want


def _names(contested: pa.Table) -> pa.Array:
    """The devices of contested views, in their order."""
    both = pa.chunked_array([*contested["a"].chunks, *contested["b"].chunks]).unique()
    return both.take(pc.array_sort_indices(both))


def _collected(session: SparkSession, contested: pa.Table, names: pa.Array, ends: DataFrame) -> Conflicts:
    found = ends.join(_broadcast_names(session, names), "device", "left_semi").toArrow()

    def number(column: pa.ChunkedArray) -> NDArray[np.int64]:
        return np.asarray(pc.index_in(column, value_set=names).to_numpy(), dtype=np.int64)

    return Conflicts(
        len(names),
        (number(found["device"]), _integers(found["own"]), _integers(found["down"])),
        (number(contested["a"]), number(contested["b"]), _integers(contested[RATE_AB]), _integers(contested[RATE_BA])),
    )


def _integers(column: pa.ChunkedArray) -> NDArray[Any]:
    """int64, or Python integers where decimals were needed."""
    values: NDArray[Any] = column.to_numpy()
    if values.dtype == np.int64:
        return values
    return np.array([int(value) for value in values] + [None], dtype=object)[:-1]


def _broadcast_names(session: SparkSession, names: pa.Array) -> DataFrame:
    return fn.broadcast(session.createDataFrame(pa.table({"device": names})))


def _cost_of(session: SparkSession, limits: DataFrame, names: pa.Array) -> int:
    """What some devices would pay for their own optimum."""
    return _totals(limits.join(_broadcast_names(session, names), "device", "left_semi"))[1]


def _with_new_limits(session: SparkSession, limits: DataFrame, names: pa.Array, new: NDArray[Any]) -> DataFrame:
    number = _type_of(limits, "limit")
    texts = pa.array([str(limit) for limit in new.tolist()])
    raised = session.createDataFrame(pa.table({"device": names, "raised": texts}))
    joined = limits.join(fn.broadcast(raised), "device", "left")
    limit = fn.coalesce(fn.col("raised").cast(number), fn.col("limit")).alias("limit")
    return joined.select("device", limit, "cost", "all_cloud")


# Output


def _write(placed: DataFrame, out: Path) -> None:
    """Spark writes a folder of parts; people asked for a file."""
    parts = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent))
    try:
        # Workers of a cluster may run as another user.
        parts.chmod(0o777)
        placed.write.mode("append").parquet(str(parts))
        merge_parts(sorted(parts.glob("part-*.parquet")), out)
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def _type_of(frame: DataFrame, column: str) -> str:
    return dict(frame.dtypes)[column]
