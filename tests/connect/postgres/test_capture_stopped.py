"""Sources whose tables are not what they were: they stop, by name, and all others go on."""

from __future__ import annotations

import pytest

from headrace.model.errors import ConnectError
from headrace.model.types import INT, Decimal
from headrace.run.capture.spool import CapturedTable
from tests.connect.postgres.capture_place import Place
from tests.connect.postgres.histories import LOOSE, PLAIN, WIDE
from tests.connect.postgres.spools import bag


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
    with pytest.raises(ConnectError, match="is as it was again"):
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
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    capture.step(0.01)
    place.execute("ALTER TABLE simple RENAME TO plain")
    with pytest.raises(ConnectError, match="is as it was again"):
        capture.step(0.01)
    capture.close()
    capture = place.capture(PLAIN)
    capture.catch_up()
    capture.close()
    assert place.captured(PLAIN) == bag([(1, "x")])


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
    assert place.ledger.notes()["quarantine:loose"] == 'table "loose" of source "loose" is not there any more'
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
