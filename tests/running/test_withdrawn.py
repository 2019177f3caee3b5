"""Copies and slots that nobody asks for any more are dropped, sooner or later, and nothing else is."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.publications import publish
from headrace.connect.postgres.sessions import connect_session
from headrace.connect.postgres.slots import capture_names, create_slot
from headrace.connect.postgres.source import slot_of
from headrace.model.catalogue import DeltaFolder, PostgresTable
from headrace.model.errors import LeaseHeld
from headrace.model.notes import CaptureSlot, DeliveredCopy, note_keys
from headrace.model.relation import Field
from headrace.model.types import BIGINT
from headrace.run.ports import Ledger
from headrace.site.deadline import Deadline
from headrace.site.deliver.copies import Copied, target_of
from headrace.site.deliver.leftovers import read_noted
from headrace.site.deliver.withdrawn import Withdrawals
from headrace.site.folder import Folder
from headrace.site.troubles import WITHDRAWAL
from tests.running.running_project import until

ORDERS = DeliveredCopy("shop", "orders", "open_orders", DeltaFolder("out/${WHERE}"))
RETURNS = DeliveredCopy("shop", "returns", "open_returns", DeltaFolder("out/returns"))
ELSEWHERE = DeliveredCopy("shop", "orders", "open_orders", PostgresTable("${DSN}", "orders"))
HERE = {"WHERE": "orders"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_sqlite(tmp_path / "ledger.db")
    yield opened
    opened.close()


def told(found: Withdrawals) -> dict[str, str]:
    """Troubles by note."""
    return {key.removeprefix(WITHDRAWAL): trouble.what for key, trouble in found.troubles.all().items()}


def withdrawals(folder: Path, ledger: Ledger, *copies: DeliveredCopy) -> Withdrawals:
    """As a service has them that has just been started; the copies are noted and made."""
    made = Withdrawals(Folder(folder), ledger, ledger.acquire("service", "test", 0), lambda: pytest.fail("no store"))
    made.keep(copies)
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
    assert note_keys(ledger, DeliveredCopy) == [RETURNS.key]
    assert told(found) == {}


def test_a_service_that_is_started_later_drops_what_could_not_be_dropped_before(tmp_path: Path, ledger: Ledger) -> None:
    before = withdrawals(tmp_path, ledger, ORDERS)
    before.run([], {})
    assert 'folder "out/${WHERE}" of contract "orders"' in told(before)[ORDERS.name]
    assert '"WHERE" is not set' in told(before)[ORDERS.name]
    before.end(Deadline(10))
    after = withdrawals(tmp_path, ledger)
    after.run([], HERE)
    assert there(tmp_path) == []
    assert note_keys(ledger, DeliveredCopy) == []


def test_what_is_asked_for_again_meanwhile_stays(tmp_path: Path, ledger: Ledger) -> None:
    found = withdrawals(tmp_path, ledger, ORDERS)
    environment = dict[str, str]()
    found.run([], environment)
    assert told(found)
    found.run([ORDERS], environment)
    environment |= HERE
    assert told(found) == {}
    found.run([ORDERS], HERE)
    assert there(tmp_path) == ["orders", "orders_changes"]
    assert note_keys(ledger, DeliveredCopy) == [ORDERS.key]


def test_it_is_tried_again_until_it_works(tmp_path: Path, ledger: Ledger) -> None:
    found, environment = withdrawals(tmp_path, ledger, ORDERS), dict[str, str]()
    found.run([], environment)
    assert told(found)
    environment |= HERE
    until(lambda: there(tmp_path) == [] and not note_keys(ledger, DeliveredCopy), "it is dropped")
    until(lambda: told(found) == {}, "nothing is left to tell")


def test_what_somebody_else_has_put_there_is_left_alone_and_forgotten(tmp_path: Path, ledger: Ledger) -> None:
    found = withdrawals(tmp_path, ledger)
    found.keep([ORDERS])
    (tmp_path / "out" / "orders").mkdir(parents=True)
    (tmp_path / "out" / "orders" / "mine.txt").write_text("mine")
    found.run([], HERE)
    assert (tmp_path / "out" / "orders" / "mine.txt").read_text() == "mine"
    assert note_keys(ledger, DeliveredCopy) == []


def test_notes_are_read_as_they_were_written_and_hold_no_secret() -> None:
    for copy in (ORDERS, RETURNS, ELSEWHERE):
        assert DeliveredCopy.from_text(copy.key, copy.to_text()) == copy
    assert len({ORDERS.name, RETURNS.name, ELSEWHERE.name}) == 3
    assert "${DSN}" in ELSEWHERE.to_text()
    capture = slot_of("shop:/here", "dsn", "${DSN}")
    assert CaptureSlot.from_text(capture.key, capture.to_text()) == capture
    assert capture.name != slot_of("shop:/there", "dsn", "${DSN}").name


# Slots


@pytest.fixture
def dsn(postgres_database: Callable[[], str]) -> str:
    return postgres_database()


def captured(folder: Path, dsn: str) -> CaptureSlot:
    """The slot and the publications of a capture by the project in a folder, which nobody reads."""
    capture = slot_of(f"shop:{folder.absolute()}", "dsn", "${DSN}")
    with connect_session(dsn) as session:
        for publication in capture_names(capture.project, capture.database).publications:
            publish(session, publication, {}, "insert")
        create_slot(session, capture.slot)
    return capture


def in_database(dsn: str) -> int:
    """Slots and publications."""
    with psycopg.connect(dsn) as session:
        (found,) = session.execute(
            "SELECT (SELECT count(*) FROM pg_replication_slots WHERE database = current_database())"
            " + (SELECT count(*) FROM pg_publication)"
        ).fetchall()
        return int(found[0])


def is_held(ledger: Ledger, lease: str) -> bool:
    try:
        ledger.release(ledger.acquire(lease, "capture", 60))
    except LeaseHeld:
        return True
    return False


def test_slot_and_publications_that_nobody_asks_for_are_dropped(tmp_path: Path, ledger: Ledger, dsn: str) -> None:
    found, capture = withdrawals(tmp_path, ledger), captured(tmp_path, dsn)
    found.keep([capture])
    found.run([capture], {"DSN": dsn})
    assert in_database(dsn) == 3
    found.run([], {"DSN": dsn})
    assert in_database(dsn) == 0
    assert read_noted(ledger) == {}


def test_a_slot_is_named_until_its_address_is_known_and_its_capture_has_ended(
    tmp_path: Path, ledger: Ledger, dsn: str
) -> None:
    found, capture = withdrawals(tmp_path, ledger), captured(tmp_path, dsn)
    found.keep([capture])
    environment = dict[str, str]()
    found.run([], environment)
    assert f'slot "{capture.slot}" of database dsn, which is no longer captured' in told(found)[capture.name]
    assert '"DSN" is not set' in told(found)[capture.name]
    capturing = ledger.acquire(capture_names(capture.project, capture.database).lease, "capture", 60)
    environment["DSN"] = dsn
    until(lambda: "holds the lease" in told(found)[capture.name], "who captures with it goes first")
    assert in_database(dsn) == 3
    ledger.release(capturing)
    until(lambda: in_database(dsn) == 0 and told(found) == {}, "it is dropped")


def test_the_slot_of_the_folder_that_a_project_was_copied_from_is_left_alone(
    tmp_path: Path, ledger: Ledger, dsn: str
) -> None:
    found, capture = withdrawals(tmp_path / "copy", ledger), captured(tmp_path, dsn)
    found.keep([capture])
    found.run([], {"DSN": dsn})
    assert in_database(dsn) == 3
    assert f'it belongs to the project in "{tmp_path}", and nobody reads it' in told(found)[capture.name]
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("SELECT pg_drop_replication_slot(%s)", [capture.slot])
    until(lambda: not note_keys(ledger, CaptureSlot) and told(found) == {}, "there is nothing to tell any more")


def test_a_database_that_stands_still_keeps_nobody_waiting_and_no_capture_comes_between(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.site.deliver.withdrawn.AT_ONCE_S", 0.2)
    found, capture = withdrawals(tmp_path, ledger), slot_of(f"shop:{tmp_path}", "dsn", "${DSN}")
    found.keep([capture])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        found.run([], {"DSN": f"postgresql://127.0.0.1:{silent.getsockname()[1]}/shop"})
        (what,) = told(found).values()
        assert what.endswith("could not be dropped yet: no answer so far")
        found.keep([capture])
        assert time.monotonic() - began < 60  # it never answers
        assert is_held(ledger, capture_names(capture.project, capture.database).lease)
    until(lambda: not is_held(ledger, capture_names(capture.project, capture.database).lease), "it was called off")
    assert list(read_noted(ledger).values()) == [capture]
