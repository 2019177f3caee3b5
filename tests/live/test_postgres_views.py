"""Views of a shop, an IoT fleet and a ledger, written for PostgreSQL, are maintained unchanged and answer as there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.deltas import delta
from headrace.meaning.evaluate import Batch, evaluate, evaluate_change
from headrace.meaning.zset import EMPTY, apply
from headrace.model.dialect import SqlDialect
from headrace.model.errors import EvaluationError
from headrace.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type
from headrace.testing import changes, make_source, tables
from headrace.testing.engines import difference
from headrace.testing.tables import MONEY
from tests.live.test_meaning_on_postgres import postgres_type
from tests.live.test_postgres_dialect import RANDOM, as_plain, ask_postgres
from tests.queries.schemas import FOLDER

if TYPE_CHECKING:
    from psycopg import Connection

    from headrace.connect.postgres.embedded import EmbeddedPostgres

COLUMNS: dict[str, dict[str, Type]] = {
    "customers": {"id": INT, "name": STRING, "country": STRING},
    "orders": {
        "id": INT,
        "customer_id": INT,
        "total": MONEY,
        "quantity": BIGINT,
        "status": STRING,
        "placed_at": TIMESTAMP,
    },
    "devices": {"device_id": INT, "site": STRING, "model": STRING, "installed": DATE},
    "readings": {"device_id": INT, "measured_at": TIMESTAMP, "celsius": DOUBLE, "ok": BOOLEAN},
    "entries": {"transfer": INT, "account": STRING, "side": STRING, "amount": MONEY, "booked": TIMESTAMP},
}
SOONER, LATER = dt.datetime(2024, 2, 29, 12, 40), dt.datetime(2024, 3, 1, 9)
SOURCES = {name: make_source(name, columns) for name, columns in COLUMNS.items()}
VIEWS = [part.strip() for part in (FOLDER / "postgres_views.sql").read_text(encoding="utf-8").split("\n\n")[1:]]


@pytest.fixture(scope="module")
def database(postgres: EmbeddedPostgres) -> Iterator[Connection[Any]]:
    import psycopg

    with psycopg.connect(postgres.dsn(), options="-c timezone=UTC") as connection:
        for name, columns in COLUMNS.items():
            types = {
                column: postgres_type(type_).replace("timestamptz", "timestamp") for column, type_ in columns.items()
            }
            made = ", ".join(f"{column} {type_}" for column, type_ in types.items())
            connection.execute(f"CREATE TEMPORARY TABLE {name} ({made})".encode())
        connection.commit()
        yield connection


def at_an_instant(sql: str) -> str:
    """A view with the time written in, as times are here: without a time zone."""
    return sql.replace("now()", f"TIMESTAMP '{LATER}'").replace("current_date", f"DATE '{LATER.date()}'")


@pytest.mark.parametrize("sql", VIEWS)
@RANDOM
@given(data=st.data())
def test_a_view_written_for_postgres_is_kept_unchanged(database: Connection[Any], sql: str, data: st.DataObject):
    relation = read_query(sql, SOURCES, dialect=SqlDialect.POSTGRES)
    rows = data.draw(tables(SOURCES, min_rows=2, max_rows=6))
    batch = Batch(rows, data.draw(changes(rows, SOURCES)), SOONER, LATER)
    now, change = apply(rows, batch.changes), delta(relation)
    try:
        kept = evaluate(relation, rows, SOONER) + (EMPTY if change is None else evaluate_change(change, batch))
        assert kept == evaluate(relation, now, LATER)
    except EvaluationError:
        reject()
    ours = [tuple(map(as_plain, row)) for row in kept.rows()]
    assert difference(ask_postgres(database, at_an_instant(sql), now), ours) is None
