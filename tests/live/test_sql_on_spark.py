"""Spark is the authority on what a query means: our reading of it has the same types and, evaluated, the same rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.relation import fields_of
from headrace.model.types import Row
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.testing.engines import difference
from headrace.testing.tables import POOLS, SCHEMA
from tests.queries.schemas import NEXMARK, TPCH, queries, understood

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[3] / "shared" / "data" / "tpch"
SEED = 5


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    """A dozen rows for each source, with NULLs; without NaN and infinity, which few of the queries can add."""
    choose = random.Random(SEED).choice
    finite = {type_: [*(v for v in pool if v == v and v != float("inf")), None] for type_, pool in POOLS.items()}
    return {
        name: [tuple(choose(finite[column.type]) for column in source.columns or ()) for _ in range(14)]
        for name, source in SCHEMA.items()
    }


@pytest.fixture(scope="module")
def tables(spark: SparkSession, rows: dict[str, list[Row]]) -> Iterator[dict[str, ZSet]]:
    # Generating code takes longer than running these queries.
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    for name, source in SCHEMA.items():
        columns = {column.name: column.type for column in source.columns or ()}
        spark.createDataFrame(arrow_table(columns, rows[name])).createOrReplaceTempView(name)
    yield {name: ZSet.of(found) for name, found in rows.items()}
    spark.conf.unset("spark.sql.codegen.wholeStage")
    for name in SCHEMA:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("sql", understood())
def test_a_query_means_what_spark_says(spark: SparkSession, tables: dict[str, ZSet], sql: str):
    tree = read_query(sql, SCHEMA)
    frame = spark.sql(sql)
    ours = [(field.name.casefold(), str(field.type)) for field in fields_of(tree)]
    assert ours == [(name.casefold(), type_) for name, type_ in frame.dtypes]
    assert difference(rows_of_arrow(frame.toArrow()), evaluate(tree, tables).rows()) is None


@pytest.mark.parametrize(("benchmark", "sources"), [("tpch", TPCH), ("nexmark", NEXMARK)])
def test_results_of_benchmarks_have_the_types_that_spark_gives_them(spark: SparkSession, benchmark: str, sources):
    for name, source in sources.items():
        columns = {column.name: column.type for column in source.columns}
        spark.createDataFrame(arrow_table(columns, [])).createOrReplaceTempView(name)
    for name, sql in queries(benchmark).items():
        ours = [(field.name, str(field.type)) for field in fields_of(read_query(sql, sources))]
        assert ours == spark.sql(sql).dtypes, name
    for name in sources:
        spark.catalog.dropTempView(name)


@pytest.mark.long
@pytest.mark.skipif(not DATA.exists(), reason="needs the TPC-H data beside the project")
def test_tpch_has_the_rows_that_spark_gives_it(spark: SparkSession):
    tables = {}
    for name in TPCH:
        spark.read.parquet(str(DATA / f"{name}.parquet")).createOrReplaceTempView(name)
        tables[name] = ZSet.of(rows_of_arrow(pq.read_table(DATA / f"{name}.parquet")))
    for name, sql in queries("tpch").items():
        expected = rows_of_arrow(spark.sql(sql).toArrow())
        assert difference(expected, evaluate(read_query(sql, TPCH), tables).rows()) is None, name
    for name in TPCH:
        spark.catalog.dropTempView(name)
