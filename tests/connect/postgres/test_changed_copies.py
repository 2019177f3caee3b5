"""What other people do to a delivered table: it is noticed and named, and the table is filled again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest

from headrace.connect.postgres.deliver import PostgresDelivery
from headrace.connect.postgres.delivered_table import DeliveredTable
from headrace.model.errors import ConnectError, CopyChanged, CopyLocked
from tests.connect.delivered_views import View
from tests.connect.postgres.test_deliver import SMALL, execute, held, small, table_of


@dataclass
class Place:
    """A table that holds rows 1, 2 and 3, in two steps."""

    dsn: str
    view: View
    table: DeliveredTable
    delivery: PostgresDelivery

    def check(self) -> None:
        self.delivery.check(self.view.log.t)

    def do(self, *statements: str) -> None:
        execute(self.dsn, *(statement.format(self.table.table) for statement in statements))

    def find_change(self) -> str:
        with pytest.raises(CopyChanged) as raised:
            self.check()
        return raised.value.message

    def fill_again(self) -> None:
        self.view.deliver_to(self.delivery, anew=True)
        self.check()
        assert held(self.dsn, self.table) == self.view.now


@pytest.fixture
def place(postgres_dsn: str, tmp_path: Path) -> Iterator[Place]:
    view = View(tmp_path, SMALL)
    table = table_of(view)
    with closing(PostgresDelivery(postgres_dsn, table, 1)) as delivery:
        view.change(small(1, 2))
        view.deliver_to(delivery)
        view.change(small(3))
        view.deliver_to(delivery)
        delivery.check(view.log.t)
        yield Place(postgres_dsn, view, table, delivery)


CHANGES = {
    "UPDATE {} SET name = 'edited' WHERE id = 2": "1 row of it was written",
    "UPDATE {} SET name = name": "3 rows of it were written",
    "DELETE FROM {} WHERE id = 2": "it has 2 rows instead of 3",
    "INSERT INTO {} VALUES (2, 'a', 0)": "1 row of it was written, and it has 4 rows instead of 3",
    "TRUNCATE {}": "it has 0 rows instead of 3",
    "DROP TABLE {}": "it was dropped",
    "ALTER TABLE {} ADD COLUMN mine int": "its columns are others",
    "ALTER TABLE {} DROP COLUMN name": "its columns are others",
    "ALTER TABLE {} RENAME COLUMN name TO title": "its columns are others",
    "ALTER TABLE {} ALTER COLUMN id TYPE bigint": "its columns are others",
    "DELETE FROM headrace.deliveries WHERE \"table\" = 'public.{}'": "its row in headrace.deliveries is missing",
    "UPDATE headrace.deliveries SET t = t - 1 WHERE \"table\" = 'public.{}'": "it was restored as of another time",
}


def test_whatever_someone_does_to_a_table_is_noticed_and_it_is_filled_again(place: Place) -> None:
    for statement, said in CHANGES.items():
        place.do(statement)
        assert said in place.find_change(), statement
        place.fill_again()
        place.view.change(small(7), -small(1))
        place.view.deliver_to(place.delivery)
        place.view.change(-small(7), small(1))
        place.view.deliver_to(place.delivery)
        place.check()


def test_a_delivery_finds_a_table_that_is_not_where_it_was_left(place: Place) -> None:
    left_at = place.view.log.t
    place.view.change(small(4))
    place.do("DROP TABLE {}")
    with pytest.raises(CopyChanged, match="it was dropped"):
        place.view.deliver_to(place.delivery, expected=left_at)
    place.fill_again()


def test_what_is_done_to_our_own_schema_is_put_right(place: Place) -> None:
    place.do("DROP SCHEMA headrace CASCADE")
    for _ in range(2):  # the first try finds that it is gone
        try:
            place.fill_again()
        except ConnectError:
            continue
    place.check()
    assert held(place.dsn, place.table) == small(1, 2, 3)


def test_a_transaction_that_was_open_during_a_check_is_found_by_the_next(place: Place) -> None:
    with psycopg.connect(place.dsn) as other:
        other.execute("CREATE TEMPORARY TABLE own (a int)")  # it has a number from now on
        with other.transaction():
            other.execute("INSERT INTO own VALUES (1)")
            for number in range(10, 13):
                place.view.change(small(number))
                place.view.deliver_to(place.delivery)
                place.check()
        with other.transaction():
            other.execute(f"UPDATE {place.table.table} SET name = 'late' WHERE id = 2".encode())
    assert "1 row of it was written" in place.find_change()
    place.fill_again()


def test_what_does_not_change_rows_is_no_alarm(place: Place) -> None:
    with psycopg.connect(place.dsn) as other:
        other.execute(f"UPDATE {place.table.table} SET name = 'never'".encode())
        other.rollback()
    place.do("VACUUM FULL {}", "CREATE INDEX ON {} (name)", "GRANT SELECT ON {} TO PUBLIC", "ANALYZE {}")
    place.check()
    with closing(PostgresDelivery(place.dsn, replace(place.table, freshness_s=5.0), 2)) as later:
        place.view.deliver_to(later)
        later.check(place.view.log.t)


def test_a_table_of_ours_that_someone_replaced_by_his_own_is_left_alone(place: Place) -> None:
    place.do("ALTER TABLE {0} RENAME TO {0}_old", "CREATE TABLE {} (id int)", "INSERT INTO {} VALUES (7)")
    with pytest.raises(ConnectError, match="was not created by Headrace"):
        place.check()
    with pytest.raises(ConnectError, match="was not created by Headrace"):
        place.view.deliver_to(place.delivery, anew=True)
    assert execute(place.dsn, f"SELECT * FROM {place.table.table}") == [(7,)]


LOCKS: list[Callable[[psycopg.Connection[tuple[object, ...]], str], object]] = [
    lambda other, table: other.execute(f"LOCK TABLE {table}".encode()),
    lambda other, table: other.execute(f"UPDATE {table} SET name = 'mine' WHERE id = 1".encode()),
]


@pytest.mark.parametrize("lock", LOCKS, ids=["a lock of the table", "a change that is not committed"])
def test_a_delivery_does_not_wait_for_ever_and_names_the_transaction_that_holds_the_lock(
    place: Place, lock: Callable[[psycopg.Connection[tuple[object, ...]], str], object]
) -> None:
    place.view.change(-small(1))
    with psycopg.connect(place.dsn, application_name="psql") as other:
        lock(other, place.table.table)
        with pytest.raises(CopyLocked) as raised:
            place.view.deliver_to(place.delivery)
        pid = other.info.backend_pid
        assert f"is locked by process {pid} (psql, postgres, idle in transaction for " in raised.value.message
        assert f"pg_terminate_backend({pid})" in (raised.value.hint or "")
        other.rollback()
    place.view.deliver_to(place.delivery)
    place.check()
    assert held(place.dsn, place.table) == small(2, 3)
