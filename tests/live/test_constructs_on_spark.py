"""Examples of the table of SQL constructs answer as Spark does, in the same types."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.declare.constructs.construct import TABLES, Construct, HowKept
from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.relation import fields_of
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.testing.engines import difference
from headrace.testing.tables import POOLS
from tests.declare.sample_tables import ALL_CONSTRUCTS, SAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 11
NOW = dt.datetime(2024, 3, 3)


@pytest.fixture(scope="module")
def filled(spark: SparkSession) -> Iterator[dict[str, ZSet]]:
    choose = random.Random(SEED).choice
    finite = {type_: [*(v for v in pool if v == v and v != float("inf")), None] for type_, pool in POOLS.items()}
    rows = {
        name: [tuple(choose(finite[type_]) for type_ in columns.values()) for _ in range(14)]
        for name, columns in TABLES.items()
    }
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    for name, columns in TABLES.items():
        spark.createDataFrame(arrow_table(columns, rows[name])).createOrReplaceTempView(name)
    yield {name: ZSet.of(found) for name, found in rows.items()}
    spark.conf.unset("spark.sql.codegen.wholeStage")
    for name in TABLES:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize(
    "construct", [one for one in ALL_CONSTRUCTS if one.kept is HowKept.INCREMENTALLY], ids=lambda one: one.name
)
def test_an_example_means_what_spark_says(spark: SparkSession, filled: dict[str, ZSet], construct: Construct):
    relation = read_query(construct.example, SAMPLES)
    frame = spark.sql((construct.in_spark or construct.example).replace("now()", f"TIMESTAMP '{NOW}'"))
    ours = [(field.name.casefold(), str(field.type)) for field in fields_of(relation)]
    assert ours == [(name.casefold(), type_) for name, type_ in frame.dtypes]
    answer = evaluate(relation, filled, NOW).rows()
    assert construct.is_open or difference(rows_of_arrow(frame.toArrow()), answer) is None


@pytest.mark.parametrize(
    "construct", [one for one in ALL_CONSTRUCTS if one.kept is HowKept.IN_FULL], ids=lambda one: one.name
)
def test_spark_can_run_an_example_that_is_refreshed_in_full(
    spark: SparkSession, filled: dict[str, ZSet], construct: Construct
):
    assert spark.sql(construct.example).toArrow() is not None
