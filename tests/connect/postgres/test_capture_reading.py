"""Tables that are read while others write to them: nothing is lost, whoever comes between."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import Any

import psycopg
import pytest

from headrace.connect.postgres.reading import emit
from headrace.model.errors import ConnectError
from tests.connect.postgres.capture_place import Place, check_every_time
from tests.connect.postgres.histories import LOOSE, NAMES, PLAIN, WIDE, History, contents
from tests.connect.postgres.spools import bag


def test_a_table_added_later_is_read_while_the_others_go_on(place: Place):
    place.execute("INSERT INTO plain VALUES (1, 0, 'x');\nINSERT INTO loose VALUES ('a', 1), ('a', 1), (NULL, 2)")
    first = place.capture(PLAIN)
    first.catch_up()
    first.close()
    place.execute("INSERT INTO plain VALUES (2, 0, 'y');\nDELETE FROM loose WHERE v IS NULL")
    second = place.capture(PLAIN, LOOSE)
    place.execute("INSERT INTO plain VALUES (3, 0, 'z');\nINSERT INTO loose VALUES ('b', 3)")
    second.catch_up()
    second.close()
    for table in (PLAIN, LOOSE):
        assert place.captured(table) == contents(place.connection, table)


def test_a_table_is_not_read_before_those_who_wrote_to_it_unpublished_are_done(place: Place):
    first = place.capture(PLAIN)
    first.catch_up()
    first.close()
    with psycopg.connect(place.dsn) as writer:
        writer.execute("INSERT INTO loose VALUES ('written before', 1)")
        capture = place.capture(PLAIN, LOOSE)
        for _ in range(5):
            capture.step(0.02)
        assert "loaded:loose" not in place.ledger.notes()
        writer.commit()
    capture.catch_up()
    capture.close()
    assert place.captured(LOOSE) == bag([("written before", 1)])


def test_reading_a_large_table_goes_on_where_it_was_interrupted(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.connect.postgres.load.ROWS_AT_ONCE", 100)
    place.execute("INSERT INTO plain SELECT g, 0, 'v' || g FROM generate_series(1, 1000) g;\nANALYZE plain")
    capture = place.capture(PLAIN)
    while "load:plain" not in place.ledger.notes() or '"rows": 300' not in place.ledger.notes()["load:plain"]:
        capture.step(0.01)
    capture.close()
    place.execute("UPDATE plain SET v = 'changed' WHERE id % 50 = 0;\nDELETE FROM plain WHERE id % 77 = 0")
    capture = place.capture(PLAIN)
    progress = [report for _ in range(30) for report in capture.step(0.02).progress]
    capture.close()
    assert progress[0].rows == 400
    assert progress[0].estimate == 1000
    assert progress[-1].complete
    assert place.captured(PLAIN) == contents(place.connection, PLAIN)


def test_tables_are_read_while_they_change(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.connect.postgres.load.ROWS_AT_ONCE", 20)
    place.execute(
        f"INSERT INTO {NAMES['wide']} SELECT g % 40, 'b' || g, repeat('€', 4000), 1 FROM generate_series(1, 100) g"
    )
    place.execute("INSERT INTO loose SELECT 'x', g FROM generate_series(1, 100) g")
    history = History(place.connection, random.Random(3))

    def change_then_emit(session: Any, content: str) -> None:
        """Between the reading of a range and its mark is where what was read gets old."""
        for _ in range(3):
            history.transaction()
        emit(session, content)

    monkeypatch.setattr("headrace.connect.postgres.load.emit", change_then_emit)
    capture = place.capture()
    for _ in range(60):
        history.transaction()
        capture.step(0.005)
    capture.catch_up()
    capture.close()
    check_every_time(place, history)


def test_a_transaction_that_waits_for_the_reader_in_its_own_thread_is_given_up(place: Place):
    history = History(place.connection, random.Random(5))
    history.transaction()
    before = len(history.expected)
    with psycopg.connect(place.dsn) as reader:
        reader.execute("LOCK TABLE loose, plain, ticks IN SHARE MODE")
        history.transaction()
    assert len(history.expected) == before
    history.transaction()
    assert contents(place.connection, LOOSE) == history.expected[-1]["loose"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE plain SET v = 'new' WHERE id = 3",
        "DELETE FROM plain WHERE id = 3",
        "UPDATE plain SET id = 300 WHERE id = 3",
        "TRUNCATE plain",
        "INSERT INTO plain SELECT g, 0, 'many' FROM generate_series(100, 5000) g;\nUPDATE plain SET v = 'many'",
        "UPDATE {wide} SET n = n + 1",
        "UPDATE {wide} SET a = a + 100",
        "DELETE FROM loose WHERE n < 4;\nUPDATE loose SET v = 'new' WHERE n = 5;\nINSERT INTO loose VALUES ('x', 77)",
    ],
)
def test_what_changes_between_a_reading_and_its_mark_wins(
    place: Place, monkeypatch: pytest.MonkeyPatch, statement: str
):
    place.execute("INSERT INTO plain SELECT g, 0, 'old' FROM generate_series(1, 10) g")
    place.execute(f"INSERT INTO {NAMES['wide']} SELECT g, 'b', repeat('€', 4000), 1 FROM generate_series(1, 5) g")
    place.execute("INSERT INTO loose SELECT 'x', g FROM generate_series(1, 10) g")

    changed = threading.Event()

    def change_then_emit(session: Any, content: str) -> None:
        # Once: what takes long on a busy machine is read a second time.
        if content.startswith("close") and not changed.is_set():
            changed.set()
            with place.connection.transaction():
                place.execute(statement.format(**NAMES))
        emit(session, content)

    monkeypatch.setattr("headrace.connect.postgres.load.emit", change_then_emit)
    table = next(one for one in (PLAIN, WIDE, LOOSE) if NAMES[one.source] in statement.format(**NAMES))
    capture = place.capture(table)
    for _ in range(4):
        capture.step(0.05)
    monkeypatch.undo()
    capture.catch_up()
    capture.close()
    assert place.captured(table) == contents(place.connection, table)


def write_at_random(dsn: str, seed: int, stop: threading.Event) -> None:
    """Transactions of several writers, that overlap, wait for each other and fail at times."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        history = History(connection, random.Random(seed))
        while not stop.is_set():
            undone = history.chance.random() < 0.1
            failures = contextlib.suppress(psycopg.errors.OperationalError, psycopg.errors.IntegrityError)
            with failures, connection.transaction(force_rollback=undone):
                for _ in range(history.chance.randint(1, 6)):
                    for statement in history.some_changes():
                        connection.execute(statement.encode())


def test_tables_are_read_while_several_write_to_them_at_once(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.connect.postgres.load.ROWS_AT_ONCE", 3)
    place.execute(f"INSERT INTO {NAMES['wide']} SELECT g, 'b', repeat('€', 4000), 1 FROM generate_series(1, 60) g")
    place.execute("INSERT INTO plain SELECT g, 0, 'p' FROM generate_series(1, 60) g")
    stop = threading.Event()
    writers = [threading.Thread(target=write_at_random, args=(place.dsn, seed, stop)) for seed in range(3)]
    for writer in writers:
        writer.start()

    def capture_for(steps: int) -> None:
        """As a service does: when the server ends it, by a deadlock with who truncates for one, it starts anew."""
        with contextlib.suppress(ConnectError), contextlib.closing(place.capture(PLAIN, WIDE, LOOSE)) as capture:
            for _ in range(steps):
                capture.step(0.02)

    try:
        for _ in range(3):
            capture_for(steps=12)
        while len(place.ledger.notes("loaded:")) < 3:
            capture_for(steps=50)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    with contextlib.closing(place.capture(PLAIN, WIDE, LOOSE)) as capture:
        capture.catch_up()
    for table in (PLAIN, WIDE, LOOSE):
        assert place.captured(table) == contents(place.connection, table)
