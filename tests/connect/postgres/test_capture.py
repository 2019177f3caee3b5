"""Capture from a real PostgreSQL: what the spools lead to is what the tables held, after every transaction."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.connect.postgres.give_back import give_back
from headrace.connect.postgres.sessions import Connection, connect_session
from headrace.connect.postgres.slots import capture_names, remove_capture
from headrace.model.errors import LeaseHeld
from headrace.model.log import Commit, Lease
from headrace.model.notes import CapturedUpTo, read_note
from headrace.model.types import INT, STRING
from headrace.run.capture.clock import clock_now
from headrace.run.capture.position import Position
from headrace.run.capture.spool import CapturedTable
from tests.connect.postgres.capture_place import Place, check_every_time
from tests.connect.postgres.histories import LOOSE, PLAIN, WIDE, History, contents
from tests.connect.postgres.spools import bag, spool_rows


@pytest.mark.parametrize("seed", range(4))
def test_spools_lead_to_what_the_tables_held_after_every_transaction(place: Place, seed: int):
    history = History(place.connection, random.Random(seed))
    for _ in range(5):
        history.transaction()
    history.big_transaction(10)
    capture = place.capture()
    for number in range(40):
        history.transaction()
        if number % 10 == seed:
            history.big_transaction(2_000)
        if number % 7 == seed:
            capture.step(0.05)
        if number % 13 == seed:
            capture.close()
            capture = place.capture()
    capture.catch_up()
    capture.close()
    check_every_time(place, history)


class FailingLedger:
    """Fails at the nth commit: before it is done, or after it."""

    def __init__(self, ledger: SqlLedger, at: int, after: bool) -> None:
        self._ledger, self._left, self._after = ledger, at, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def commit(self, lease: Lease, commit: Commit) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise OSError("the disk is full")
        self._ledger.commit(lease, commit)
        if self._left == 0:
            raise OSError("the answer was lost")


def drop_slot(place: Place) -> None:
    with connect_session(place.dsn) as session:
        session.execute("SELECT pg_drop_replication_slot(%s)", [capture_names("test", "main").slot])


def step_until_it_fails(capture: Capture, history: History) -> None:
    for _ in range(1000):
        history.transaction(1)
        capture.step(0.01)


def test_a_failure_at_any_commit_loses_nothing_and_doubles_nothing(place: Place):
    history = History(place.connection, random.Random(5))
    history.big_transaction(300)
    for number in range(24):
        history.transaction()
        if number % 6 == 0:
            history.big_transaction(1_500)
        if number in (12, 13, 18):
            drop_slot(place)
            history.transaction()
        failing = FailingLedger(place.ledger, at=1 + number % 3, after=number % 2 == 0)
        capture = Capture(place.settings(), failing, place.store)
        with pytest.raises(OSError, match=r"disk|answer"):
            step_until_it_fails(capture, history)
        capture.close()
    capture = place.capture()
    capture.catch_up()
    capture.close()
    check_every_time(place, history)


def test_a_transaction_that_is_open_for_long_is_captured_when_it_commits(place: Place):
    capture = place.capture(PLAIN)
    capture.catch_up()
    with psycopg.connect(place.dsn) as other:
        other.execute("INSERT INTO plain SELECT g, 0, 'open' FROM generate_series(1, 5000) g")
        place.execute("INSERT INTO plain VALUES (-1, 0, 'meanwhile')")
        capture.catch_up()
        assert place.captured(PLAIN) == bag([(-1, "meanwhile")])
        other.commit()
    capture.catch_up()
    capture.close()
    assert place.captured(PLAIN) == contents(place.connection, PLAIN)


def test_few_large_rows_go_to_files_before_they_fill_the_memory(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.connect.postgres.capture.BYTES_IN_MEMORY", 20_000)
    capture = place.capture(PLAIN, LOOSE)
    capture.catch_up()
    with place.connection.transaction():
        place.execute("INSERT INTO plain SELECT g, 0, repeat('x', 10000) FROM generate_series(1, 20) g")
        place.execute("INSERT INTO loose SELECT repeat('y', 10000), g FROM generate_series(1, 20) g")
    capture.catch_up()
    place.execute("INSERT INTO plain VALUES (99, 0, repeat('z', 30000))")
    capture.catch_up()
    capture.close()
    for table in (PLAIN, LOOSE):
        assert place.captured(table) == contents(place.connection, table)


def test_the_address_is_not_shown(place: Place):
    assert place.dsn not in repr(place.settings())


def test_an_idle_database_moves_on_by_heartbeats(place: Place):
    capture = place.capture()
    first = capture.catch_up().t
    assert capture.catch_up().t > first
    capture.close()
    commit_marks = place.ledger.commit_marks("main", first, 100)
    assert commit_marks
    assert abs(commit_marks[0].commit_time - clock_now()) < 60_000_000


def test_times_rise_across_restarts_although_our_clock_was_put_back(place: Place):
    clock = [2_000_000_000_000_000]
    first = Capture(place.settings(), place.ledger, place.store, now=lambda: clock[0])
    before = first.catch_up().t
    first.close()
    assert before >= 2_000_000_000_000_000
    clock[0] = 1_000
    second = Capture(place.settings(), place.ledger, place.store, now=lambda: clock[0])
    place.execute("INSERT INTO plain VALUES (1, 0, 'x')")
    assert second.catch_up().t > before
    second.close()
    assert place.captured(PLAIN) == bag([(1, "x")])


def test_two_databases_share_a_clock_and_nothing_else(place: Place, postgres_database: Callable[[], str]):
    other_dsn = postgres_database()
    with psycopg.connect(other_dsn, autocommit=True) as other:
        other.execute("CREATE TABLE far (k int PRIMARY KEY)")
        far = CapturedTable("far", "eu", "far", (("k", INT),), ("k",))
        settings = CaptureSettings("test", "second", other_dsn, (far,), place.folder / "scratch")
        one, two = place.capture(PLAIN), Capture(settings, place.ledger, place.store)
        one.catch_up()
        two.catch_up()
        place.execute("INSERT INTO plain VALUES (1, 0, 'x')")
        earlier = one.catch_up().t
        other.execute("INSERT INTO far VALUES (1)")
        two.catch_up()
        one.close()
        two.close()
    assert spool_rows(far, place.ledger, place.store)[-1]["__t"] > earlier
    assert place.captured(far) == bag([(1,)])


def test_changes_missed_with_a_lost_slot_are_found_by_reading_again(place: Place):
    history = History(place.connection, random.Random(1))
    for _ in range(20):
        history.transaction()
    place.execute("INSERT INTO plain VALUES (77, 0, 'to be deleted'), (78, 0, 'to stay')")
    place.execute("INSERT INTO loose VALUES ('to stay', 1), ('to go', 2)")
    capture = place.capture()
    capture.catch_up()
    capture.close()
    drop_slot(place)
    place.execute("DELETE FROM plain WHERE id = 77;\nDELETE FROM loose WHERE v = 'to go'")
    lost_at = place.ledger.times()["spool:plain"]
    capture = place.capture()
    place.execute("INSERT INTO plain VALUES (79, 0, 'new')")
    capture.step(0.0)
    assert place.ledger.notes("missed:")["missed:plain"] == str(lost_at)
    capture.catch_up()
    capture.close()
    assert place.ledger.notes("missed:") == {}
    for table in (PLAIN, WIDE, LOOSE):
        assert place.captured(table) == contents(place.connection, table)
    operations = [row["__op"] for row in spool_rows(PLAIN, place.ledger, place.store)]
    assert operations.count("b") == operations.count("e") == 1


def test_a_slot_made_anew_before_a_crash_is_not_taken_for_the_lost_one(place: Place):
    place.execute("INSERT INTO plain VALUES (1, 0, 'x'), (2, 0, 'y');\nINSERT INTO loose VALUES ('a', 1)")
    capture = place.capture(PLAIN, LOOSE)
    capture.catch_up()
    capture.close()
    drop_slot(place)
    place.execute("DELETE FROM plain WHERE id = 1;\nDELETE FROM loose")
    place.capture(PLAIN, LOOSE).close()
    capture = place.capture(PLAIN, LOOSE)
    capture.step(0.01)
    capture.close()
    capture = place.capture(PLAIN, LOOSE)
    capture.catch_up()
    capture.close()
    assert place.captured(PLAIN) == bag([(2, "y")])
    assert place.captured(LOOSE) == bag([])


def test_a_position_beyond_the_end_of_the_log_is_of_a_database_that_was_restored(place: Place):
    place.execute("INSERT INTO plain VALUES (1, 0, 'x')")
    capture = place.capture(PLAIN)
    capture.catch_up()
    capture.close()
    note = read_note(place.ledger, CapturedUpTo, "main")
    position = None if note is None else Position.from_note(note)
    assert position is not None
    lease = place.ledger.acquire("capture:main", "test", 10)
    ahead = dataclasses.replace(position, lsn=position.lsn + (1 << 40))
    place.ledger.commit(lease, Commit(notes=(ahead.to_note("main"),)))
    place.ledger.release(lease)
    place.execute("DELETE FROM plain;\nINSERT INTO plain VALUES (2, 0, 'y')")
    capture = place.capture(PLAIN)
    capture.catch_up()
    capture.close()
    assert place.captured(PLAIN) == bag([(2, "y")])


def test_two_sources_may_be_one_table(place: Place):
    again = CapturedTable("again", "eu", "plain", (("v", STRING), ("id", PLAIN.columns[0][1])), ("id",))
    capture = place.capture(PLAIN, again)
    place.execute("INSERT INTO plain VALUES (1, 0, 'x')")
    capture.catch_up()
    capture.close()
    assert place.captured(PLAIN) == bag([(1, "x")])
    assert place.captured(again) == bag([("x", 1)])


def test_a_stream_takes_insertions_and_leaves_its_table_free_to_be_cleaned(place: Place):
    place.execute("CREATE TABLE events (n int);\nINSERT INTO events VALUES (1)")
    events = CapturedTable("events", "us", "events", (("n", INT),), (), appends=True)
    capture = place.capture(events)
    capture.catch_up()
    place.execute("INSERT INTO events VALUES (2), (2);\nDELETE FROM events WHERE n = 1;\nUPDATE events SET n = 9")
    capture.catch_up()
    capture.close()
    assert place.captured(events) == bag([(1,), (2,), (2,)])


def test_the_state_of_the_slot_tells_what_it_keeps(place: Place):
    capture = place.capture(PLAIN)
    capture.catch_up()
    before = capture.state()
    assert before is not None
    assert before.active
    assert not before.lost
    place.execute("INSERT INTO plain SELECT g, 0, 'x' FROM generate_series(1, 10000) g")
    behind = capture.state()
    assert behind is not None
    assert behind.behind_bytes > before.behind_bytes + 100_000
    deadline = time.monotonic() + 60  # the server notes what was confirmed when it comes to it
    while True:
        capture.catch_up()
        after = capture.state()
        assert after is not None
        if after.behind_bytes < behind.behind_bytes:
            break
        assert time.monotonic() < deadline, "what was captured stays in the log"
    capture.close()


def left_in(session: Connection) -> list[str]:
    rows = session.execute(
        "SELECT pubname AS name FROM pg_publication UNION ALL"
        " SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    )
    return [row["name"] for row in rows]


def test_removing_a_capture_leaves_nothing_in_the_database(place: Place):
    capture = place.capture()
    capture.catch_up()
    capture.close()
    with connect_session(place.dsn) as session:
        remove_capture(session, capture_names("test", "main"))
        remove_capture(session, capture_names("test", "main"))
        assert left_in(session) == []


def test_publications_that_somebody_else_made_are_left_when_a_capture_is_removed(place: Place):
    capture, names = place.capture(), capture_names("test", "main")
    capture.catch_up()
    capture.close()
    with connect_session(place.dsn) as session:
        session.execute('DROP ROLE IF EXISTS "Reader"; CREATE ROLE "Reader" REPLICATION; SET ROLE "Reader"')
        remove_capture(session, names)
        assert sorted(left_in(session)) == sorted(names.publications)
        session.execute('RESET ROLE; DROP ROLE "Reader"')


def test_a_capture_and_who_gives_its_slot_back_keep_out_of_each_others_way(place: Place):
    capture, names = place.capture(), capture_names("test", "main")
    capture.catch_up()
    with pytest.raises(LeaseHeld):
        give_back(names, place.dsn, place.ledger, lambda: False)
    capture.close()
    lease = place.ledger.acquire(names.lease, "who gives it back", 10)
    with pytest.raises(LeaseHeld):
        place.capture()
    place.ledger.release(lease)
    place.capture().close()
    give_back(names, place.dsn, place.ledger, lambda: True)
    with connect_session(place.dsn) as session:
        assert len(left_in(session)) == 3
        give_back(names, place.dsn, place.ledger, lambda: False)
        assert left_in(session) == []
