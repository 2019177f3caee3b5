"""Places a table of pairs with Spark, so that tables may exceed one machine.

Spark holds the rows and brings all view ends of a device together. It decides nothing: the rules are passed in, and are
the functions that decide a table in one process. What two devices both want is collected (it is little: a thousandth of
the views for realistic rates) and settled here; the new limits go back as a small table.

    table -> view ends by device -> own limit of every device -> what two devices want -> settled limits -> places
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headrace.connect.spark.pair_rates import RATE_AB, RATE_BA, read_rates
from headrace.connect.spark.stretches import number_values, whole_values
from headrace.connect.tables.files import Format
from headrace.connect.tables.output import merge_parts

BROADCAST_DEVICES = 2_000_000
PARTITIONS = 16

Numbers = NDArray[Any]
EndArrays = tuple[NDArray[np.int64], NDArray[np.int64], Numbers, Numbers]
"""View ends: device, partner, the rate that the view needs of the device's own feed, and that of the partner's."""

ContestedArrays = tuple[NDArray[np.int64], NDArray[np.int64], Numbers, Numbers]
"""Views that two devices want: the devices, and their own rates."""


class DeviceLimits(Protocol):
    """Upload limits by device, what these devices pay together, and what they would with everything in the Cloud."""

    @property
    def limit(self) -> Numbers: ...
    @property
    def cost(self) -> int: ...
    @property
    def all_cloud_cost(self) -> int: ...


class Settlement(Protocol):
    """New limits of the devices in conflict, what they pay, twice a lower bound of that, and the price of what each
    would rather have.
    """

    @property
    def limit(self) -> Numbers: ...
    @property
    def cost(self) -> int: ...
    @property
    def twice_bound(self) -> int: ...
    @property
    def own_cost(self) -> int: ...
    @property
    def method(self) -> str: ...


class PlaceRules(Protocol):
    """What decides. Devices are numbered 0, 1, ..., and all view ends of each are given.

    Rules travel to the workers, so they must be importable there.
    """

    @property
    def words(self) -> tuple[str, str, str]:
        """The words for the places: in the Cloud, at a, at b."""

    @property
    def method(self) -> str:
        """How devices decide alone."""

    def own_limits(self, ends: EndArrays) -> DeviceLimits: ...
    def runs_on_device(self, rate: Any, limit: Any) -> Any: ...
    def settle(self, ends: EndArrays, contested: ContestedArrays) -> Settlement: ...


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
    session: SparkSession,
    file: Path,
    form: Format,
    rules: PlaceRules,
    out: Path | None,
    progress: Callable[[str], None] = lambda _: None,
) -> SparkPlacement:
    """Decides every row of a table and writes it, with a further column `at`, to one file."""
    table, scale = read_rates(session, file, form)
    ends = _ends(table).persist()
    limits = _own_limits(ends, rules).persist()
    devices, cost, all_cloud_cost = _totals(limits)
    twice_bound, method = 2 * cost, rules.method
    wanted = _mark_wanted(table, limits, devices, rules).where("wants_a AND wants_b")
    contested = wanted.select("a", "b", RATE_AB, RATE_BA).toArrow()
    if contested.num_rows:
        progress(f"settling {contested.num_rows:,} views that two devices want")
        names = _list_contested(contested)
        settled = rules.settle(*_collect_conflicts(session, contested, names, ends))
        limits = _with_new_limits(session, limits, names, settled.limit).persist()
        cost += settled.cost - settled.own_cost
        twice_bound += settled.twice_bound - 2 * settled.own_cost
        method = settled.method
    ends.unpersist()
    placed = _place_views(table, limits, devices, rules).persist()
    pairs, on_devices = _counts(placed, rules)
    if out is not None:
        _write(placed.drop(RATE_AB, RATE_BA), out)
    return SparkPlacement(cost, twice_bound, all_cloud_cost, scale, devices, pairs, on_devices, method)


# Every device alone


def _ends(table: DataFrame) -> DataFrame:
    """Both ends of every view, those of a device together."""

    def end(device: str, partner: str, own: str, rate: str) -> DataFrame:
        columns = {"device": device, "partner": partner, "own": own, "rate": rate}
        return table.select(*(fn.col(column).alias(name) for name, column in columns.items()))

    both = end("a", "b", RATE_AB, RATE_BA).unionAll(end("b", "a", RATE_BA, RATE_AB))
    return both.repartition(PARTITIONS, "device")


def _own_limits(ends: DataFrame, rules: PlaceRules) -> DataFrame:
    """A row for each device.

    Costs may exceed any type of Spark. So they are text, and are those of a whole stretch of devices, at its first.
    """
    device = StructField("device", ends.schema["device"].dataType)
    costs = (StructField(name, StringType()) for name in ("cost", "all_cloud_cost"))
    schema = StructType([device, StructField("limit", LongType()), *costs])
    return ends.sortWithinPartitions("device").mapInArrow(_decider(rules), schema)


def _decider(rules: PlaceRules) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in whole_values(batches, "device"):
            device, devices = number_values(rows["device"])
            partner, _ = number_values(rows["partner"])
            found = rules.own_limits((device, partner, rows["own"].to_numpy(), rows["rate"].to_numpy()))
            nothing = [None] * (len(devices) - 1)
            costs = (pa.array([str(cost), *nothing], pa.string()) for cost in (found.cost, found.all_cloud_cost))
            limit = pa.array(found.limit, pa.int64())
            yield pa.RecordBatch.from_arrays([devices, limit, *costs], ["device", "limit", "cost", "all_cloud_cost"])

    return decide


def _totals(limits: DataFrame) -> tuple[int, int, int]:
    """Devices, their cost, and the cost of everything in the Cloud."""
    row = limits.agg(fn.count("*"), fn.collect_list("cost"), fn.collect_list("all_cloud_cost")).first()
    assert row is not None
    return row[0], sum(map(int, row[1])), sum(map(int, row[2]))


# Places


def _mark_wanted(table: DataFrame, limits: DataFrame, devices: int, rules: PlaceRules) -> DataFrame:
    """The table with whether each of its two devices wants to run the view."""

    def limit_of(end: str) -> DataFrame:
        part = limits.select(fn.col("device").alias(end), fn.col("limit").alias(f"limit_{end}"))
        return fn.broadcast(part) if devices < BROADCAST_DEVICES else part

    joined = table.join(limit_of("a"), "a").join(limit_of("b"), "b")
    return joined.withColumns(
        {
            "wants_a": rules.runs_on_device(fn.col(RATE_AB), fn.col("limit_a")),
            "wants_b": rules.runs_on_device(fn.col(RATE_BA), fn.col("limit_b")),
        }
    )


def _place_views(table: DataFrame, limits: DataFrame, devices: int, rules: PlaceRules) -> DataFrame:
    kept = [name for name in table.columns if name != "at"]
    in_cloud, at_a, at_b = rules.words
    at = fn.when(fn.col("wants_a"), at_a).when(fn.col("wants_b"), at_b).otherwise(in_cloud)
    return _mark_wanted(table, limits, devices, rules).select(*kept, at.alias("at"))


def _counts(placed: DataFrame, rules: PlaceRules) -> tuple[int, int]:
    row = placed.agg(fn.count("*"), fn.count_if(fn.col("at") != rules.words[0])).first()
    assert row is not None
    return row[0], row[1]


# What two devices both want


def _list_contested(contested: pa.Table) -> pa.Array:
    """The devices of contested views, in their order."""
    both = pa.chunked_array([*contested["a"].chunks, *contested["b"].chunks]).unique()
    return both.take(pc.array_sort_indices(both))


def _collect_conflicts(
    session: SparkSession, contested: pa.Table, names: pa.Array, ends: DataFrame
) -> tuple[EndArrays, ContestedArrays]:
    """All view ends of the devices in conflict, and their contested views; devices are numbered as in `names`."""
    in_conflict = fn.broadcast(session.createDataFrame(pa.table({"device": names})))
    found = ends.join(in_conflict, "device", "left_semi").toArrow()

    def number(column: pa.ChunkedArray) -> NDArray[np.int64]:
        return np.asarray(pc.index_in(column, value_set=names).to_numpy(), dtype=np.int64)

    partner, _ = number_values(found["partner"])
    return (
        (number(found["device"]), partner, found["own"].to_numpy(), found["rate"].to_numpy()),
        (
            *(number(contested[end]) for end in ("a", "b")),
            *(contested[rate].to_numpy() for rate in (RATE_AB, RATE_BA)),
        ),
    )


def _with_new_limits(session: SparkSession, limits: DataFrame, names: pa.Array, new: Numbers) -> DataFrame:
    raised = session.createDataFrame(pa.table({"device": names, "raised": pa.array(new.tolist(), pa.int64())}))
    joined = limits.join(fn.broadcast(raised), "device", "left")
    return joined.select("device", fn.coalesce("raised", "limit").alias("limit"))


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
