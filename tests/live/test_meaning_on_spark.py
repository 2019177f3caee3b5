"""The reference evaluator answers SQL as Spark in ANSI mode does: same rows, same types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.errors import EvaluationError
from headrace.model.relation import fields_of
from headrace.model.types import Row
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.testing import Tables
from tests.live.agreement import LONG, QUICK, Question, answer_or_reject, columns_of, questions, report
from tests.live.small_tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Compiling a query to Java costs more than running it over ten rows."""


@dataclass(slots=True)
class Asked:
    """A session with the tables of the last question as views."""

    spark: SparkSession
    tables: Tables = field(default_factory=dict)

    def ask(self, question: Question) -> DataFrame:
        for name, table in question.tables.items():
            if self.tables.get(name) != table:
                frame = self.spark.createDataFrame(arrow_table(columns_of(name), list(table.rows())))
                frame.createOrReplaceTempView(name)
        self.tables = question.tables
        return self.spark.sql(question.sql)


@pytest.fixture(scope="module")
def quick_spark(spark: SparkSession) -> Iterator[Asked]:
    before = {name: spark.conf.get(name) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield Asked(spark)
    for name, earlier in before.items():
        spark.conf.set(name, str(earlier))
    for name in TABLES:
        spark.catalog.dropTempView(name)


def check(spark: Asked, question: Question, ours: list[Row]) -> None:
    frame = spark.ask(question)
    types = [str(field.type) for field in fields_of(question.relation())]
    assert [type_ for _, type_ in frame.dtypes] == types, question.sql
    problem = report(question, ours, rows_of_arrow(frame.toArrow()))
    assert problem is None, problem


@QUICK
@given(questions())
def test_a_random_query_means_what_spark_answers(quick_spark: Asked, question: Question):
    check(quick_spark, question, answer_or_reject(question))


@pytest.mark.long
@pytest.mark.timeout(1800)
@LONG
@given(questions())
def test_many_random_queries_mean_what_spark_answers(quick_spark: Asked, question: Question):
    check(quick_spark, question, answer_or_reject(question))


QUERIES = {
    "projection": "SELECT k + 1 AS a, amount * 2 AS b, upper(name) AS c FROM r",
    "filter with NULL": "SELECT id FROM r WHERE NOT (n > 10)",
    "inner join": "SELECT r.id, s.label FROM r JOIN s ON r.k = s.k",
    "join USING": "SELECT k, r.id, s.label FROM r JOIN s USING (k)",
    "null-safe join": "SELECT r.id, s.n FROM r JOIN s ON r.k <=> s.k",
    "join on NaN and -0.0": "SELECT r.id, t.name FROM r JOIN t ON r.x = t.x",
    "join on an inequality": "SELECT r.id, s.n FROM r JOIN s ON r.n < s.n",
    "left join": "SELECT r.id, s.label FROM r LEFT JOIN s ON r.k = s.k AND s.price > 1",
    "right join": "SELECT r.id, s.label FROM r RIGHT JOIN s ON r.k = s.k AND r.ok",
    "full join": "SELECT r.id, s.label FROM r FULL JOIN s ON r.n = s.n",
    "cross join": "SELECT s.k, t.k AS other FROM s CROSS JOIN t",
    "three tables": "SELECT r.id, s.n, t.name FROM r JOIN s ON r.k = s.k LEFT JOIN t ON s.k = t.k AND t.ok",
    "self-join": "SELECT a.id, b.id AS other FROM r a JOIN r b ON a.k = b.k AND a.id < b.id",
    "EXISTS": "SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND s.n > r.id)",
    "NOT EXISTS": "SELECT id FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.n = r.n)",
    "IN": "SELECT id FROM r WHERE name IN (SELECT label FROM s)",
    "NOT IN with a NULL": "SELECT id FROM r WHERE name NOT IN (SELECT label FROM s)",
    "NOT IN without NULLs": "SELECT id FROM r WHERE name NOT IN (SELECT label FROM s WHERE label IS NOT NULL)",
    "NOT IN nothing": "SELECT id FROM r WHERE k NOT IN (SELECT k FROM s WHERE FALSE)",
    "scalar subquery": "SELECT id, (SELECT max(s.n) FROM s WHERE s.k = r.k) AS m FROM r",
    "scalar count of nothing": "SELECT id, (SELECT count(*) FROM s WHERE s.k = r.k) AS c FROM r",
    "union all": "SELECT k, n FROM r UNION ALL SELECT k, n FROM s",
    "union all of different types": "SELECT k AS v FROM r UNION ALL SELECT n FROM r UNION ALL SELECT price FROM s",
    "distinct": "SELECT DISTINCT k, ok FROM r",
    "distinct NaN": "SELECT DISTINCT x FROM t",
    "group by": "SELECT k, count(*) AS c, count(n) AS d, sum(n) AS e, avg(n) AS f FROM r GROUP BY k",
    "group by NULL and NaN": "SELECT x, count(*) AS c FROM r GROUP BY x",
    "decimal aggregates": "SELECT k, sum(amount) AS a, avg(amount) AS b, min(amount) AS c FROM r GROUP BY k",
    "float aggregates": "SELECT ok, sum(x) AS a, avg(x) AS b, min(x) AS c, max(x) AS d FROM r GROUP BY ok",
    "min and max of text": "SELECT min(name) AS a, max(name) AS b, min(day) AS c, max(at) AS d, max(ok) AS e FROM r",
    "aggregates of nothing": "SELECT count(*) AS a, count(k) AS b, sum(k) AS c, avg(k) AS d FROM r WHERE FALSE",
    "groups of nothing": "SELECT k, count(*) AS a FROM r WHERE FALSE GROUP BY k",
    "distinct aggregates": "SELECT count(DISTINCT n) AS a, sum(DISTINCT n) AS b, avg(DISTINCT k) AS c FROM r",
    "filtered aggregates": "SELECT count(*) FILTER (WHERE ok) AS a, sum(n) FILTER (WHERE k = 1) AS b FROM r",
    "having": "SELECT k, sum(n) AS a FROM r GROUP BY k HAVING count(*) > 1 AND max(name) > 'a'",
    "group by an expression": "SELECT year(day) AS y, k % 2 AS m, count(*) AS c FROM r GROUP BY year(day), k % 2",
    "tumbling windows": "SELECT window(at, '1 hour').start AS w, count(*) AS c FROM r GROUP BY window(at, '1 hour')",
    "hopping windows": """
        SELECT window(at, '30 minutes', '10 minutes').start AS a, window(at, '30 minutes', '10 minutes').end AS b,
               count(*) AS c
        FROM r GROUP BY window(at, '30 minutes', '10 minutes')""",
    "windows by key": "SELECT k, window(at, '1 hour').end AS w, sum(n) AS c FROM r GROUP BY k, window(at, '1 hour')",
    "first of each group": """
        SELECT k, id FROM (
            SELECT k, id, row_number() OVER (PARTITION BY k ORDER BY id DESC) AS n FROM r
        ) AS ranked WHERE n <= 1""",
    "rank with ties": "SELECT * FROM (SELECT k, id, rank() OVER (ORDER BY k) AS n FROM r) AS ranked WHERE n <= 3",
    "dense rank with ties": """
        SELECT * FROM (SELECT id, dense_rank() OVER (ORDER BY k DESC NULLS FIRST) AS n FROM r) AS q WHERE n <= 2""",
    "first of all": "SELECT k, id FROM r ORDER BY k DESC, id LIMIT 3",
    "first of all with an offset": "SELECT k, id FROM r ORDER BY k, id LIMIT 2 OFFSET 1",
    "common table expression": """
        WITH big AS (SELECT * FROM r WHERE n > 5) SELECT b.id, c.id AS d FROM big b JOIN big c ON b.k = c.k""",
    "groups of groups": "SELECT c, count(*) AS d FROM (SELECT k, count(*) AS c FROM r GROUP BY k) AS q GROUP BY c",
    "text": "SELECT concat_ws('-', name, CAST(k AS STRING)) AS a, name || 'x' AS b, name LIKE '_' AS c FROM r",
    "dates": "SELECT date_trunc('HOUR', at) AS a, CAST(at AS DATE) AS b, at + INTERVAL '1' MONTH AS c FROM r",
    "numbers": "SELECT k / 2 AS a, k DIV 2 AS b, amount / 3 AS c, amount % 2 AS d, round(amount, 1) AS e FROM r",
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_means_what_spark_answers(quick_spark: Asked, name: str):
    question = Question(QUERIES[name], TABLES)
    check(quick_spark, question, question.answer())


def test_a_filter_on_time_keeps_what_spark_keeps(quick_spark: Asked):
    """Spark's clock is its own: the rows lie years before and after any run of this test."""
    far = dt.datetime(2900, 1, 1)
    rows = ZSet.of(
        [(1, 1, None, "old", dt.datetime(2000, 1, 1)), (2, 2, None, "new", far), (3, 3, None, "never", None)]
    )
    question = Question("SELECT k FROM s WHERE at > now() - INTERVAL '7' DAY", {**TABLES, "s": rows})
    ours = evaluate(question.relation(), question.tables, now=dt.datetime(2600, 1, 1))
    check(quick_spark, question, list(ours.rows()))


FAILING = {
    "overflow": "SELECT id + 2147483647 AS a FROM r",
    "division by zero": "SELECT id / (id - 1) AS a FROM r",
    "text that is no number": "SELECT CAST(name AS INT) AS a FROM r",
    "a decimal that does not fit": "SELECT CAST(amount AS DECIMAL(3, 2)) AS a FROM r",
    "a sum that does not fit": "SELECT sum(n + 9223372033854775807) AS a FROM s WHERE n = 20",
    "a condition": "SELECT id FROM r WHERE 1 DIV (id - 1) > 0",
}


@pytest.mark.parametrize("name", FAILING)
def test_a_query_fails_where_spark_fails(quick_spark: Asked, name: str):
    from pyspark.errors import PySparkException

    question = Question(FAILING[name], TABLES)
    with pytest.raises(EvaluationError):
        question.answer()
    with pytest.raises(PySparkException):
        quick_spark.ask(question).toArrow()
