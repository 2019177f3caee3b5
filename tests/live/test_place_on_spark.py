"""Spark places tables as NumPy does: the same cost to the unit, the same place for every pair."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from headrace.app.placing import TableRequest, place_table
from headrace.connect.tables.files import format_of
from headrace.model.errors import InputError
from headrace.plan.place.tables import UniformRules
from tests.live.standalone_cluster import answer_of, cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.connect.spark.place import PlaceRules, SparkPlacement

Columns = dict[str, Any]


def skewed(seed: int, devices: int, pairs: int, scale: float | None = 1000.0) -> Columns:
    """Log-normal rates; without a scale they are fractions."""
    numbers = np.random.default_rng(seed)
    a, b = numbers.integers(0, devices, (2, pairs))
    a, b = a[a != b], b[a != b]
    rates = numbers.lognormal(0, 1.75, (2, len(a)))
    if scale is not None:
        rates = np.rint(rates * scale).astype(np.int64)
    return {"a": a, "b": b, "rate_ab": rates[0], "rate_ba": rates[1]}


def write(folder: Path, columns: Columns, form: str = "parquet") -> Path:
    file = folder / f"pairs.{form}"
    table = pa.table(columns)
    pq.write_table(table, file) if form == "parquet" else csv.write_csv(table, file)
    return file


def on_spark(spark: SparkSession, file: Path, rules: PlaceRules, out: Path | None = None) -> SparkPlacement:
    from headrace.connect.spark.place import place_on_spark

    return place_on_spark(spark, file, format_of(file), rules, out)


def places(file: Path) -> list[tuple[Any, ...]]:
    table = pq.read_table(file)
    return sorted(zip(*(map(str, table[name].to_pylist()) for name in table.column_names), strict=True))


CASES: dict[str, tuple[Columns, int, int]] = {
    "uploads cheaper": (skewed(1, 300, 4000), 1, 2),
    "uploads dearer, with conflicts": (skewed(2, 300, 4000), 5, 1),
    "fractions": (skewed(3, 300, 4000, scale=None), 5, 1),
    "many views per pair": (skewed(4, 25, 3000), 3, 1),
    "few distinct rates": (skewed(5, 200, 3000, scale=1.0), 2, 1),
    "sums beyond 64 bits": (skewed(6, 60, 800, scale=1e15), 5, 1),
    "prices beyond 64 bits": (skewed(9, 60, 800), 5 * 10**25, 10**25),
}


QUICK = ("uploads dearer, with conflicts", "fractions", "sums beyond 64 bits")


@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.long) for case in CASES]
)
def test_spark_and_numpy_decide_alike(spark: SparkSession, tmp_path: Path, case: str):
    columns, up, down = CASES[case]
    file = write(tmp_path, columns)
    here, there = tmp_path / "numpy.parquet", tmp_path / "spark.parquet"
    expected = place_table(TableRequest(file, up, down, here))
    placed = on_spark(spark, file, UniformRules(up, down), there)
    assert placed.cost == expected.outcome.cost * placed.scale
    assert placed.twice_bound == 2 * expected.outcome.lower_bound * placed.scale
    assert placed.all_cloud_cost == expected.outcome.all_cloud_cost * placed.scale
    assert (placed.devices, placed.pairs, placed.on_devices, placed.method) == (
        *(expected.devices, expected.pairs, expected.on_devices, expected.outcome.method),
    )
    assert places(there) == places(here)


@dataclass(frozen=True)
class FewOnDevices(UniformRules):
    """Rules of somebody else: only views that need more than a rate run on devices."""

    least: int = 3000

    def runs_on_device(self, rate: Any, limit: Any) -> Any:
        return rate > self.least


def test_spark_decides_by_the_rules_that_it_is_given(spark: SparkSession, tmp_path: Path):
    file = write(tmp_path, {"a": ["x", "y"], "b": ["y", "z"], "rate_ab": [2000, 4000], "rate_ba": [1, 2]})
    usual = on_spark(spark, file, UniformRules(1, 1), tmp_path / "usual.parquet")
    others = on_spark(spark, file, FewOnDevices(1, 1), tmp_path / "others.parquet")
    assert (usual.on_devices, others.on_devices) == (2, 1)


def test_names_in_a_csv_are_text_for_both_engines(spark: SparkSession, tmp_path: Path):
    columns = skewed(7, 40, 500, scale=None)
    columns |= {name: [f"u{number:03}" for number in columns[name]] for name in ("a", "b")}
    file = write(tmp_path, columns, "csv")
    expected = place_table(TableRequest(file, 2, 1))
    assert on_spark(spark, file, UniformRules(2, 1)).cost == expected.outcome.cost * 1_000_000


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"a": ["x", "y"], "b": ["x", "z"]}, "a device is paired with itself (a x, b x, rate_ab 1, rate_ba 3)"),
        ({"rate_ab": [1, -2]}, 'a rate of column "rate_ab" is negative'),
        ({"rate_ba": [1.5, float("nan")]}, 'a rate of column "rate_ba" is not finite'),
        ({"rate_ba": [1.5, float("inf")]}, 'a rate of column "rate_ba" is not finite'),
        ({"rate_ab": [1, None]}, 'a value of column "rate_ab" is missing'),
        ({"a": ["cloud", "x"]}, '"cloud" is reserved'),
        ({"rate_ab": ["1", "2"]}, "not numbers"),
    ],
)
def test_spark_refuses_what_numpy_refuses(spark: SparkSession, tmp_path: Path, wrong: Columns, message: str):
    file = write(tmp_path, {"a": ["x", "y"], "b": ["y", "z"], "rate_ab": [1, 2], "rate_ba": [3, 4], **wrong})
    with pytest.raises(InputError) as caught:
        on_spark(spark, file, UniformRules(1, 1))
    assert message in str(caught.value)
    with pytest.raises(InputError):
        place_table(TableRequest(file, 1, 1))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_cluster_of_two_workers_decides_as_numpy_does(tmp_path: Path):
    """A real standalone cluster: a master and two workers, each a process, and the command as people call it."""
    file = write(tmp_path, skewed(8, 500, 10_000))
    here, there = tmp_path / "numpy.parquet", tmp_path / "spark.parquet"
    with cluster(tmp_path) as (master, work_folders):
        answers = [
            answer_of("place", file, "--up", 5, "--down", 1, "--out", here),
            answer_of("place", file, "--up", 5, "--down", 1, "--out", there, "--engine", "spark", "--master", master),
        ]
        ran = [any(folder.glob("app-*")) for folder in work_folders]
    assert ran == [True, True], "both workers took part"
    for answer in answers:
        answer.pop("seconds")
    assert answers[0] == answers[1]
    assert answers[0]["optimal"]
    assert places(there) == places(here)


SOONER = """
import sys
from headrace.connect.spark import executors
from headrace.doors.cli import main
executors.needing_executors.__wrapped__.__defaults__ = (15.0,)
sys.exit(main.run(sys.argv[1:]))
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_cluster_without_room_for_an_executor_is_named_after_a_while(tmp_path: Path):
    file = write(tmp_path, skewed(8, 50, 100))
    with cluster(tmp_path, memory="512m") as (master, _):
        words = ["place", str(file), "--up", "5", "--down", "1", "--engine", "spark", "--master", master]
        ran = subprocess.run([sys.executable, "-c", SOONER, *words], capture_output=True, text=True, timeout=600)
    assert ran.returncode != 0 and "Traceback" not in ran.stderr
    assert f'"{master}" gave us no executor with 1g of memory within 15 s' in " ".join(ran.stderr.split())
    assert "hint: look at the cluster's page" in ran.stderr
