"""Sources whose tables are not what they were: they stop, by name, and all others go on."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from psycopg.conninfo import make_conninfo

from headrace.connect.postgres.process import Wanted, run
from headrace.model.errors import ConnectError
from headrace.model.types import INT, Decimal
from headrace.run.capture.spool import CapturedTable
from tests.connect.postgres.capture_place import Place
from tests.connect.postgres.histories import LOOSE, PLAIN, TABLES, WIDE
from tests.connect.postgres.spools import bag
from tests.connect.postgres.test_capture_process import wait_for


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
    told: list[str] = []
    stop = threading.Event()
    settings = Wanted(place.settings(PLAIN)), place.ledger, place.store, stop
    thread = threading.Thread(target=run, args=(*settings, lambda event, **_: told.append(event)))
    thread.start()
    try:
        wait_for(lambda: "opened" in told)
        place.execute("ALTER TABLE simple RENAME TO plain")
        wait_for(lambda: not place.ledger.notes("quarantine:") and place.captured(PLAIN) == bag([(1, "x")]))
    finally:
        stop.set()
        thread.join(60)
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


def test_a_table_that_may_not_be_read_or_published_stops_its_source_alone_until_that_is_mended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = "stopped_reader"
    place.execute(f"""DROP ROLE IF EXISTS {role};
CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x';
GRANT CREATE ON DATABASE {place.connection.info.dbname} TO {role};
ALTER TABLE ticks OWNER TO {role};
ALTER TABLE plain OWNER TO {role};
REVOKE SELECT ON plain FROM {role};
GRANT SELECT ON loose TO {role};
INSERT INTO ticks VALUES (0)""")
    weak = replace(place, dsn=make_conninfo(place.dsn, user=role, password="x"))
    tables = [one for one in TABLES if one.source in ("ticks", "plain", "loose")]
    try:
        capture = weak.capture(*tables)
        capture.catch_up()
        notes = place.ledger.notes()
        assert notes["quarantine:plain"] == f'role "{role}" may not read public.plain'
        assert notes["mend:plain"] == f"GRANT SELECT ON public.plain TO {role};"
        assert notes["quarantine:loose"].startswith('public.loose belongs to role "postgres"')
        assert "loaded:ticks" in notes and "loaded:plain" not in notes
        place.execute(notes["mend:plain"].removesuffix(";"))
        place.execute(notes["mend:loose"].partition(";")[0])
        monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
        with pytest.raises(ConnectError, match="can be captured again"):
            capture.step()
        capture.close()
        capture = weak.capture(*tables)
        capture.catch_up()
        capture.close()
        assert place.ledger.notes("quarantine:") == place.ledger.notes("mend:") == {}
        assert {"loaded:plain", "loaded:loose"} <= place.ledger.notes("loaded:").keys()
    finally:
        place.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER;\nDROP OWNED BY {role};\nDROP ROLE {role}")
