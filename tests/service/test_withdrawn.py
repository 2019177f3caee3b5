"""Copies that nobody asks for any more are dropped, sooner or later, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.model.catalogue import DeltaFolder, PostgresTable
from headrace.model.relation import Field
from headrace.model.types import BIGINT
from headrace.run.ports import Ledger
from headrace.service.copies import Copied, target_of
from headrace.service.deadline import Deadline
from headrace.service.withdrawn import NOTE, Noted, Withdrawals
from tests.service.running_project import until

ORDERS = Noted("shop", "orders", "open_orders", DeltaFolder("out/${WHERE}"))
RETURNS = Noted("shop", "returns", "open_returns", DeltaFolder("out/returns"))
ELSEWHERE = Noted("shop", "orders", "open_orders", PostgresTable("${DSN}", "orders"))
HERE = {"WHERE": "orders"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_sqlite(tmp_path / "ledger.db")
    yield opened
    opened.close()


def withdrawals(folder: Path, ledger: Ledger, *copies: Noted) -> Withdrawals:
    """As a service has them that has just been started; the copies are noted and made."""
    made = Withdrawals(folder, ledger, ledger.acquire("service", "test", 0))
    made.note(copies)
    for copy in copies:
        about = Copied(copy.project, copy.contract, copy.view, columns=(Field("k", BIGINT),))
        delivery = target_of(about, copy.place, folder, HERE).open(made.lease.epoch)
        delivery.start(pa.table({"k": pa.array([1], pa.int64())}), 5)
        delivery.close()
    return made


def there(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "out").iterdir())


def test_what_is_noted_and_not_asked_for_is_dropped_once_and_the_rest_stays(tmp_path: Path, ledger: Ledger) -> None:
    found = withdrawals(tmp_path, ledger, ORDERS, RETURNS)
    found.run([RETURNS], HERE)
    assert there(tmp_path) == ["returns", "returns_changes"]
    assert list(ledger.notes(NOTE)) == [RETURNS.note]
    assert found.errors == {}


def test_a_service_that_is_started_later_drops_what_could_not_be_dropped_before(tmp_path: Path, ledger: Ledger) -> None:
    before = withdrawals(tmp_path, ledger, ORDERS)
    before.run([], {})
    assert 'folder "out/${WHERE}" of contract "orders"' in before.errors[ORDERS.note]
    assert '"WHERE" is not set' in before.errors[ORDERS.note]
    before.end(Deadline(10))
    after = withdrawals(tmp_path, ledger)
    after.run([], HERE)
    assert there(tmp_path) == []
    assert ledger.notes(NOTE) == {}


def test_what_is_asked_for_again_meanwhile_stays(tmp_path: Path, ledger: Ledger) -> None:
    found = withdrawals(tmp_path, ledger, ORDERS)
    environment = dict[str, str]()
    found.run([], environment)
    assert found.errors
    found.run([ORDERS], environment)
    environment |= HERE
    assert found.errors == {}
    found.run([ORDERS], HERE)
    assert there(tmp_path) == ["orders", "orders_changes"]
    assert list(ledger.notes(NOTE)) == [ORDERS.note]


def test_it_is_tried_again_until_it_works(tmp_path: Path, ledger: Ledger) -> None:
    found, environment = withdrawals(tmp_path, ledger, ORDERS), dict[str, str]()
    found.run([], environment)
    assert found.errors
    environment |= HERE
    until(lambda: there(tmp_path) == [] and not ledger.notes(NOTE), "it is dropped")
    until(lambda: found.errors == {}, "nothing is left to tell")


def test_what_somebody_else_has_put_there_is_left_alone_and_forgotten(tmp_path: Path, ledger: Ledger) -> None:
    found = withdrawals(tmp_path, ledger)
    found.note([ORDERS])
    (tmp_path / "out" / "orders").mkdir(parents=True)
    (tmp_path / "out" / "orders" / "mine.txt").write_text("mine")
    found.run([], HERE)
    assert (tmp_path / "out" / "orders" / "mine.txt").read_text() == "mine"
    assert ledger.notes(NOTE) == {}


def test_notes_are_read_as_they_were_written_and_hold_no_secret() -> None:
    for copy in (ORDERS, RETURNS, ELSEWHERE):
        assert Noted.from_json(copy.to_json()) == copy
    assert len({ORDERS.note, RETURNS.note, ELSEWHERE.note}) == 3
    assert "${DSN}" in ELSEWHERE.to_json()
