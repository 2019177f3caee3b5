"""Queries that are recomputed: Spark gives the types that their views have, and PostgreSQL the same rows."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.meaning.zset import ZSet
from headrace.model.errors import EvaluationError
from headrace.model.full_query import SOURCE_PREFIX, FullQuery
from headrace.model.relation import Field
from headrace.model.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Row, Type
from headrace.plan.make import make_plan
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.testing.engines import difference
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.live.recomputed_queries import PORTABLE, SPARK_ONLY, read_auctions, recomputed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = ("last_three", "hidden", "quoted")
MONEY = Decimal(10, 2)
COLUMNS: dict[str, dict[str, Type]] = {
    "bids": {
        "id": BIGINT,
        "auction": INT,
        "bidder": INT,
        "price": MONEY,
        "score": DOUBLE,
        "at": TIMESTAMP,
        "note": STRING,
        "day": DATE,
    },
    "auctions": {"id": INT, "seller": INT, "name": STRING},
}
BIDS: list[Row] = [
    (
        n,
        None if n == 7 else n % 3,
        n % 4,
        None if n == 4 else decimal.Decimal(n * n % 40) / 2 + decimal.Decimal("0.00"),
        n / 7,
        dt.datetime(2024, 2, 29, n % 24, 59, 59, n),
        None if n % 5 == 0 else f"note {n % 6}",
        dt.date(2024, 2, 1 + n),
    )
    for n in range(1, 20)
]
AUCTIONS: list[Row] = [(0, 1, "zero"), (1, 2, "one"), (2, 2, None), (5, 3, "none bids")]


def tables(bids: list[Row] = BIDS) -> dict[str, pa.Table]:
    rows = {"bids": bids, "auctions": AUCTIONS}
    return {
        source: arrow_table({f"{source}.{name}": type_ for name, type_ in columns.items()}, rows[source])
        for source, columns in COLUMNS.items()
    }


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FullQuery]:
    return recomputed(tmp_path_factory.mktemp("auctions"), {**PORTABLE, **SPARK_ONLY})


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Knows the sources by the names that they have in queries."""
    own = spark.newSession()
    for source, table in tables().items():
        frame = own.createDataFrame(table.rename_columns(list(COLUMNS[source])))
        frame.createOrReplaceTempView(f"`{SOURCE_PREFIX}{source}`")
    return own


@pytest.mark.parametrize("name", [*PORTABLE, *SPARK_ONLY])
def test_the_types_of_a_view_are_those_that_spark_gives(
    name: str, queries: Mapping[str, FullQuery], session: SparkSession
):
    schema = session.sql(queries[name].sql).schema
    expected = [str(column.type) for column in queries[name].fields]
    assert [column.dataType.simpleString() for column in schema.fields] == expected


@pytest.mark.long
@pytest.mark.parametrize("name", list(SPARK_ONLY))
def test_what_only_spark_knows_has_an_answer(name: str, queries: Mapping[str, FullQuery], spark: SparkSession):
    from headrace.connect.spark.recompute import SparkEvaluate

    found = SparkEvaluate(spark)(queries[name], tables(), 0, ())
    assert found.column_names == [column.name for column in queries[name].fields]
    assert found.num_rows


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in PORTABLE]
)
def test_rows_are_those_that_postgresql_gives(
    name: str, queries: Mapping[str, FullQuery], spark: SparkSession, postgres_dsn: str
):
    from headrace.connect.spark.recompute import SparkEvaluate

    found = rows_of_arrow(SparkEvaluate(spark)(queries[name], tables(), 0, ()))
    expected = by_postgresql(queries[name], {"bids": BIDS, "auctions": AUCTIONS}, postgres_dsn)
    assert difference(expected, found) is None


def by_postgresql(query: FullQuery, rows: Mapping[str, Iterable[Row]], dsn: str) -> list[Row]:
    with psycopg.connect(dsn) as session:
        fill(session, rows)
        found = session.execute(query.sql.replace("`", '"').encode()).fetchall()
        session.rollback()
    types = [one.type for one in query.fields]
    return [in_types(row, types) for row in found]


def fill(session: psycopg.Connection[tuple[object, ...]], rows: Mapping[str, Iterable[Row]]) -> None:
    types = {str(DOUBLE): "double precision", str(STRING): "text"}
    for source, columns in COLUMNS.items():
        listed = ", ".join(f'"{name}" {types.get(str(type_), str(type_))}' for name, type_ in columns.items())
        session.execute(f'CREATE TABLE "source:{source}" ({listed})'.encode())
        places = ", ".join(["%s"] * len(columns))
        for row in rows[source]:
            session.execute(f'INSERT INTO "source:{source}" VALUES ({places})'.encode(), row)


def in_types(row: tuple[object, ...], types: list[Type]) -> Row:
    """PostgreSQL's decimals say their digits otherwise."""
    made: list[Any] = []
    for value, type_ in zip(row, types, strict=True):
        if isinstance(value, decimal.Decimal) and isinstance(type_, Decimal):
            made.append(value.quantize(decimal.Decimal(1).scaleb(-type_.scale)))
        else:
            made.append(value)
    return tuple(made)


@pytest.mark.long
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
@given(choices=st.randoms(use_true_random=False))
def test_histories_of_window_functions_are_those_of_postgresql(
    choices: random.Random, spark: SparkSession, postgres_dsn: str
):
    from headrace.connect.spark.recompute import SparkEvaluate

    names = ("ranks", "last_three")
    with quick_folder() as folder:
        catalogue = read_auctions(Path(folder), {name: PORTABLE[name] for name in names})
        sources = {name: replace(source, key=()) for name, source in catalogue.sources.items()}
        plan = make_plan(replace(catalogue, sources=sources))
        runner = HereRunner(partial(perform, evaluate=SparkEvaluate(spark)))
        world = RunningWorld(plan, {}, Path(folder), runner)
        loaded = False
        for _ in range(4):
            for source, rows in (("bids", BIDS), ("auctions", AUCTIONS)):
                here = world.history[world.now][source]
                gone = [row for row in here.rows() if choices.random() < 0.3]
                come = choices.choices(rows, k=choices.randint(0, 6))
                world.capture({source: ZSet.of(come) - ZSet.of(gone)})
            loaded = loaded or bool(world.engine.load())
            failed = [one.error for one in world.engine.push(list(world.program.tasks), world.now) if one.error]
            assert not failed
            tables_now = {source: list(rows.rows()) for source, rows in world.history[world.now].items()}
            for name in names:
                query = catalogue.views[name].recomputed
                assert isinstance(query, FullQuery)
                expected = by_postgresql(query, tables_now, postgres_dsn)
                assert difference(expected, rows_of_arrow(world.rows(name))) is None


def test_ties_are_broken_alike_whatever_the_order_of_the_rows(spark: SparkSession):
    from headrace.connect.spark.recompute import SparkEvaluate
    from headrace.run.operators.recompute import in_order

    sql = "SELECT id, row_number() OVER (PARTITION BY bidder ORDER BY auction) AS n FROM `source:bids`"
    query = FullQuery(sql, ("bids",), (Field("id", BIGINT), Field("n", INT)))
    answers = []
    for bids in (BIDS, BIDS[::-1], BIDS[9:] + BIDS[:9]):
        found = SparkEvaluate(spark)(query, {"bids": in_order(tables(bids)["bids"])}, 0, ())
        answers.append(sorted(rows_of_arrow(found)))
    assert answers[0] == answers[1] == answers[2]


def test_failures_say_what_is_wrong_in_a_line(spark: SparkSession):
    from headrace.connect.spark.recompute import SparkEvaluate

    def answer(sql: str, *fields: Field) -> pa.Table:
        return SparkEvaluate(spark)(FullQuery(sql, ("bids",), fields), tables(), 0, ())

    with pytest.raises(EvaluationError, match="rejects the query"):
        answer("SELECT nothing FROM `source:bids`", Field("nothing", INT))
    with pytest.raises(EvaluationError, match=r'column "price" is decimal.* in Spark and int in the view'):
        answer("SELECT price FROM `source:bids`", Field("price", INT))
    for expression, type_, said in (
        ("id / (`source:bids`.id - id)", DOUBLE, "id / (bids.id - id): division by zero"),
        ("CAST(note AS INT)", INT, "CAST(note AS INT): the value 'note 1' of the type \"STRING\" cannot be cast"),
        ("auction * 2147483647", INT, "auction * 2147483647: overflow"),
        ("(SELECT id FROM `source:bids`)", BIGINT, "more than one row returned by a subquery used as an expression"),
    ):
        with pytest.raises(EvaluationError) as raised:
            answer(f"SELECT {expression} AS x FROM `source:bids`", Field("x", type_))
        assert str(raised.value).startswith(said)
        assert not any(word in str(raised.value) for word in ("\n", "SQLSTATE", "spark.sql", "try_", "Exception"))
    with pytest.raises(EvaluationError, match='column "x" has a time outside of the years 1 to 9999'):
        answer("SELECT date_add(DATE'9999-12-31', 5) AS x FROM `source:bids`", Field("x", DATE))
    assert spark.catalog.listTables() == []
