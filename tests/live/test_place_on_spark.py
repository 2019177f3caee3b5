"""Spark places tables as NumPy does: the same cost to the unit, the same place for every pair."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from headrace.app_place import TableRequest, place_table
from headrace.connect.tables.files import format_of
from headrace.model.errors import InputError
from headrace.plan.place.tables import settle_conflicts, uniform_star

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.connect.spark.place import Conflicts, Settlement, SparkPlacement

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


def on_spark(spark: SparkSession, file: Path, up: int, down: int, out: Path | None = None) -> SparkPlacement:
    from headrace.connect.spark.place import Prices, Settlement, place_on_spark

    def settle(conflicts: Conflicts) -> Settlement:
        settled = settle_conflicts(conflicts.ends, conflicts.contested, uniform_star(conflicts.devices, up, down)[0])
        return Settlement(settled.limit, settled.cost, settled.twice_bound, settled.method)

    return place_on_spark(spark, file, format_of(file), Prices(up, down), settle, out)


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
}


@pytest.mark.parametrize("case", CASES)
def test_spark_and_numpy_decide_alike(spark: SparkSession, tmp_path: Path, case: str):
    columns, up, down = CASES[case]
    file = write(tmp_path, columns)
    here, there = tmp_path / "numpy.parquet", tmp_path / "spark.parquet"
    expected = place_table(TableRequest(file, up, down, here))
    placed = on_spark(spark, file, up, down, there)
    assert placed.cost == expected.outcome.cost * placed.scale
    assert placed.twice_bound == 2 * expected.outcome.lower_bound * placed.scale
    assert placed.all_cloud_cost == expected.outcome.all_cloud_cost * placed.scale
    assert (placed.devices, placed.pairs, placed.on_devices, placed.method) == (
        *(expected.devices, expected.pairs, expected.on_devices, expected.outcome.method),
    )
    assert places(there) == places(here)


def test_names_in_a_csv_are_text_for_both_engines(spark: SparkSession, tmp_path: Path):
    columns = skewed(7, 40, 500, scale=None)
    columns |= {name: [f"u{number:03}" for number in columns[name]] for name in ("a", "b")}
    file = write(tmp_path, columns, "csv")
    expected = place_table(TableRequest(file, 2, 1))
    assert on_spark(spark, file, 2, 1).cost == expected.outcome.cost * 1_000_000


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
        on_spark(spark, file, 1, 1)
    assert message in str(caught.value)
    with pytest.raises(InputError):
        place_table(TableRequest(file, 1, 1))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_of_two_workers_decides_as_numpy_does(tmp_path: Path):
    """A real standalone cluster: a master and two workers, each a process, and the command as people call it."""
    file = write(tmp_path, skewed(8, 500, 10_000))
    here, there = tmp_path / "numpy.parquet", tmp_path / "spark.parquet"
    with cluster(tmp_path) as (master, work_folders):
        answers = [
            _answer("place", file, "--up", 5, "--down", 1, "--out", here),
            _answer("place", file, "--up", 5, "--down", 1, "--out", there, "--engine", "spark", "--master", master),
        ]
        ran = [any(folder.glob("app-*")) for folder in work_folders]
    assert ran == [True, True], "both workers took part"
    for answer in answers:
        answer.pop("seconds")
    assert answers[0] == answers[1]
    assert answers[0]["optimal"]
    assert places(there) == places(here)


def _answer(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "headrace", *map(str, arguments), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """A master and two workers on this machine; their address, and the folders in which workers keep applications."""
    import pyspark

    from headrace.connect.spark.java import ensure_java

    ensure_java()
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    started: list[tuple[subprocess.Popen[str], threading.Thread]] = []

    def start(kind: str, says: str, *arguments: str) -> str:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        process = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert process.stderr is not None
        # Somebody has to read the rest of its log, or it stops when the pipe is full.
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        started.append((process, reader))
        said = _wait_for(process.stderr, says)
        reader.start()
        return said

    try:
        said = r"Starting Spark master at (spark://\S+)"
        address = start("master.Master", said, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        works = [folder / f"worker{number}" for number in (1, 2)]
        for work in works:
            options = ("-c", "1", "-m", "1g", "-d", str(work), "--webui-port", "0")
            start("worker.Worker", "(Successfully registered with master)", address, *options)
        yield address, works
    finally:
        for process, _ in reversed(started):
            process.terminate()
        for process, reader in started:
            process.wait(timeout=60)
            if reader.is_alive():
                reader.join(timeout=60)
            assert process.stderr is not None
            process.stderr.close()


def _wait_for(log: IO[str], pattern: str) -> str:
    """Reads a log until it says something."""
    for line in log:
        found = re.search(pattern, line)
        if found:
            return found[1]
    raise AssertionError(f"ended before it said {pattern!r}")
