"""Sources whose tables are not what they were: they stop, by name, and all others go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.connect.postgres.process import Wanted, run
from headrace.connect.postgres.sessions import connect_session
from headrace.connect.postgres.slots import SqlTable
from headrace.connect.postgres.spool_target import SpoolTarget
from headrace.connect.postgres.unheld import is_still_there
from headrace.model.errors import ConnectError
from headrace.model.notes import SourceUnreadable, read_note
from headrace.model.types import DATE, INT, STRING, TIMESTAMP, Array, Decimal
from headrace.run.capture.spool import CapturedTable, SpoolRows, UnheldValue
from tests.connect.postgres.capture_place import Place
from tests.connect.postgres.histories import LOOSE, PLAIN, TICKS, WIDE
from tests.connect.postgres.spools import bag
from tests.connect.postgres.test_capture_process import wait_for


@contextmanager
def running(place: Place, *tables: CapturedTable) -> Iterator[list[str]]:
    """A capture that is opened again whenever it asks for it; what it tells."""
    told, stop = list[str](), threading.Event()
    wanted = Wanted(place.settings(*tables)), place.ledger, place.store, stop
    thread = threading.Thread(target=run, args=(*wanted, lambda event, **_: told.append(event)))
    thread.start()
    try:
        yield told
    finally:
        stop.set()
        thread.join(60)


def test_a_column_that_goes_stops_its_source_alone(place: Place, monkeypatch: pytest.MonkeyPatch):
    capture = place.capture()
    capture.catch_up()
    place.execute("ALTER TABLE plain ADD COLUMN harmless int DEFAULT 5;\nINSERT INTO plain (id, v) VALUES (1, 'x')")
    capture.catch_up()
    assert place.captured(PLAIN) == bag([(1, "x")])
    place.execute("ALTER TABLE plain RENAME COLUMN v TO w;\nINSERT INTO plain (id, w) VALUES (2, 'y')")
    place.execute("INSERT INTO loose VALUES ('goes on', 1)")
    capture.catch_up()
    notes = place.ledger.notes("quarantine:")
    assert notes == {"quarantine:plain": 'column "v" of source "plain" is not in table "public.plain" any more'}
    assert place.captured(LOOSE) == bag([("goes on", 1)])
    times = place.ledger.times()
    assert times["spool:plain"] < times["spool:loose"]
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    capture.step(0.01)
    assert place.ledger.notes("quarantine:") == notes
    place.execute("ALTER TABLE plain RENAME COLUMN w TO v;\nDELETE FROM plain WHERE id = 1")
    with pytest.raises(ConnectError, match="can be captured again"):
        capture.step(0.01)
    capture.close()
    capture = place.capture()
    capture.catch_up()
    capture.close()
    assert place.ledger.notes("quarantine:") == {}
    assert place.captured(PLAIN) == bag([(2, "y")])


def test_a_column_of_another_type_stops_its_source(place: Place):
    capture = place.capture(PLAIN, LOOSE)
    capture.catch_up()
    place.execute("ALTER TABLE plain ALTER COLUMN v TYPE int USING 1;\nINSERT INTO plain VALUES (1, 0, 5)")
    capture.catch_up()
    capture.close()
    assert place.ledger.notes()["quarantine:plain"].endswith(
        'is declared string, and is now integer in table "public.plain"'
    )


def test_a_table_whose_changes_do_not_name_its_rows_any_more_stops_its_source(place: Place):
    capture = place.capture(PLAIN, WIDE)
    capture.catch_up()
    place.execute("ALTER TABLE plain ALTER v SET NOT NULL, ADD UNIQUE (v);\nINSERT INTO plain VALUES (1, 0, 'x')")
    capture.catch_up()
    place.execute("ALTER TABLE plain REPLICA IDENTITY USING INDEX plain_v_key;\nDELETE FROM plain")
    capture.catch_up()
    capture.close()
    why = place.ledger.notes()["quarantine:plain"]
    assert why == 'changes of table "public.plain" of source "plain" do not name rows by id any more'


def test_a_table_that_was_renamed_is_taken_again_when_it_has_its_name_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    capture = place.capture(PLAIN)
    capture.catch_up()
    place.execute("ALTER TABLE plain RENAME TO simple;\nINSERT INTO simple VALUES (1, 0, 'x')")
    capture.catch_up()
    assert place.ledger.notes()["quarantine:plain"].endswith('is now called "public.simple"')
    capture.close()
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    with running(place, PLAIN) as told:
        wait_for(lambda: "opened" in told)
        place.execute("ALTER TABLE simple RENAME TO plain")
        wait_for(lambda: not place.ledger.notes("quarantine:") and place.captured(PLAIN) == bag([(1, "x")]))
    assert "recovered" in told and "failed" not in told, "that a table is back is no failure"


def test_a_table_that_was_renamed_or_dropped_stops_its_source(place: Place):
    capture = place.capture(PLAIN, WIDE, LOOSE)
    capture.catch_up()
    place.execute("ALTER TABLE plain RENAME TO simple;\nINSERT INTO simple VALUES (1, 0, 'x');\nDROP TABLE loose")
    capture.catch_up()
    assert place.ledger.notes()["quarantine:plain"].endswith('is now called "public.simple"')
    capture.close()
    capture = place.capture(PLAIN, WIDE, LOOSE)
    capture.catch_up()
    capture.close()
    assert place.ledger.notes()["quarantine:loose"] == 'table "loose" of source "loose" no longer exists'
    assert "quarantine:wide" not in place.ledger.notes()


def test_a_value_that_cannot_be_held_stops_its_source_and_is_never_changed(place: Place):
    place.execute("CREATE TABLE prices (k int PRIMARY KEY, p numeric(10,2))")
    prices = CapturedTable("prices", "us", "prices", (("k", INT), ("p", Decimal(10, 2))), ("k",))
    capture = place.capture(PLAIN, prices)
    capture.catch_up()
    place.execute("INSERT INTO prices VALUES (1, 'NaN');\nINSERT INTO plain VALUES (1, 0, 'x')")
    capture.catch_up()
    capture.close()
    assert "NaN is none of decimal(10,2)" in place.ledger.notes()["quarantine:prices"]
    assert place.captured(PLAIN) == bag([(1, "x")])


ROLE = "stopped_reader"


@pytest.fixture
def weak(place: Place) -> Iterator[Place]:
    """The same place for a role that owns two tables, and asks for row-level security if nobody forbids it."""
    place.execute(f"""DROP ROLE IF EXISTS {ROLE};
CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD 'x';
GRANT CREATE ON DATABASE {place.connection.info.dbname} TO {ROLE};
ALTER TABLE ticks OWNER TO {ROLE};
ALTER TABLE plain OWNER TO {ROLE};
INSERT INTO ticks VALUES (0)""")
    yield replace(place, dsn=make_conninfo(place.dsn, user=ROLE, password="x", options="-c row_security=on"))
    place.execute(f"REASSIGN OWNED BY {ROLE} TO CURRENT_USER;\nDROP OWNED BY {ROLE};\nDROP ROLE {ROLE}")


def test_a_table_that_may_not_be_read_or_published_stops_its_source_alone_until_that_is_mended(
    weak: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    weak.execute(f"REVOKE SELECT ON plain FROM {ROLE};\nGRANT SELECT ON loose TO {ROLE}")
    with running(weak, TICKS, PLAIN, LOOSE):
        wait_for(lambda: len(weak.ledger.notes("quarantine:")) == 2 and bool(weak.captured(TICKS)))
        notes = weak.ledger.notes()
        assert notes["quarantine:plain"] == f'role "{ROLE}" may not read public.plain'
        assert notes["mend:plain"] == f"GRANT SELECT ON public.plain TO {ROLE};"
        assert notes["quarantine:loose"].startswith('public.loose belongs to role "postgres"')
        assert "loaded:ticks" in notes and "loaded:plain" not in notes
        weak.execute(notes["mend:plain"].removesuffix(";"))
        weak.execute(notes["mend:loose"].partition(";")[0])
        wait_for(lambda: {"loaded:plain", "loaded:loose"} <= weak.ledger.notes("loaded:").keys())
        wait_for(lambda: weak.ledger.notes("quarantine:") == weak.ledger.notes("mend:") == {})


@pytest.mark.parametrize(
    ("taken", "why", "mend"),
    [
        (
            f"REVOKE ALL ON plain FROM {ROLE}",
            f'role "{ROLE}" may not read public.plain',
            f"GRANT SELECT ON public.plain TO {ROLE};",
        ),
        (
            f"GRANT SELECT ON plain TO {ROLE};\nALTER TABLE plain ENABLE ROW LEVEL SECURITY",
            f'row-level security hides rows of public.plain from role "{ROLE}"',
            f"ALTER ROLE {ROLE} BYPASSRLS;",
        ),
    ],
)
def test_a_right_to_read_that_is_taken_away_is_said_although_changes_still_come(
    weak: Place, monkeypatch: pytest.MonkeyPatch, taken: str, why: str, mend: str
) -> None:
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    with running(weak, TICKS, PLAIN):
        wait_for(lambda: "loaded:plain" in weak.ledger.notes())
        weak.execute(f"ALTER TABLE plain OWNER TO CURRENT_USER;\n{taken};\nINSERT INTO plain VALUES (3, 0, 'later')")
        wait_for(lambda: "unreadable:plain" in weak.ledger.notes())
        assert read_note(weak.ledger, SourceUnreadable, "plain") == SourceUnreadable("plain", why, mend)
        wait_for(lambda: weak.captured(PLAIN) == bag([(3, "later")]))
        weak.execute(mend.removesuffix(";"))
        wait_for(lambda: "unreadable:plain" not in weak.ledger.notes())
        assert "quarantine:plain" not in weak.ledger.notes()


def test_row_level_security_that_binds_our_role_stops_its_source_alone_and_never_leaves_rows_out(
    weak: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    weak.execute("""INSERT INTO plain VALUES (1, 0, 'shown'), (2, 0, 'hidden');
ALTER TABLE plain ENABLE ROW LEVEL SECURITY;
ALTER TABLE plain FORCE ROW LEVEL SECURITY;
CREATE POLICY some_rows ON plain USING (v = 'shown')""")
    with running(weak, TICKS, PLAIN):
        wait_for(lambda: "quarantine:plain" in weak.ledger.notes() and bool(weak.captured(TICKS)))
        notes = weak.ledger.notes()
        assert notes["quarantine:plain"] == f'row-level security hides rows of public.plain from role "{ROLE}"'
        assert notes["mend:plain"] == f"ALTER ROLE {ROLE} BYPASSRLS;"
        assert not weak.captured(PLAIN)
        weak.execute(notes["mend:plain"].removesuffix(";"))
        wait_for(lambda: weak.captured(PLAIN) == bag([(1, "shown"), (2, "hidden")]))


NUMBERED = CapturedTable("numbered", "us", "numbered", (("k", Decimal(38, 18)), ("v", INT)), ("k",))
DATED = CapturedTable("dated", "us", "dated", (("k", DATE), ("v", INT)), ("k",))
TIMED = CapturedTable("timed", "us", "timed", (("k", TIMESTAMP), ("v", INT)), ("k",))
LISTED = CapturedTable("listed", "us", "listed", (("k", Array(INT)), ("v", INT)), ("k",))
CREATE_KEYS = """CREATE TABLE numbered (k numeric PRIMARY KEY, v int);
CREATE TABLE dated (k date PRIMARY KEY, v int);
CREATE TABLE timed (k timestamptz PRIMARY KEY, v int);
CREATE TABLE listed (k int[] PRIMARY KEY, v int)"""
ALIKE = """INSERT INTO numbered VALUES (1, 1), (0.0000000000000000001, 2), (0.0000000000000000002, 3);
INSERT INTO dated VALUES ('2026-01-01', 1), ('0044-03-15 BC', 2), ('0100-07-12 BC', 3);
INSERT INTO timed VALUES ('2026-01-01', 1), ('infinity', 2), ('20000-01-01', 3);
INSERT INTO listed VALUES ('{1,2}', 1), ('[0:1]={1,2}', 2)"""
NEVER = "and a key is never changed to the nearest that is"


@pytest.mark.parametrize("by_the_log", [False, True])
def test_keys_that_our_types_would_make_equal_stop_their_sources_and_are_named(place: Place, by_the_log: bool) -> None:
    place.execute(CREATE_KEYS if by_the_log else f"{CREATE_KEYS};\n{ALIKE}")
    capture = place.capture(NUMBERED, DATED, TIMED, LISTED, PLAIN)
    capture.catch_up()
    place.execute(f"{ALIKE};\nINSERT INTO plain VALUES (1, 0, 'x')" if by_the_log else "INSERT INTO plain VALUES (1)")
    capture.catch_up()
    capture.close()
    notes = place.ledger.notes("quarantine:")
    assert {name: why.partition(": ")[2] for name, why in notes.items()} == {
        "quarantine:numbered": f"the value 0.0000000000000000001 is none of decimal(38,18), {NEVER}",
        "quarantine:dated": f"the value {'0044-03-15' if by_the_log else '0100-07-12'} BC is none of date, {NEVER}",
        "quarantine:timed": f"the value {'infinity' if by_the_log else '20000-01-01 00:00:00+00'} "
        f"is none of timestamp, {NEVER}",
        "quarantine:listed": f"the value [0:1]={{1,2}} is none of array<int>, {NEVER}",
    }
    assert len(place.captured(PLAIN)) == 1


def test_a_source_that_a_value_stopped_goes_on_once_the_value_is_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    place.execute("CREATE TABLE prices (k int PRIMARY KEY, p numeric(10,2));\nINSERT INTO prices VALUES (1, 1)")
    place.execute("CREATE TABLE events (p numeric(10,2));\nALTER TABLE events REPLICA IDENTITY FULL")
    prices = CapturedTable("prices", "us", "prices", (("k", INT), ("p", Decimal(10, 2))), ("k",))
    events = CapturedTable("events", "us", "events", (("p", Decimal(10, 2)),))
    with running(place, prices, events, PLAIN) as told:
        wait_for(lambda: len(place.ledger.notes("loaded:")) == 3)
        place.execute(
            "INSERT INTO prices VALUES (2, 'NaN'), (3, 'NaN'), (4, 4);\nINSERT INTO events VALUES ('NaN'), (5)"
        )
        wait_for(lambda: len(place.ledger.notes("quarantine:")) == 2)
        by_itself = "correct the value or delete its row; the source then resumes by itself"
        large = f"{by_itself}; if its table is large, run `headrace sources reread events`"
        assert place.ledger.notes("mend:") == {"mend:prices": by_itself, "mend:events": large}
        place.execute("INSERT INTO plain VALUES (1, 0, 'x')")
        wait_for(lambda: place.captured(PLAIN) == bag([(1, "x")]))
        assert len(place.ledger.notes("quarantine:")) == 2 and "recovered" not in told, "the values are still there"
        place.execute("DELETE FROM prices WHERE k = 2")
        wait_for(lambda: "recovered" in told)
        wait_for(lambda: len(place.ledger.notes("quarantine:")) == 2)
        place.execute("UPDATE prices SET p = 3 WHERE k = 3;\nDELETE FROM events WHERE p = 'NaN'")
        wait_for(lambda: not place.ledger.notes("quarantine:") and place.captured(events) == bag([(5,)]))
        wait_for(lambda: place.captured(prices) == bag([(1, 1), (3, 3), (4, 4)]))


def insert_latin(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, client_encoding="SQL_ASCII") as connection:
        connection.execute(statement.encode("latin-1"))


def test_a_text_that_is_not_utf_8_stops_its_source_until_it_is_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a database of encoding SQL_ASCII has such texts: also in keys, by which its tables are read."""
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    names = CapturedTable("names", "us", "names", (("k", STRING), ("v", STRING)), ("k",))
    name = f"{place.connection.info.dbname}_bytes"
    place.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C' LOCALE_PROVIDER libc")
    dsn = make_conninfo(place.dsn, dbname=name)
    with psycopg.connect(dsn, autocommit=True, client_encoding="UTF8") as connection:
        here = replace(place, dsn=dsn, connection=connection)
        here.execute("CREATE TABLE names (k text PRIMARY KEY, v text);\nINSERT INTO names VALUES ('größe', 'ü')")
        insert_latin(dsn, "INSERT INTO names VALUES ('\u00ef', 'in Latin-1'), ('\u00fc', 'in Latin-1')")
        with running(here, names):
            wait_for(
                lambda: place.ledger.notes().get("quarantine:names", "").endswith("a text that is not valid UTF-8")
            )
            here.execute("DELETE FROM names WHERE v = 'in Latin-1'")
            wait_for(lambda: place.captured(names) == bag([("größe", "ü")]))
            insert_latin(dsn, "INSERT INTO names VALUES ('by the log', '\u00ef')")
            wait_for(lambda: 'column "v" of' in place.ledger.notes().get("quarantine:names", ""))
            here.execute("UPDATE names SET v = 'ß' WHERE k = 'by the log'")
            wait_for(lambda: place.captured(names) == bag([("größe", "ü"), ("by the log", "ß")]))
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    place.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_search_for_a_value_is_not_repeated_at_once(place: Place) -> None:
    target = SpoolTarget(PLAIN, None, SpoolRows(PLAIN), unheld=UnheldValue("no value", "v", b"x", None))
    with connect_session(place.dsn) as session, session.transaction():
        began = time.monotonic()
        assert not is_still_there(session, target, SqlTable("public", "plain"))
        assert target.look_at > time.monotonic() + 10 * (time.monotonic() - began)


def test_a_table_that_the_server_cannot_read_stops_its_source_alone(place: Place) -> None:
    """A value of an enum is gone from a damaged catalogue, but not from the table."""
    place.execute("""CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE moody (k int PRIMARY KEY, m mood);
INSERT INTO moody VALUES (1, 'sad'), (2, 'glad');
INSERT INTO plain VALUES (1, 0, 'x');
SET allow_system_table_mods = on;
DELETE FROM pg_enum WHERE enumlabel = 'glad'""")
    capture = place.capture(CapturedTable("moody", "us", "moody", (("k", INT), ("m", STRING)), ("k",)), PLAIN)
    capture.catch_up()
    capture.close()
    (why,) = place.ledger.notes("quarantine:").values()
    assert why.startswith("public.moody cannot be read: invalid internal value for enum")
    assert place.captured(PLAIN) == bag([(1, "x")])
