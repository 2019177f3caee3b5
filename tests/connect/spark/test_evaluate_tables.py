"""Queries of an audit, on Spark and in one process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.connect.spark.evaluate_tables import evaluate_tables
from headrace.declare.read import read_project
from headrace.model.relation import Relation
from headrace.run.push.evaluate_here import rows_here
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.same_rows import differing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = """
project: shop
sites: {us: {}}
sources:
  sales: {kind: table, at: us, key: [id], columns: {id: bigint, shop: string, price: double}, rows: 10}
"""
QUERY = "SELECT shop, count(*) AS sales, sum(price) AS price FROM sales WHERE id > 2 GROUP BY shop"


def test_spark_and_this_process_agree_on_tables_that_are_here(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # others use the common one at the same time
    (tmp_path / "headrace.yml").write_text(PROJECT)
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "takings.sql").write_text(QUERY)
    query = read_project(tmp_path, {}, None).views["takings"].query
    assert isinstance(query, Relation)
    numbers = range(1, 1001)
    sales = pa.table(
        {
            "sales.id": pa.array(numbers, pa.int64()),
            "sales.shop": pa.array([None if n % 7 == 0 else f"shop {n % 7}" for n in numbers]),
            "sales.price": pa.array([n / 3 for n in numbers]),
        }
    )
    found = rows_of_arrow(evaluate_tables(spark, query, {"sales": sales}, 1_000_000, {}))
    assert len(found) == 7
    assert differing(rows_here(query, {"sales": sales}, 1_000_000, ()), found) == ([], [])
    assert not list(tmp_path.glob("headrace-tables-*"))
