"""Queries of an audit over files, on Spark, against the reference."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as Number
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.connect.spark.evaluate import ParquetTable
from headrace.connect.spark.evaluate_files import FileEvaluator
from headrace.connect.tables.parts import read_parts, write_parts
from headrace.declare.read import read_project
from headrace.model.errors import EvaluationError
from headrace.model.full_query import FullQuery
from headrace.model.relation import Relation, fields_of
from headrace.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Array, Decimal, Row, Type
from headrace.run.push.evaluate_here import rows_here
from headrace.run.rows.arrow import arrow_table, arrow_type, rows_of_arrow
from headrace.run.rows.same_rows import differing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = """
project: shop
sites: {us: {}}
sources:
  sales:
    kind: table
    at: us
    key: [id]
    rows: 10
    columns: {id: bigint, Shop: string, price: double, exact: "decimal(12,2)", at: timestamp, day: date, open: boolean,
              tags: "array<string>"}
contracts:
  ranked: {view: ranked, at: us, freshness: 1 min, refresh: full}
"""
T = 1_700_000_000_000_000
COLUMNS: tuple[tuple[str, Type], ...] = (
    ("id", BIGINT),
    ("Shop", STRING),
    ("price", DOUBLE),
    ("exact", Decimal(12, 2)),
    ("at", TIMESTAMP),
    ("day", DATE),
    ("open", BOOLEAN),
    ("tags", Array(STRING)),
)
UNDERSTOOD = {
    "everything": "SELECT * FROM sales",
    "counted": "SELECT count(*) AS n FROM sales",
    "takings": "SELECT Shop, day, count(*) AS n, sum(price) AS p, sum(exact) AS e FROM sales GROUP BY Shop, day",
    "pairs": "SELECT a.id, b.id AS other FROM sales a JOIN sales b ON a.Shop = b.Shop AND a.id < b.id",
}
RANKED = """SELECT id, Shop, row_number() OVER (PARTITION BY Shop ORDER BY day) AS place,
    regr_count(id, id) OVER () AS n FROM sales"""


def sale(n: int) -> Row:
    return (
        n,
        None if n % 7 == 0 else f"shop {n % 7}",
        float("nan") if n % 11 == 0 else n / 3,
        Number(n) / 4,
        dt.datetime(2026, 1, 1, 0, 0, n % 60, n),
        dt.date(2026, 1, 1 + n % 3),
        n % 2 == 0 or None,
        None if n % 5 == 0 else ("a", None, f"{n}"),
    )


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, ParquetTable]:
    rows = [sale(n) for n in range(1, 201)]
    types = {f"c{position}": type_ for position, (_, type_) in enumerate(COLUMNS)}
    whole = arrow_table(types, rows)
    write_parts(tmp_path / "sales.parquet", whole.schema, [whole.slice(0, 90), whole.slice(90)])
    return {"sales": ParquetTable(tmp_path / "sales.parquet", COLUMNS)}


def query_of(folder: Path, sql: str, name: str = "ranked") -> Relation | FullQuery:
    (folder / "headrace.yml").write_text(PROJECT)
    (folder / "views").mkdir(exist_ok=True)
    (folder / "views" / "ranked.sql").write_text(RANKED)
    (folder / "views" / f"{name}.sql").write_text(sql)
    view = read_project(folder, {}, None).views[name]
    found = view.query if isinstance(view.query, Relation) else view.recomputed
    assert isinstance(found, Relation | FullQuery)
    return found


def evaluate(
    spark: SparkSession, folder: Path, query: Relation | FullQuery, tables: dict[str, ParquetTable]
) -> list[Row]:
    FileEvaluator(spark).evaluate(query, tables, T, folder / "answer")
    fields = query.fields if isinstance(query, FullQuery) else fields_of(query)
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in fields])
    return [row for part in read_parts(folder / "answer", schema) for row in rows_of_arrow(part)]


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_an_answer_over_files_is_that_of_the_reference(
    tmp_path: Path, spark: SparkSession, tables: dict[str, ParquetTable], name: str
) -> None:
    query = query_of(tmp_path, UNDERSTOOD[name], name)
    assert isinstance(query, Relation)
    schema = pa.schema([(f"sales.{column}", arrow_type(type_)) for column, type_ in COLUMNS])
    here = {"sales": pa.concat_tables(read_parts(tables["sales"].path, schema))}
    expected = list(rows_here(query, here, T, ()))
    assert expected
    assert differing(expected, evaluate(spark, tmp_path, query, tables)) == ([], [])


def test_a_query_that_only_spark_knows_sees_rows_in_one_order(
    tmp_path: Path, spark: SparkSession, tables: dict[str, ParquetTable]
) -> None:
    """Days are the same for many rows: what comes first among them is left open, and must not change."""
    query = query_of(tmp_path, RANKED)
    assert isinstance(query, FullQuery) and query.query is None
    found = {row[0]: row[2] for row in evaluate(spark, tmp_path, query, tables)}
    sales = [row for row in (sale(n) for n in range(1, 201)) if row[1] == "shop 1"]
    in_order = sorted(sales, key=lambda row: (row[5], str(row[1]), row[4]))
    assert [found[row[0]] for row in in_order] == list(range(1, len(in_order) + 1))


def test_a_row_without_an_answer_is_said_in_one_line(
    tmp_path: Path, spark: SparkSession, tables: dict[str, ParquetTable]
) -> None:
    query = query_of(tmp_path, "SELECT id, 1 / (id - 7) AS x FROM sales", "bad")
    with pytest.raises(EvaluationError, match="division by zero") as raised:
        evaluate(spark, tmp_path, query, tables)
    assert "\n" not in str(raised.value)
