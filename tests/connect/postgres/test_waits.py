"""Other people's locks and open transactions: nobody waits for them in silence, and nobody else waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.checkup import check_up
from headrace.connect.postgres.sessions import check_version, connect_reading, connect_replication, connect_session
from headrace.connect.postgres.waits import find_open_transactions
from headrace.model.errors import ConnectError
from headrace.model.notes import CaptureFailing, read_note
from headrace.model.types import INT, STRING
from headrace.run.capture.spool import CapturedTable
from tests.connect.postgres.capture_place import Place
from tests.connect.postgres.histories import LOOSE, PLAIN, contents
from tests.connect.postgres.spools import bag
from tests.connect.postgres.test_capture_process import wait_for


@contextmanager
def somebody(place: Place, *statements: str) -> Iterator[psycopg.Connection]:
    """A session with a transaction open. It ends by itself, so that what would wait for ever fails."""
    with psycopg.connect(make_conninfo(place.dsn, application_name="till")) as session:
        session.execute("SET idle_in_transaction_session_timeout = '60s'")
        for statement in statements:
            session.execute(statement.encode())
        yield session


def test_every_session_of_ours_waits_for_a_lock_for_a_short_time_only(postgres_dsn: str) -> None:
    for connect in (connect_session, connect_reading, connect_replication):
        with connect(postgres_dsn) as session:
            row = session.execute("SELECT setting::int AS ms FROM pg_settings WHERE name = 'lock_timeout'").fetchone()
            assert row is not None and 0 < row["ms"] <= 5_000


def test_a_table_that_somebody_locks_holds_up_no_other_and_is_named_if_it_has_to_be_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    place.execute("INSERT INTO plain VALUES (1, 0, 'x')")
    with closing(place.capture(LOOSE)) as capture:
        capture.catch_up()
        with somebody(place, "LOCK TABLE plain, loose IN ACCESS EXCLUSIVE MODE") as other:
            for _ in range(3):
                capture.step(0.01)  # looks at tables
            assert other.execute("SELECT 1").fetchone() == (1,)
    locked = somebody(place, "LOCK TABLE plain IN ACCESS EXCLUSIVE MODE")
    with locked as other, closing(place.capture(PLAIN, LOOSE)) as capture:
        place.execute("INSERT INTO loose VALUES ('goes on', 1)")
        capture.catch_up()
        assert place.captured(LOOSE) == bag([("goes on", 1)])
        why = place.ledger.notes("quarantine:")["quarantine:plain"]
        assert why.startswith(f"table public.plain is locked by process {other.info.backend_pid} (")
        assert 'application "till"' in why and " since 20" in why
        hint = place.ledger.notes("mend:")["mend:plain"]
        assert hint == f"end its transaction, or: SELECT pg_terminate_backend({other.info.backend_pid});"
        capture._session.execute("SET lock_timeout = 0")  # looks at stopped tables have a limit of their own
        for _ in range(3):
            capture.step(0.01)
        assert place.ledger.notes("quarantine:")["quarantine:plain"] == why
        other.commit()
        with pytest.raises(ConnectError, match="can be captured again"):
            wait_for(lambda: capture.step(0.01) is None)
    with closing(place.capture(PLAIN, LOOSE)) as capture:
        capture.catch_up()
    assert place.captured(PLAIN) == contents(place.connection, PLAIN)
    assert place.ledger.notes("quarantine:") == {}


def test_a_table_is_read_after_who_wrote_to_it_before_it_was_published_and_names_who_that_is(place: Place) -> None:
    with closing(place.capture(LOOSE)) as capture:
        capture.catch_up()

    def is_told(capture: Capture) -> bool:
        capture.step(0.01)
        note = read_note(place.ledger, CaptureFailing, "main")
        return note is not None and f"process {pid}" in note.why and f"pg_terminate_backend({pid})" in str(note.hint)

    with somebody(place, "INSERT INTO plain VALUES (1, 0, 'early')") as other:
        pid = other.info.backend_pid
        for _ in range(2):  # one that is started again has not forgotten for whom it waits
            with closing(place.capture(PLAIN, LOOSE)) as capture:
                wait_for(lambda: is_told(capture))
        place.execute("INSERT INTO loose VALUES ('goes on', 1)")
        with closing(place.capture(PLAIN, LOOSE)) as capture:
            wait_for(lambda: is_told(capture))
            assert place.captured(LOOSE) == bag([("goes on", 1)])
            other.commit()
            capture.catch_up()
    assert read_note(place.ledger, CaptureFailing, "main") is None
    assert place.captured(PLAIN) == contents(place.connection, PLAIN) == bag([(1, "early")])


SLOW = CapturedTable("slow", "us", "slow", (("id", INT), ("v", STRING)), static=True)
WAIT = """CREATE FUNCTION wait_for_turn() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN LOOP
    IF pg_try_advisory_xact_lock(4711) THEN RETURN 'done'; END IF;
    PERFORM pg_sleep(0.05);
END LOOP; END $$;
CREATE VIEW slow AS SELECT 1 AS id, wait_for_turn() AS v"""


def test_a_statement_that_takes_long_is_named_and_its_capture_is_not_taken_for_one_that_stands_still(
    place: Place,
) -> None:
    with psycopg.connect(place.dsn, autocommit=True) as session:
        session.execute(WAIT.encode())

    def until() -> float:
        held = place.ledger.find_lease("capture:main")
        assert held is not None
        return held.until

    with closing(place.capture(SLOW, LOOSE)) as capture:
        with somebody(place, "SELECT pg_advisory_xact_lock(4711)") as other:
            before = until()
            thread = threading.Thread(target=capture.catch_up)
            thread.start()
            wait_for(lambda: (note := read_note(place.ledger, CaptureFailing, "main")) is not None
                     and "on one statement that reads" in note.why and until() > before)  # fmt: skip
            other.commit()
            thread.join(60)
        capture.catch_up()
        assert place.captured(SLOW) == bag([(1, "done")])
    assert read_note(place.ledger, CaptureFailing, "main") is None


def test_a_server_that_is_too_old_for_sources_is_refused_in_words() -> None:
    check_version(150000)
    with pytest.raises(ConnectError, match="the server is PostgreSQL 14, and sources need PostgreSQL 15 or later"):
        check_version(140022)


def test_a_slot_that_waits_for_open_transactions_names_them_one_after_the_other(place: Place) -> None:
    opened: list[Capture] = []

    def is_told(*words: str) -> bool:
        note = read_note(place.ledger, CaptureFailing, "main")
        return note is not None and all(word in f"{note.why} {note.hint}" for word in words)

    with somebody(place, "INSERT INTO plain VALUES (1, 0, 'open')") as other:
        pid = other.info.backend_pid
        with somebody(place, "INSERT INTO ticks VALUES (1)", "PREPARE TRANSACTION 'gid''s'"):
            thread = threading.Thread(target=lambda: opened.append(place.capture(PLAIN)))
            thread.start()
            wait_for(lambda: is_told(f"process {pid}", '"till"', f"pg_terminate_backend({pid})", "1 more is open"))
            other.commit()
            wait_for(lambda: is_told('prepared transaction "gid\'s"', "ROLLBACK PREPARED 'gid''s';"))
            with connect_session(place.dsn) as session:
                assert find_open_transactions(session, older_than_s=3600.0) is None
            wait_for(lambda: (found := check_up(place.dsn, "no slot").waits_for) is not None and "gid's" in str(found))
            place.execute("ROLLBACK PREPARED 'gid''s'")
            thread.join(60)
    with closing(opened[0]) as capture:
        capture.catch_up()
    assert read_note(place.ledger, CaptureFailing, "main") is None
    assert place.captured(PLAIN) == contents(place.connection, PLAIN)
