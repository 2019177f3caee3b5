"""A row that a delivered table refuses is named, with its column and what to do; the table keeps its last good rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headrace.connect.postgres.deliver import PostgresDelivery
from headrace.connect.postgres.delivered_table import DeliveredTable
from headrace.connect.postgres.refused_row import choose_rows_to_try
from headrace.meaning.zset import ZSet
from headrace.model.errors import RefusedRow
from headrace.model.relation import Field
from headrace.model.types import BIGINT, INT, STRING, Array, Type
from headrace.run.rows.changes import WEIGHT
from tests.connect.delivered_views import View

numbers = itertools.count(1)
COLUMNS: dict[str, Type] = {
    "id": INT,
    "name": STRING,
    "names": Array(STRING),
    "lists": Array(Array(STRING)),
    "big": BIGINT,
}
MANY = 1_000


def row(number: int, name: str | None = "a", **more: Any) -> tuple[Any, ...]:
    return (number, name, more.get("names"), more.get("lists"), more.get("big"))


def rows(*numbers: int) -> ZSet:
    return ZSet.of(row(number) for number in numbers)


@pytest.fixture
def view(tmp_path: Path) -> View:
    return View(tmp_path, COLUMNS)


@pytest.fixture
def table() -> DeliveredTable:
    fields = tuple(Field(name, type_) for name, type_ in COLUMNS.items())
    return DeliveredTable(f"refusing_{next(numbers)}", fields, "p", "c", "v", "SELECT 1", 60.0)


Open = Callable[[DeliveredTable], PostgresDelivery]


@pytest.fixture
def opened(postgres_dsn: str) -> Iterator[Open]:
    with ExitStack() as stack:
        yield lambda table: stack.enter_context(closing(PostgresDelivery(postgres_dsn, table, 1)))


def execute(dsn: str, statement: str) -> list[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def ids(dsn: str, table: DeliveredTable) -> list[int]:
    return [number for (number,) in execute(dsn, f"SELECT id FROM {table.table} ORDER BY id")]


@pytest.mark.parametrize(
    ("column", "bad"),
    [
        ("name", row(7, "a\0b")),
        ("names", row(7, names=("x", None, "\0"))),
        ("lists", row(7, lists=(("x",), ("\0",)))),
    ],
)
def test_a_character_that_postgres_has_no_text_for_is_named_with_its_row(
    opened, postgres_dsn, view, table, column, bad
):
    delivery = opened(table)
    view.change(rows(*range(100, 100 + MANY)))
    view.deliver_to(delivery)
    view.change(rows(*range(20)) + ZSet.of([bad]))
    with pytest.raises(RefusedRow) as raised:
        view.deliver_to(delivery)
    assert (raised.value.column, raised.value.row["id"]) == (column, 7)
    assert raised.value.message == f'column "{column}" has a NUL character, which PostgreSQL cannot hold'
    assert "in the view" in str(raised.value.hint)
    assert ids(postgres_dsn, table) == list(range(100, 100 + MANY))
    view.change(-ZSet.of([bad]))
    view.deliver_to(delivery)
    assert ids(postgres_dsn, table) == [*range(20), *range(100, 100 + MANY)]


def test_a_bad_row_among_the_first_is_named_and_nothing_is_made(opened, postgres_dsn, view, table):
    view.change(rows(*range(MANY)) + ZSet.of([row(MANY, "line\nbreak"), row(MANY + 1, "\0")]))
    delivery = opened(table)
    with pytest.raises(RefusedRow) as raised:
        view.deliver_to(delivery)
    assert raised.value.row["id"] == MANY + 1
    assert execute(postgres_dsn, f"SELECT to_regclass('{table.table}')") == [(None,)]
    view.change(ZSet([(row(MANY + 1, "\0"), -1)]))
    view.deliver_to(delivery)
    assert ids(postgres_dsn, table) == list(range(MANY + 1))


def test_a_value_that_occurs_twice_where_someone_forbade_it_is_named(opened, postgres_dsn, view, table):
    delivery = opened(table)
    view.change(rows(1, 2, 3))
    view.deliver_to(delivery)
    execute(postgres_dsn, f"CREATE UNIQUE INDEX only_once ON {table.table} (id)")
    view.change(rows(4, 2, 5) + -rows(1))
    with pytest.raises(RefusedRow) as raised:
        view.deliver_to(delivery)
    assert raised.value.row["id"] == 2
    assert 'unique constraint "only_once"' in raised.value.message and "(id)=(2)" in raised.value.message
    assert "drop the constraint" in str(raised.value.hint)
    assert ids(postgres_dsn, table) == [1, 2, 3]
    view.compact()
    with pytest.raises(RefusedRow):
        view.deliver_to(delivery)
    assert ids(postgres_dsn, table) == [1, 2, 3]
    view.change(-rows(2))
    view.deliver_to(delivery)
    assert ids(postgres_dsn, table) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("change", "column", "said"),
    [
        ("ADD CONSTRAINT few CHECK (id < 100)", None, 'check constraint "few"'),
        ("ALTER COLUMN name SET NOT NULL", "name", "not-null constraint"),
        ("ADD CONSTRAINT narrow CHECK (big::smallint >= 0)", None, "smallint out of range"),
        ("ADD CONSTRAINT brief CHECK (length(name) < 4)", None, 'check constraint "brief"'),
    ],
)
def test_what_someone_changed_in_the_table_refuses_a_row_by_name(
    opened, postgres_dsn, view, table, change, column, said
):
    delivery = opened(table)
    view.change(rows(1))
    view.deliver_to(delivery)
    execute(postgres_dsn, f"ALTER TABLE {table.table} {change}")
    bad = {"few": row(100), "narrow": row(8, big=10**9), "brief": row(8, "long enough")}.get(change.split()[2])
    bad = bad or row(8, None)
    view.change(rows(2) + ZSet.of([bad]))
    with pytest.raises(RefusedRow) as raised:
        view.deliver_to(delivery)
    assert raised.value.column == column and said in raised.value.message
    assert raised.value.row["id"] == bad[0]
    assert ids(postgres_dsn, table) == [1]


def test_text_that_the_encoding_of_the_database_lacks_is_named(postgres_dsn, view, table):
    execute(postgres_dsn, "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    dsn = psycopg.conninfo.make_conninfo(postgres_dsn, dbname="latin")
    view.change(rows(1) + ZSet.of([row(2, "é"), row(3, "日")]))
    with closing(PostgresDelivery(dsn, table, 1)) as delivery:
        with pytest.raises(RefusedRow) as raised:
            view.deliver_to(delivery)
        assert (raised.value.column, raised.value.row["id"]) == ("name", 3)
        assert "LATIN1" in raised.value.message
    may_little = "REVOKE TEMPORARY ON DATABASE latin FROM public; CREATE ROLE little; CREATE SCHEMA little"
    execute(
        dsn,
        f"{may_little}; GRANT ALL ON SCHEMA little, headrace TO little; "
        "GRANT ALL ON ALL TABLES IN SCHEMA headrace TO little",
    )
    theirs = replace(table, table=f"little.{table.table}")
    little = psycopg.conninfo.make_conninfo(dsn, options="-c role=little")
    with closing(PostgresDelivery(little, theirs, 1)) as delivery, pytest.raises(RefusedRow) as raised:
        view.deliver_to(delivery)
    assert (raised.value.column, raised.value.row["id"]) == (None, 3)
    execute(postgres_dsn, "DROP DATABASE latin WITH (FORCE)")
    execute(postgres_dsn, "DROP ROLE little")


def test_what_a_trigger_says_is_told_on_one_line_and_its_row_is_searched_for_once(opened, postgres_dsn, view, table):
    """A sequence counts the tries: it is not rolled back."""
    delivery = opened(table)
    view.change(rows(1))
    view.deliver_to(delivery)
    name = table.table
    says = "RAISE EXCEPTION USING MESSAGE = E'not\\nseven' || repeat('n', 1000), COLUMN = 'no column of the view'"
    body = f"BEGIN PERFORM nextval('tries_{name}'); IF NEW.id = 7 THEN {says}; END IF; RETURN NEW; END"
    execute(
        postgres_dsn,
        f"CREATE SEQUENCE tries_{name}; CREATE FUNCTION try_{name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$; "
        f"CREATE TRIGGER t BEFORE INSERT ON {name} FOR EACH ROW EXECUTE FUNCTION try_{name}()",
    )
    view.change(rows(*range(2, 20)))
    tries = [0]
    for _ in range(2):
        with pytest.raises(RefusedRow) as raised:
            view.deliver_to(delivery)
        assert (raised.value.column, raised.value.row["id"]) == (None, 7)
        assert raised.value.message.startswith("not\\nsevennn") and len(raised.value.message) < 300
        tries += [count for (count,) in execute(postgres_dsn, f"SELECT last_value FROM tries_{name}")]
    assert tries[2] - tries[1] <= 18 < tries[1]


def test_a_row_that_comes_ten_million_times_is_tried_twice():
    changes = pa.table({"id": [1, 2, 3], WEIGHT: pa.array([10_000_000, -1, 1], pa.int64())})
    assert choose_rows_to_try(changes).to_pydict() == {"id": [1, 1, 3]}
