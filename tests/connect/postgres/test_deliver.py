"""A delivered table holds what the view holds, at the time it says, whatever breaks on the way."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg import sql

from headrace.connect.postgres.deliver import PostgresDelivery
from headrace.connect.postgres.delivered_table import ROW, DeliveredTable
from headrace.connect.postgres.sessions import Connection
from headrace.meaning.zset import ZSet
from headrace.model.errors import Conflict, ConnectError, Fenced
from headrace.model.relation import Field
from headrace.model.types import FLOAT, INT, STRING, Row
from headrace.run.rows.arrow import _ours, arrow_table
from headrace.run.rows.json_rows import json_value
from tests.connect.delivered_views import COLUMNS, View, next_change, rows
from tests.examples import examples

numbers = itertools.count(1)
# Each example takes long, and shrinking tries hundreds.
ANY_SIZE = settings(deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
SMALL = {"id": INT, "name": STRING}


class Crash(Exception):
    pass


class Breaking(PostgresDelivery):
    """Breaks once, before or after the next commit."""

    crash = ""

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with super()._transaction() as session:
            yield session
            self._maybe("before")
        self._maybe("after")

    def _maybe(self, when: str) -> None:
        if self.crash == when:
            self.crash = ""
            raise Crash


def table_of(view: View, **more: Any) -> DeliveredTable:
    fields = tuple(Field(name, type_) for name, type_ in view.columns.items())
    given = {"table": f"view_{next(numbers)}", "project": "p", "contract": "c", "view": "v", "meaning": "SELECT 1"}
    return DeliveredTable(**{**given, "columns": fields, "freshness_s": 60.0, **more})


def held(dsn: str, table: DeliveredTable) -> ZSet:
    # Text of a real is rounded to what tells it apart from other reals.
    names = [
        sql.SQL("{}::float8" if field.type == FLOAT else "{}").format(sql.Identifier(field.name))
        for field in table.columns
    ]
    query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(names), sql.SQL(table.table))
    with psycopg.connect(dsn) as connection:
        return ZSet.of(tuple(map(comparable, row)) for row in connection.execute(query))


def comparable(value: Any) -> Any:
    """Lists of lists come back as JSON, where floats may look like integers."""
    value = _ours(value)
    if isinstance(value, tuple) and any(isinstance(one, tuple) for one in value):
        return str([one and [float(n) if isinstance(n, int) else n for n in one] for one in value])
    return value


def expected(view: View) -> ZSet:
    """As PostgreSQL hands it out: what is in lists of lists is JSON, so that NaN is text there."""

    def of(value: Any) -> Any:
        nested = isinstance(value, tuple) and any(isinstance(one, tuple) for one in value)
        return comparable(json_value(value)) if nested else value

    return ZSet((tuple(map(of, row)), weight) for row, weight in view.now.items())


def small(*ids: int, name: str | None = "a") -> ZSet:
    return ZSet([((number, name), 1) for number in ids])


@pytest.fixture
def opened(postgres_dsn: str) -> Iterator[Callable[[DeliveredTable, int], PostgresDelivery]]:
    """Deliveries to this test's database; they are closed when the test ends."""
    with ExitStack() as stack:

        def open_(table: DeliveredTable, epoch: int) -> PostgresDelivery:
            return stack.enter_context(closing(PostgresDelivery(postgres_dsn, table, epoch)))

        yield open_


@pytest.fixture
def view(tmp_path: Path) -> View:
    return View(tmp_path, SMALL)


def run_history(
    data: st.DataObject, dsn: str, new: st.SearchStrategy[Row], view: View, table: DeliveredTable, stack: ExitStack
) -> None:
    epoch = 1
    delivery = Breaking(dsn, table, epoch)
    stack.callback(lambda: delivery.close())
    for _ in range(data.draw(st.integers(1, 4))):
        for _ in range(data.draw(st.integers(0, 2))):
            view.change(data.draw(next_change(view.now, new)))
        match data.draw(st.sampled_from(["", "before", "after", "restart", "compact"])):
            case "restart":
                epoch += 1
                delivery.close()
                delivery = Breaking(dsn, table, epoch)
            case "compact":
                view.compact()
            case crash:
                delivery.crash = crash
        try:
            view.deliver_to(delivery)
        except Crash:
            view.deliver_to(delivery)
        assert held(dsn, table) == expected(view)
        assert view.deliver_to(delivery) == view.log.t
        delivery.check(view.log.t)
        assert held(dsn, table) == expected(view)


@settings(ANY_SIZE, max_examples=examples(25))
@given(data=st.data())
def test_the_table_equals_the_view_after_every_delivery_whatever_breaks(postgres_dsn, data):
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        view = View(Path(folder))
        run_history(data, postgres_dsn, rows(COLUMNS), view, table_of(view), stack)


@st.composite
def keyed_change(draw: st.DrawFn, now: ZSet) -> ZSet:
    """Every id at most once."""
    there = {row[0]: row for row in now.rows()}
    changed = draw(st.dictionaries(st.integers(0, 5), st.none() | st.sampled_from(["", None, "b"]).map(lambda n: (n,))))
    went = [(there[number], -1) for number in changed if number in there]
    return ZSet([*went, *(((number, *name), 1) for number, name in changed.items() if name is not None)])


@settings(ANY_SIZE, max_examples=examples(15))
@given(data=st.data())
def test_a_table_with_a_key_equals_the_view_after_every_delivery(postgres_dsn, data):
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        view = View(Path(folder), SMALL)
        table = table_of(view, key=("id",))
        delivery = stack.enter_context(closing(Breaking(postgres_dsn, table, 1)))
        for _ in range(3):
            for _ in range(data.draw(st.integers(0, 2))):
                view.change(data.draw(keyed_change(view.now)))
            delivery.crash = data.draw(st.sampled_from(["", "before", "after"]))
            try:
                view.deliver_to(delivery)
            except Crash:
                view.deliver_to(delivery)
            assert held(postgres_dsn, table) == view.now


def test_only_some_copies_of_a_row_go(opened, postgres_dsn, view):
    table = table_of(view)
    delivery = opened(table, 1)
    view.change(small(1, 1, 1, 2))
    view.deliver_to(delivery)
    view.change(-small(1, 1))
    view.deliver_to(delivery)
    assert held(postgres_dsn, table) == small(1, 2)


class Colliding(DeliveredTable):
    """All rows have one hash."""

    def hashed(self, rows: pa.Table) -> pa.Table:
        return rows.append_column(ROW, pa.array([0] * rows.num_rows, pa.int64()))


def test_rows_of_the_same_hash_are_told_apart(opened, postgres_dsn, view):
    table = table_of(view)
    same = Colliding(**{one.name: getattr(table, one.name) for one in fields(table)})
    delivery = opened(same, 1)
    view.change(small(1, 2, 2), small(1, 2, name=""), small(1, 2, name=None))
    view.deliver_to(delivery)
    view.change(-small(2), -small(1, name=""), -small(2, name=None))
    view.deliver_to(delivery)
    assert held(postgres_dsn, same) == view.now


def test_changes_that_cancel_leave_the_table_alone(opened, postgres_dsn, view):
    table = table_of(view)
    delivery = opened(table, 1)
    view.deliver_to(delivery)
    view.change(small(1), -small(1))
    assert view.deliver_to(delivery) == 1_000
    assert held(postgres_dsn, table) == ZSet()
    assert delivery.delivered() == view.log.t


def test_what_is_done_twice_is_refused(opened, view):
    delivery = opened(table_of(view), 1)
    delivery.start(arrow_table(SMALL, []), 10)
    changes = arrow_table(SMALL, [(1, "a")]).append_column("__w", [[1]])
    delivery.apply(changes, 10, 20)
    with pytest.raises(Conflict, match="is at 20, not at 10"):
        delivery.apply(changes, 10, 20)


def test_a_service_that_was_replaced_is_fenced_off(opened, postgres_dsn, view):
    table = table_of(view)
    old, new = opened(table, 1), opened(table, 2)
    view.change(small(1))
    view.deliver_to(old)
    assert new.delivered() == view.log.t
    nothing = arrow_table(SMALL, []).append_column("__w", [[]])
    for step in (
        lambda: old.apply(nothing, view.log.t, view.log.t + 1),
        lambda: old.start(arrow_table(SMALL, []), 1),
        old.delivered,
        old.drop,
    ):
        with pytest.raises(Fenced, match="another service"):
            step()
    assert held(postgres_dsn, table) == small(1)


def execute(dsn: str, *statements: str) -> list[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_a_table_that_is_not_ours_is_never_touched(opened, postgres_dsn, view):
    table = table_of(view)
    execute(postgres_dsn, f"CREATE TABLE {table.table} (id int)", f"INSERT INTO {table.table} VALUES (7)")
    delivery = opened(table, 1)
    for step in (delivery.delivered, lambda: delivery.start(arrow_table(SMALL, []), 1)):
        with pytest.raises(ConnectError, match="was not created by Headrace") as raised:
            step()
        assert raised.value.hint == "deliver to another table, or drop or rename this one"
    delivery.drop()
    assert execute(postgres_dsn, f"SELECT * FROM {table.table}") == [(7,)]


def test_a_table_that_someone_made_in_the_place_of_ours_is_not_touched(opened, postgres_dsn, view):
    table = table_of(view)
    delivery = opened(table, 1)
    view.deliver_to(delivery)
    execute(postgres_dsn, f"DROP TABLE {table.table}", f"CREATE TABLE {table.table} (id int)")
    for step in (delivery.delivered, delivery.drop):
        with pytest.raises(ConnectError, match="was not created by Headrace"):
            step()


def test_a_table_of_another_contract_is_refused(opened, view):
    table = table_of(view)
    view.deliver_to(opened(table, 1))
    other = opened(replace(table, contract="d"), 9)
    with pytest.raises(ConnectError, match='belongs to contract "c" of project "p"'):
        view.deliver_to(other)


def test_a_table_that_someone_changed_is_noticed(opened, postgres_dsn, view):
    table = table_of(view)
    delivery = opened(table, 1)
    view.change(small(1, 2))
    view.deliver_to(delivery)
    execute(postgres_dsn, f"UPDATE {table.table} SET name = 'z'")
    view.change(-small(1))
    with pytest.raises(ConnectError, match="1 rows are not as they were delivered"):
        view.deliver_to(delivery)
    execute(postgres_dsn, f"DROP TABLE {table.table}")
    view.deliver_to(delivery)
    assert held(postgres_dsn, table) == small(2)


def test_a_view_with_other_columns_makes_the_table_anew(opened, postgres_dsn, view, tmp_path):
    table = table_of(view)
    view.change(small(1))
    view.deliver_to(opened(table, 1))
    wider = View(tmp_path, {**SMALL, "more": INT})
    wider.change(ZSet([((1, "a", 2), 1)]))
    fields = tuple(Field(name, type_) for name, type_ in wider.columns.items())
    changed = replace(table, columns=fields)
    wider.deliver_to(opened(changed, 2))
    assert held(postgres_dsn, changed) == wider.now


def test_a_view_with_another_meaning_fills_the_same_table_anew(opened, postgres_dsn, view, tmp_path):
    table = table_of(view)
    view.change(small(1))
    view.deliver_to(opened(table, 1))
    execute(postgres_dsn, f"CREATE VIEW dependent AS SELECT id FROM {table.table}")
    other = View(tmp_path, SMALL)
    other.change(small(2))
    other.deliver_to(opened(replace(table, meaning="SELECT 2"), 2))
    assert other.log.t == view.log.t
    assert execute(postgres_dsn, "SELECT * FROM dependent") == [(2,)]


def test_the_table_says_what_it_is(opened, postgres_dsn, view):
    table = table_of(view, indexes=(("name", "id"),))
    view.deliver_to(opened(table, 1))
    ((comment,),) = execute(postgres_dsn, f"SELECT obj_description('{table.table}'::regclass)")
    assert comment.startswith('Kept by Headrace: view "v" for contract "c" of project "p", at most 60 s behind')
    view.deliver_to(opened(replace(table, freshness_s=5.0), 2))
    ((comment,),) = execute(postgres_dsn, f"SELECT obj_description('{table.table}'::regclass)")
    assert "at most 5 s behind" in comment
    indexes = execute(postgres_dsn, f"SELECT indexdef FROM pg_indexes WHERE tablename = '{table.table}' ORDER BY 1")
    assert ["(_headrace_row)" in text for (text,) in indexes] == [True, False]
    assert "(name, id)" in indexes[1][0]


def test_types_are_those_of_the_view(opened, postgres_dsn, tmp_path):
    view = View(tmp_path)
    table = table_of(view)
    view.deliver_to(opened(table, 1))
    found = execute(
        postgres_dsn,
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        f"WHERE attrelid = '{table.table}'::regclass AND attnum > 0",
    )
    types = dict(found)
    assert types["money"] == "numeric(10,2)"
    assert types["moneys"] == "numeric(10,2)[]"
    assert types["time"] == "timestamp with time zone"
    assert types["bytes"] == "bytea"
    assert types["nested"] == "jsonb"


def test_dropped_tables_are_gone_and_may_be_dropped_again(opened, postgres_dsn, view):
    table = table_of(view)
    delivery = opened(table, 1)
    delivery.drop()
    view.deliver_to(delivery)
    delivery.drop()
    delivery.drop()
    assert execute(postgres_dsn, f"SELECT to_regclass('{table.table}'), count(*) FROM headrace.deliveries") == [
        (None, 0)
    ]
    view.deliver_to(delivery)
    assert held(postgres_dsn, table) == view.now


def test_columns_that_are_not_a_key_are_named(opened, view):
    delivery = opened(table_of(view, key=("id",)), 1)
    view.deliver_to(delivery)
    for change in (small(1, 1), small(1) + small(1, name="b")):
        view.change(change)
        with pytest.raises(ConnectError, match='columns "id" are not a key of view "v"'):
            view.deliver_to(delivery)
        view.change(-change)
    view.change(small(1, 1))
    view.compact()
    with pytest.raises(ConnectError, match='columns "id" are not a key of view "v"'):
        view.deliver_to(delivery)


def test_names_that_postgres_would_cut_off_are_refused(opened, tmp_path):
    for name in ("_headrace_row", "é" * 32):
        view = View(tmp_path, {name: INT})
        with pytest.raises(ConnectError, match=f'column "{name}" of view "v" cannot be delivered'):
            opened(table_of(view), 1)


def test_a_connection_that_broke_is_made_again(opened, postgres_dsn, view):
    delivery = opened(table_of(view), 1)
    view.deliver_to(delivery)
    execute(
        postgres_dsn,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'headrace delivery' "
        "AND datname = current_database()",
    )
    view.change(small(1))
    with pytest.raises(ConnectError, match=r"table .* cannot be written"):
        view.deliver_to(delivery)
    assert view.deliver_to(delivery) == 1_000


def test_tables_may_be_in_any_schema(opened, postgres_dsn, view):
    table = table_of(view, table='"Sales"."My ""table"""')
    delivery = opened(table, 1)
    with pytest.raises(ConnectError, match='schema "Sales" does not exist') as raised:
        view.deliver_to(delivery)
    assert raised.value.hint == "create the schema first: CREATE SCHEMA ..."
    execute(postgres_dsn, 'CREATE SCHEMA "Sales"')
    view.change(small(1, name=""), small(1, name=None))
    view.deliver_to(delivery)
    assert held(postgres_dsn, table) == view.now


def test_services_that_begin_at_once_do_not_mix(opened, postgres_dsn, view):
    table = table_of(view)
    deliveries = {number: opened(table, number) for number in (1, 2, 3)}

    def begin(number: int) -> None:
        with suppress(Fenced):
            deliveries[number].start(arrow_table(SMALL, [(number, "a")] * number), number)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(begin, deliveries))
    assert held(postgres_dsn, table) == small(3, 3, 3)
    assert deliveries[3].delivered() == 3
