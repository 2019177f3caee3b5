"""Relations that Spark evaluates over files of logs are worth what the reference says."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, reject, settings

from headrace.connect.files import FileStore
from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.errors import ConnectError, EvaluationError
from headrace.model.expr import Call, Column, Literal
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Field,
    Output,
    Projection,
    Relation,
    Scan,
    fields_of,
)
from headrace.model.show import show
from headrace.model.types import BIGINT, BINARY, DAY_TIME, DOUBLE, INT, STRING, TIMESTAMP, YEAR_MONTH, Array, Row
from headrace.run.rows.arrow import rows_of_arrow
from headrace.testing import SCHEMA, Tables, relations, tables
from headrace.testing.engines import difference
from tests.examples import examples
from tests.live.agreement import LONG, QUICK
from tests.live.log_tables import NOW, SITE, write_table, write_tables
from tests.live.small_tables import TABLES
from tests.live.test_meaning_on_spark import INTERPRETED, QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.connect.spark.evaluate import SourceTable, SparkEvaluator

CLOCK = dt.datetime(2024, 2, 29, 12, 35)


@pytest.fixture(scope="module")
def quick_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Interprets: compiling a query to Java costs more than running it over ten rows."""
    before = {name: spark.conf.get(name) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield spark
    for name, earlier in before.items():
        spark.conf.set(name, str(earlier))


@pytest.fixture(scope="module")
def evaluator(quick_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkEvaluator:
    from headrace.connect.spark.evaluate import SparkEvaluator

    return SparkEvaluator(quick_spark, FileStore(tmp_path_factory.mktemp("store")), now=CLOCK)


@pytest.fixture(scope="module")
def small_tables(evaluator: SparkEvaluator) -> dict[str, SourceTable]:
    assert isinstance(evaluator.store, FileStore)
    return write_tables(evaluator.store, TABLES)


def check(evaluator: SparkEvaluator, relation: Relation, held: Mapping[str, SourceTable], expected: list[Row]) -> None:
    found = evaluator.rows(relation, held)
    assert found.column_names == [field.name for field in fields_of(relation)]
    assert difference(expected, rows_of_arrow(found)) is None, show(relation)


def check_random(evaluator: SparkEvaluator, relation: Relation, rows: Tables) -> None:
    assert isinstance(evaluator.store, FileStore)
    try:
        expected = list(evaluate(relation, rows, now=CLOCK).rows())
    except EvaluationError:
        reject()
    store = FileStore(evaluator.store.root / "random")
    found = replace(evaluator, store=store).rows(relation, write_tables(store, rows))
    shutil.rmtree(store.root)
    problem = difference(expected, rows_of_arrow(found))
    assert problem is None, f"{problem}\n{show(relation)}\n" + "\n".join(
        f"{n}: {list(t.rows())}" for n, t in rows.items()
    )


@settings(QUICK, max_examples=examples(12))
@given(relations(timed=True), tables(min_rows=2, max_rows=6))
def test_a_random_relation_over_logs_is_worth_what_the_reference_says(
    evaluator: SparkEvaluator, relation: Relation, rows: Tables
):
    check_random(evaluator, relation, rows)


@pytest.mark.long
@pytest.mark.timeout(1800)
@LONG
@given(relations(timed=True), tables(min_rows=2, max_rows=6))
def test_many_random_relations_over_logs_are_worth_what_the_reference_says(
    evaluator: SparkEvaluator, relation: Relation, rows: Tables
):
    check_random(evaluator, relation, rows)


OVER_WINDOWS = {
    "lists over windows": """
        SELECT id, collect_list(n) OVER (PARTITION BY ok ORDER BY k) AS a, listagg(name, '-') OVER (ORDER BY id, k
        ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS b, collect_set(k) OVER (ORDER BY n) AS c FROM r""",
    "different values over windows": """
        SELECT id, count(DISTINCT n) OVER (PARTITION BY ok ORDER BY k) AS a, count(DISTINCT n, k) OVER () AS b,
        count(DISTINCT name) OVER (ORDER BY id ROWS 1 PRECEDING) AS c FROM r""",
    "choices over windows": """
        SELECT id, mode(n) OVER (PARTITION BY ok) AS a, min_by(name, k) OVER (ORDER BY id, k ROWS 2 PRECEDING) AS b,
        max_by(n, day) OVER (PARTITION BY ok ORDER BY k) AS c, bit_xor(k) OVER (ORDER BY id) AS d FROM r""",
    "percentiles over windows": """
        SELECT id, median(n) OVER (PARTITION BY ok) AS a, percentile(k, 0.3) OVER (ORDER BY id ROWS 2 PRECEDING) AS b,
        approx_percentile(n, 0.4) OVER (PARTITION BY ok ORDER BY k) AS c FROM r WHERE abs(n) < 1000000""",
    "groups of peers over windows": """
        SELECT id, sum(k) OVER (PARTITION BY ok ORDER BY n GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a FROM r""",
    "rows that are counted": "SELECT ok, count(DISTINCT (k, n)) AS a, count(DISTINCT k, n) AS b FROM r GROUP BY ok",
}


@pytest.mark.parametrize("name", [*QUERIES, *OVER_WINDOWS])
def test_a_query_over_logs_is_worth_what_the_reference_says(
    evaluator: SparkEvaluator, small_tables: dict[str, SourceTable], name: str
):
    relation = read_query({**QUERIES, **OVER_WINDOWS}[name], SCHEMA)
    check(evaluator, relation, small_tables, list(evaluate(relation, TABLES).rows()))


def constants(*literals: Literal) -> Relation:
    outputs = tuple(Output(f"v{number}", literal) for number, literal in enumerate(literals))
    scan = Scan("t", "t", ("k",), (INT,))
    return Projection(scan, outputs)


def test_every_kind_of_literal_reaches_spark(evaluator: SparkEvaluator, small_tables: dict[str, SourceTable]):
    at = Literal(dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), TIMESTAMP)
    relation = constants(
        Literal(b"\x00'\xff", BINARY),
        Literal(("a'", None, "b\\"), Array(STRING)),
        Literal((1.5, -2.0), Array(DOUBLE)),
        Literal((), Array(INT)),
        Literal("tab\t, line\r\n, 'quote', \\ and \U0001f600", STRING),
        Literal(float("nan"), DOUBLE),
        Literal(None, Array(INT)),
        at,
    )
    intervals = Projection(
        relation,
        tuple(
            Output(f"w{number}", Call("+", (Column("v7", TIMESTAMP), literal), TIMESTAMP))
            for number, literal in enumerate(
                (
                    Literal(dt.timedelta(days=-3, hours=5, microseconds=7), DAY_TIME),
                    Literal(dt.timedelta(days=400, seconds=1), DAY_TIME),
                    Literal(-14, YEAR_MONTH),
                    Literal(25, YEAR_MONTH),
                )
            )
        ),
    )
    count = len(list(TABLES["t"].rows()))
    for asked in (relation, intervals):
        expected = list(evaluate(asked, {"t": ZSet.of([(1,)] * count)}).rows())
        check(evaluator, asked, small_tables, expected)


def test_distance_is_ours_on_spark_too(evaluator: SparkEvaluator, small_tables: dict[str, SourceTable]):
    relation = read_query("SELECT distance(x, k, 48.1, 11.6) AS d FROM t WHERE x < 10", SCHEMA)
    check(evaluator, relation, small_tables, list(evaluate(relation, TABLES).rows()))


def shout(text: str | None) -> str | None:
    return None if text is None else text.upper() + "!"


def next_hour(at: dt.datetime | None) -> dt.datetime | None:
    assert at is None or at.tzinfo is None, "times are naive, and of UTC"
    return None if at is None else at + dt.timedelta(hours=1)


def calling(function: str, column: str) -> Relation:
    scan = Scan("s", "s", ("label", "at"), (STRING, TIMESTAMP))
    type_ = STRING if column == "label" else TIMESTAMP
    return Projection(scan, (Output("v", Call(f"python:{function}", (Column(f"s.{column}", type_),), type_)),))


def test_functions_declared_in_python_run_on_our_values(
    evaluator: SparkEvaluator, small_tables: dict[str, SourceTable]
):
    given_python = replace(evaluator, python={"shout@1": shout, "next_hour@2": next_hour})
    rows = ZSet.of((row[3], row[4]) for row in TABLES["s"].rows())
    for relation in (calling("shout@1", "label"), calling("next_hour@2", "at")):
        expected = list(evaluate(relation, {"s": rows}, python=given_python.python).rows())
        check(given_python, relation, small_tables, expected)


def test_a_function_that_was_not_given_is_named(evaluator: SparkEvaluator, small_tables: dict[str, SourceTable]):
    with pytest.raises(ConnectError, match='function "shout@1" is declared in Python but was not given to Spark'):
        evaluator.rows(calling("shout@1", "label"), small_tables)


def test_an_answer_is_written_as_contents_of_a_log(
    evaluator: SparkEvaluator, small_tables: dict[str, SourceTable], tmp_path: Path
):
    from headrace.connect.spark.log_files import ContentsTarget

    store = FileStore(tmp_path)
    assert isinstance(evaluator.store, FileStore)
    held = write_tables(store, TABLES)
    relation = read_query("SELECT k, name FROM r WHERE ok", SCHEMA)
    columns = tuple(Field(f"v.{field.name}", field.type) for field in fields_of(relation))
    written = replace(evaluator, store=store).files(relation, held, ContentsTarget(SITE, "v", NOW, columns))
    found = [store.read(SITE, part.stored) for part in written]
    assert [part.rows for part in written] == [table.num_rows for table in found]
    assert all((tmp_path / SITE / part.stored.file).stat().st_size == part.stored.bytes for part in written)
    whole = pa.concat_tables(found)
    assert whole.column_names == ["v.k", "v.name", "__t", "__o", "__w"]
    expected = [(*row, NOW, 0, 1) for row in evaluate(relation, TABLES).rows()]
    assert difference(expected, rows_of_arrow(whole)) is None


def test_an_empty_answer_writes_nothing(evaluator: SparkEvaluator, small_tables: dict[str, SourceTable]):
    from headrace.connect.spark.log_files import ContentsTarget

    relation = read_query("SELECT k FROM r WHERE FALSE", SCHEMA)
    assert evaluator.files(relation, small_tables, ContentsTarget(SITE, "v", NOW, (Field("v.k", INT),))) == ()


def test_a_table_without_files_is_empty(evaluator: SparkEvaluator):
    from headrace.connect.spark.evaluate import SourceTable

    relation = read_query("SELECT count(*) AS c FROM t", SCHEMA)
    nothing = SourceTable(SITE, (), NOW, {column.name: f"t.{column.name}" for column in SCHEMA["t"].columns or ()})
    check(evaluator, relation, {"t": nothing}, [(0,)])


def test_a_scan_of_no_columns_counts_rows(evaluator: SparkEvaluator):
    assert isinstance(evaluator.store, FileStore)
    count = AggregateCall("c", AggregateFunction.COUNT, None, False, BIGINT)
    relation = Aggregate(Scan("r", "r", (), ()), (), (count,))
    check(evaluator, relation, {"r": write_table(evaluator.store, "r", TABLES["r"])}, [(7,)])
