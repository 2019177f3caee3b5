"""Spark decides follows as one process does, under every price model, and refuses the same tables."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from headrace.connect.spark.feeds import SparkFeedsResult, decide_follows
from headrace.connect.spark.follow_rates import FollowFiles
from headrace.connect.tables.follows import read_follows
from headrace.model.errors import InputError
from headrace.plan.feeds.decide import decide
from headrace.plan.feeds.instance import Model, Pricing
from headrace.plan.feeds.tables import DefaultPrices, decide_rows, feeds_from_columns
from tests.live.standalone_cluster import answer_of, cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write(file: Path, columns: dict[str, Any]) -> Path:
    table = pa.table(columns)
    csv.write_csv(table, file) if file.suffix == ".csv" else pq.write_table(table, file)
    return file


def random_tables(folder: Path, seed: int, form: str = "parquet") -> FollowFiles:
    """Rates from few values, so that many pairs tie; consumers of very different sizes; prices of their own."""
    rng = np.random.default_rng(seed)
    values = np.array([0.0, 0.1, 0.3, 1 / 3, 1.0, 2.5, 3.0, 40.0])
    keys = rng.permutation(np.unique((200 * rng.random(4000) ** 3).astype(int) * 50 + rng.integers(0, 50, 4000)))
    producers = [f"p{n}" for n in range(50)]
    consumers = [f"c{n}" for n in range(200)]
    return FollowFiles(
        write(
            folder / f"f.{form}",
            {
                "consumer": [consumers[k // 50] for k in keys],
                "producer": [producers[k % 50] for k in keys],
                "since": keys % 7,
            },
        ),
        write(
            folder / f"p.{form}",
            {"producer": producers, "rate": rng.choice(values, 50), "L": rng.choice([1.0, 0.5, 2.0], 50)},
        ),
        write(folder / f"c.{form}", {"consumer": consumers, "rate": rng.choice(values, 200)}),
    )


def prices(model: Model) -> DefaultPrices:
    return DefaultPrices(Fraction(3), Fraction(1), Pricing(model, Fraction(1, 2), 5))


def by_spark(spark: SparkSession, files: FollowFiles, model: Model, out: Path | None) -> SparkFeedsResult:
    pricing = prices(model)
    return decide_follows(spark, files, partial(decide_rows, prices=pricing), not pricing.pricing.is_per_pair, out)


@pytest.mark.parametrize(
    ("model", "form"),
    [
        (Model.RPC, "parquet"),
        (Model.BATCH, "csv"),
        *(pytest.param(model, "parquet", marks=pytest.mark.long) for model in Model if model is not Model.RPC),
    ],
)
def test_spark_decides_as_one_process_does(spark: SparkSession, tmp_path: Path, model: Model, form: str):
    files = random_tables(tmp_path, 5, form)
    found = by_spark(spark, files, model, tmp_path / f"out.{form}")
    table = read_follows(files.follows, files.producers, files.consumers)
    feeds = feeds_from_columns(
        table.consumer, table.producer, table.query_rate, table.event_rate, prices(model), table.prices
    )
    decision = decide(feeds)
    rows = pq.read_table(tmp_path / f"out.{form}") if form == "parquet" else csv.read_csv(tmp_path / f"out.{form}")
    assert rows.column_names == ["consumer", "producer", "since", "decision"]
    decided = {(row["consumer"], row["producer"]): row["decision"] == "push" for row in rows.to_pylist()}
    assert len(decided) == rows.num_rows == found.pairs == len(feeds)
    expected = {
        (f"c{who}", f"p{whom}"): ahead
        for who, whom, ahead in zip(
            table.consumer.tolist(), table.producer.tolist(), decision.ahead.tolist(), strict=True
        )
    }
    assert decided == expected
    costs = (decision.cost, decision.all_ahead_cost, decision.all_on_read_cost)
    assert found.costs == pytest.approx(tuple(map(float, costs)), rel=1e-12)
    assert (found.stored_ahead, found.consumers, found.producers) == (int(decision.ahead.sum()), 200, 50)


GOOD: dict[str, dict[str, Any]] = {
    "f": {"consumer": ["c", "d"], "producer": ["p", "q"]},
    "p": {"producer": ["p", "q"], "rate": [1.0, 2.0]},
    "c": {"consumer": ["c", "d"], "rate": [1.0, 2.0]},
}


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("f", {"consumer": ["c"], "whom": ["p"]}, 'column "producer" is missing'),
        ("f", {"consumer": ["c"], "producer": ["x"]}, 'producer has no rate: producer "x"'),
        ("f", {"consumer": ["x"], "producer": ["p"]}, 'consumer has no rate: consumer "x"'),
        ("f", {"consumer": ["c", "c"], "producer": ["p", "p"]}, "followed twice by the same consumer"),
        ("f", {"consumer": ["c", None], "producer": ["p", "q"]}, 'column "consumer" lacks a value'),
        ("f", {"consumer": [1], "producer": ["p"]}, 'column "consumer" holds integers, but text in'),
        ("f", {"consumer": pa.array([], pa.string()), "producer": pa.array([], pa.string())}, "the table has no rows"),
        ("p", {"producer": ["p", "p"], "rate": [1.0, 2.0]}, 'producer is there twice: producer "p"'),
        ("p", {"producer": ["p", "q"], "rate": [1.0, -2.0]}, '"rate" is negative: producer "q"'),
        ("p", {"producer": ["p", "q"], "rate": [1.0, float("nan")]}, '"rate" is not finite: producer "q"'),
        ("c", {"consumer": ["c", "d"], "rate": ["1", "fast"]}, 'column "rate" lacks a number: consumer "d"'),
    ],
)
def test_spark_refuses_what_one_process_refuses(
    spark: SparkSession, tmp_path: Path, name: str, columns: dict[str, Any], message: str
):
    files = FollowFiles(*(write(tmp_path / f"{n}.parquet", columns if n == name else GOOD[n]) for n in "fpc"))
    with pytest.raises(InputError) as caught:
        by_spark(spark, files, Model.RPC, None)
    assert message in str(caught.value)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_cluster_of_two_workers_decides_as_one_process_does(tmp_path: Path):
    files = random_tables(tmp_path, 6)
    here, there = tmp_path / "numpy.parquet", tmp_path / "spark.parquet"
    tables = (files.follows, "--producers", files.producers, "--consumers", files.consumers)
    asked = ("feeds", "decide", *tables, "-H", 3, "-L", 1, "--L0", 0.5)
    with cluster(tmp_path) as (master, work_folders):
        one = answer_of(*asked, "--out", here)
        many = answer_of(*asked, "--out", there, "--engine", "spark", "--master", master)
        ran = [any(folder.glob("app-*")) for folder in work_folders]
    assert ran == [True, True], "both workers took part"
    assert many.pop("seconds") > 0 < one.pop("seconds")
    assert many == pytest.approx(one, rel=1e-12)
    order = [("consumer", "ascending"), ("producer", "ascending")]
    assert pq.read_table(there).sort_by(order) == pq.read_table(here).sort_by(order)
