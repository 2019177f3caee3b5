"""Queries that others wrote, and all kinds that we understand, are maintained through inserts and deletes."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet, normal_row
from headrace.model.catalogue import Source
from headrace.model.dialect import SqlDialect
from headrace.model.errors import EvaluationError
from headrace.model.plan import PlanOptions
from headrace.model.types import DATE, INT, STRING, Decimal, Kind, Row, Simple, Type, Value
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import plan_views
from headrace.testing import SCHEMA, make_source
from headrace.testing.tables import POOLS
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.plan.written import catalogue, contract, mesh, site
from tests.queries import schemas
from tests.run.test_engine import check

SITES = ("m1", "m2")
COLUMNS = {"k": INT, "label": STRING}


def texts_in(sql: str) -> list[str]:
    """Words that a query looks for: rows that have them pass its filters."""
    return [text.replace("%", "") for text in re.findall(r"'([^']*)'", sql)]


def value(type_: Type, rng: random.Random, texts: list[str]) -> Value:
    if type_ == STRING and texts and rng.random() < 0.7:
        return rng.choice(texts)
    if type_ == DATE and rng.random() < 0.7:
        days = [dt.date.fromisoformat(text) for text in texts if re.fullmatch(r"\d{4}-\d\d-\d\d", text)]
        return rng.choice(days or [dt.date(1994, 1, 1)]) + dt.timedelta(rng.choice((0, 1, 40)))
    if isinstance(type_, Decimal):
        return decimal.Decimal(rng.randrange(-300, 300)).scaleb(-type_.scale)
    if type_ in POOLS:
        return rng.choice(POOLS[type_])
    assert isinstance(type_, Simple)
    return rng.choice(OTHER_POOLS[type_.kind])


OTHER_POOLS: dict[Kind, tuple[Value, ...]] = {
    Kind.BINARY: (b"", b"a"),
    Kind.SMALLINT: (0, 1),
    Kind.TINYINT: (0, 1),
    Kind.FLOAT: (0.5, 1.0),
}


def row_of(source: Source, rng: random.Random, texts: list[str]) -> Row:
    assert source.columns is not None
    return normal_row(
        tuple(None if rng.random() < 0.08 else value(column.type, rng, texts) for column in source.columns)
    )


def changed(
    tables: Mapping[str, ZSet], sources: Mapping[str, Source], rng: random.Random, rows: int, texts: list[str]
) -> dict[str, ZSet]:
    found = {}
    for name, source in sources.items():
        present = [row for row, weight in tables[name].items() for _ in range(weight)]
        gone = rng.sample(present, k=min(len(present), rng.randrange(rows)))
        found[name] = ZSet(
            [*((row, -1) for row in gone), *((row_of(source, rng, texts), 1) for _ in range(rng.randrange(rows)))]
        )
    return found


def maintain(sql: str, schema: Mapping[str, Source], seed: int = 1, dialect: SqlDialect = SqlDialect.SPARK) -> None:
    """Loaded, then kept through four batches."""
    rng = random.Random(seed)
    meaning = read_query(sql, schema, dialect=dialect)
    used = {name: source for name, source in schema.items() if name in _reads(meaning)}
    sources = {
        name: replace(source, site=SITES[number % 2], rows=20.0, rate=0.05, key=())
        for number, (name, source) in enumerate(used.items())
    }
    project = catalogue([site(name) for name in SITES], mesh(SITES), sources.values(), [contract("c", "v", "m1", 600)])
    plan = plan_views(project, {"v": blocks_of("v", meaning)}, PlanOptions())
    assert plan.contracts, plan.rejected
    with quick_folder() as folder:
        world = RunningWorld(plan, {"v": meaning}, Path(folder))
        world.capture(changed(world.history[world.now], sources, rng, 5, texts_in(sql)))
        world.engine.load()
        assert world.wrong() == []
        for _ in range(4):
            world.capture(changed(world.history[world.now], sources, rng, 3, texts_in(sql)))
            check(world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now)))
            assert world.wrong() == []


def _reads(meaning) -> set[str]:
    from headrace.model.relation import scans_of

    return {scan.source for scan in scans_of(meaning)}


BY_ARRIVAL = 12
"""What it holds depends on when rows came: `tests/run/test_event_tables.py` keeps it."""


@pytest.mark.parametrize("number", range(1, 23))
def test_the_queries_of_tpc_h(number):
    maintain((schemas.FOLDER / "tpch" / f"q{number:02}.sql").read_text(), schemas.TPCH)


@pytest.mark.parametrize("number", [number for number in range(23) if number != BY_ARRIVAL])
def test_the_queries_of_nexmark(number):
    maintain((schemas.FOLDER / "nexmark" / f"q{number:02}.sql").read_text(), schemas.NEXMARK)


@pytest.mark.parametrize("sql", schemas.understood())
def test_every_kind_of_query_that_is_understood(sql):
    maintain(sql, SCHEMA)


@pytest.mark.parametrize("sql", schemas.shapes())
def test_every_shape_of_query_that_is_understood(sql):
    maintain(sql, SCHEMA)


@pytest.mark.long
@pytest.mark.parametrize("sql", schemas.postgres_only())
def test_queries_that_only_postgres_has(sql):
    try:
        maintain(sql, SCHEMA, dialect=SqlDialect.POSTGRES)
    except EvaluationError:
        pytest.skip("some row of these has no answer")


def test_of_rows_without_an_order_the_first_by_their_columns_are_kept():
    maintain("SELECT k, id FROM r LIMIT 3", SCHEMA)
    tables = {**dict.fromkeys(SCHEMA, ZSet()), "s": ZSet.of([(2, "b"), (1, "c"), (1, "a"), (None, "z")])}
    kept = evaluate(read_query("SELECT k, label FROM s LIMIT 3", {"s": make_source("s", COLUMNS)}), tables)
    assert sorted(kept.rows(), key=str) == [(1, "a"), (1, "c"), (None, "z")]


def test_a_query_used_as_a_value_fails_only_where_a_row_has_several():
    sources = {"s": make_source("s", COLUMNS), "q": make_source("q", COLUMNS)}
    sql = "SELECT label, (SELECT q.label FROM q WHERE q.k = s.k) AS other FROM s"
    several = ZSet.of([(1, "x"), (2, "y"), (2, "z")])
    answer = evaluate(read_query(sql, sources), {"s": ZSet.of([(1, "a"), (3, "c")]), "q": several})
    assert answer == ZSet.of([("a", "x"), ("c", None)])
    with pytest.raises(EvaluationError, match="has 2 rows, and at most one is allowed"):
        evaluate(read_query(sql, sources), {"s": ZSet.of([(2, "b")]), "q": several})
