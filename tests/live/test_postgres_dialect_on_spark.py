"""Queries written for PostgreSQL, converted to Spark's dialect, mean to Spark what they mean to us."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from headrace.declare.sql import ViewText, convert_view, read_query
from headrace.meaning.evaluate import evaluate
from headrace.model.dialect import SqlDialect
from headrace.model.errors import EvaluationError, UnsupportedSql
from headrace.model.relation import fields_of
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.testing import SCHEMA, Tables, tables
from headrace.testing.engines import difference
from tests.live.agreement import QUICK, columns_of
from tests.queries.schemas import postgres_only, postgres_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Has tables of its own: others see none of them."""
    return spark.newSession()


@pytest.mark.parametrize("sql", postgres_queries())
@settings(QUICK, max_examples=2)
@given(rows=st.shared(tables(min_rows=8, max_rows=12), key="rows"))
def test_the_converted_text_means_the_same_to_spark(session: SparkSession, sql: str, rows: Tables):
    relation = read_query(sql, SCHEMA, dialect=SqlDialect.POSTGRES)
    text = convert_view("query", {"query": ViewText("query", sql, "q.sql", SqlDialect.POSTGRES)}, SCHEMA, {})
    try:
        ours = list(evaluate(relation, rows).rows())
    except EvaluationError:
        reject()
    for name, table in rows.items():
        session.createDataFrame(arrow_table(columns_of(name), list(table.rows()))).createOrReplaceTempView(name)
    frame = session.sql(text)
    assert [(name, str(type_)) for name, type_ in frame.dtypes] == [(f.name, str(f.type)) for f in fields_of(relation)]
    assert difference(rows_of_arrow(frame.toArrow()), ours) is None


@pytest.mark.parametrize("sql", postgres_only())
def test_what_spark_cannot_say_is_not_converted(sql: str):
    with pytest.raises(UnsupportedSql):
        convert_view("query", {"query": ViewText("query", sql, "q.sql", SqlDialect.POSTGRES)}, SCHEMA, {})
