"""The pure parts of capture: messages, values, rows of spools, merging, times."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal as Number
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Type,
)
from headrace.run.capture.array_text import parse_array
from headrace.run.capture.chunks import CHUNK_BYTES, MOST_KEYS, MergedChunk, SnapshotWindow, next_size
from headrace.run.capture.clock import next_time
from headrace.run.capture.pgoutput import KEPT, Begin, CommitMessage, Message, RowChange, Truncate, decode
from headrace.run.capture.position import Position, format_lsn, parse_lsn
from headrace.run.capture.row_changes import add_change, find_touched, layout_of
from headrace.run.capture.spool import CapturedTable, SpoolRows
from headrace.run.capture.text_values import NoSuchValue, column_of
from headrace.run.capture.visibility import Snapshot
from tests.run.capture import wire

UTC = dt.UTC
KEYED = CapturedTable("s", "us", "public.s", (("v", STRING), ("k", INT)), ("k",))
WITHOUT_KEY = CapturedTable("s", "us", "public.s", (("v", STRING), ("k", INT)), ())
STREAM = CapturedTable("s", "us", "public.s", (("v", STRING), ("k", INT)), ("k",), appends=True)
COLUMNS = [("k", True, 23), ("other", False, 25), ("v", False, 25)]


def spooled(captured: CapturedTable, *messages: bytes) -> list[tuple[Any, ...]]:
    """Rows as (op, v, k, kept)."""
    described = decode(wire.relation(7, "s", COLUMNS), in_stream=False)
    layout = layout_of(captured, described)  # type: ignore[arg-type]
    rows = SpoolRows(captured)
    for data in messages:
        change = decode(data, in_stream=False)
        assert isinstance(change, RowChange)
        add_change(rows, layout, change, 5)
    table = rows.take().to_pylist()
    assert [row["__n"] for row in table] == list(range(len(table)))
    assert all(row["__t"] == 5 for row in table)
    return [(row["__op"], row["s.v"], row["s.k"], row["__kept"]) for row in table]


def test_a_new_row_of_a_keyed_table_is_an_upsert():
    assert spooled(KEYED, wire.insert(7, [b"1", b"x", b"a"])) == [("u", "a", 1, None)]


def test_an_update_of_a_keyed_table_is_an_upsert():
    assert spooled(KEYED, wire.update(7, [b"1", b"x", None])) == [("u", None, 1, None)]


def test_a_changed_key_is_a_deletion_and_an_upsert():
    data = wire.update(7, [b"2", b"x", b"a"], [b"1", None, None])
    assert spooled(KEYED, data) == [("d", None, 1, None), ("u", "a", 2, None)]


def test_a_deletion_has_only_the_key():
    assert spooled(KEYED, wire.delete(7, [b"1", b"x", b"a"], b"O")) == [("d", None, 1, None)]


def test_a_value_that_the_log_left_out_is_named():
    assert spooled(KEYED, wire.update(7, [b"1", KEPT, KEPT])) == [("u", None, 1, ["v"])]


def test_a_value_left_out_while_the_key_changed_is_taken_from_the_old_key():
    data = wire.update(7, [b"2", b"x", KEPT], [b"1", None, None])
    assert spooled(KEYED, data) == [("d", None, 1, ["v"]), ("u", None, 2, ["v"])]


def test_a_value_left_out_is_taken_from_the_old_row_where_the_log_has_it():
    data = wire.update(7, [b"1", KEPT, KEPT], [b"1", b"x", b"a"], b"O")
    assert spooled(KEYED, data) == [("u", "a", 1, None)]
    assert spooled(WITHOUT_KEY, data) == [("r", "a", 1, None), ("i", "a", 1, None)]


def test_rows_without_key_come_and_go_whole():
    assert spooled(WITHOUT_KEY, wire.insert(7, [b"1", None, b"a"])) == [("i", "a", 1, None)]
    assert spooled(WITHOUT_KEY, wire.delete(7, [b"1", None, b"a"], b"O")) == [("r", "a", 1, None)]


def test_a_stream_only_grows():
    messages = [
        wire.insert(7, [b"1", None, b"a"]),
        wire.update(7, [b"1", None, b"b"]),
        wire.delete(7, [b"1", None, None]),
    ]
    assert spooled(STREAM, *messages) == [("i", "a", 1, None)]


def test_keys_that_a_change_touches_are_known_with_their_rows_or_not():
    layout = layout_of(KEYED, decode(wire.relation(7, "s", COLUMNS), False))  # type: ignore[arg-type]

    def keys(data: bytes) -> list[Any]:
        return list(find_touched(layout, decode(data, False)))  # type: ignore[arg-type]

    assert keys(wire.insert(7, [b"1", None, b"a"])) == [((b"1",), True)]
    assert keys(wire.update(7, [b"2", None, KEPT], [b"1", None, None])) == [((b"1",), True), ((b"2",), False)]
    # A column that nobody declared is nobody's loss.
    assert keys(wire.update(7, [b"2", KEPT, b"a"])) == [((b"2",), True)]


def test_messages_are_read_inside_and_outside_of_streams():
    assert decode(wire.begin(99, 5, 1_000), False) == Begin(99, 1_000, 5)
    assert decode(wire.commit(99, 1_000), False) == CommitMessage(99, 107, 1_000)
    assert decode(wire.truncate(1, 2), False) == Truncate(0, (1, 2))
    assert decode(wire.truncate(1, 2, xid=9), True) == Truncate(9, (1, 2))
    assert decode(wire.message("p", b"\0x"), False) == Message(0, True, 0, "p", b"\0x")
    assert decode(wire.insert(7, [b"", None], xid=9), True) == RowChange("I", 9, 7, None, False, [b"", None])
    assert decode(b"O" + b"\0" * 8 + b"x\0", False) is None


def test_names_that_are_not_ascii_are_read():
    found = decode(wire.relation(1, "größe", [("naïve column", True, 23)]), False)
    assert found.name == "größe"  # type: ignore[union-attr]
    assert found.columns[0].name == "naïve column"  # type: ignore[union-attr]


VALUES: list[tuple[Type, bytes, Any]] = [
    (BOOLEAN, b"t", True),
    (BOOLEAN, b"f", False),
    (TINYINT, b"-128", -128),
    (SMALLINT, b"-32768", -32768),
    (INT, b"2147483647", 2147483647),
    (BIGINT, b"-9223372036854775808", -(2**63)),
    (FLOAT, b"0.1", pytest.approx(0.1)),
    (DOUBLE, b"1.7976931348623157e+308", 1.7976931348623157e308),
    (DOUBLE, b"-Infinity", -math.inf),
    (STRING, b"", ""),
    (STRING, "ü 🐘".encode(), "ü 🐘"),
    (BINARY, b"\\x", b""),
    (BINARY, b"\\x00ff", b"\0\xff"),
    (DATE, b"2026-02-28", dt.date(2026, 2, 28)),
    (DATE, b"infinity", dt.date(9999, 12, 31)),
    (DATE, b"0044-03-15 BC", dt.date(1, 1, 1)),
    (DATE, b"10000-01-01", dt.date(9999, 12, 31)),
    (TIMESTAMP, b"2026-02-28 01:02:03.000004+00", dt.datetime(2026, 2, 28, 1, 2, 3, 4, UTC)),
    (TIMESTAMP, b"2026-02-28 01:02:03.5", dt.datetime(2026, 2, 28, 1, 2, 3, 500_000, UTC)),
    (TIMESTAMP, b"0001-01-01 00:00:00", dt.datetime(1, 1, 1, tzinfo=UTC)),
    (TIMESTAMP, b"-infinity", dt.datetime(1, 1, 1, tzinfo=UTC)),
    (TIMESTAMP, b"infinity", dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)),
    (TIMESTAMP, b"294276-12-31 23:59:59.999999+00", dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)),
    (Decimal(5, 2), b"-123.45", Number("-123.45")),
    (Decimal(5, 2), b"0.125", Number("0.13")),
    (Decimal(38, 18), b"1", Number("1.000000000000000000")),
    (Array(INT), b"{}", []),
    (Array(INT), b"{1,NULL,-3}", [1, None, -3]),
    (Array(STRING), b'{"NULL",NULL,"a \\"b\\" \\\\","",x}', ["NULL", None, 'a "b" \\', "", "x"]),
    (Array(INT), b"[0:1]={7,8}", [7, 8]),
    (Array(Array(INT)), b"{{1,2},{3,4}}", [[1, 2], [3, 4]]),
    (Array(TIMESTAMP), b'{"2026-02-28 01:02:03+00"}', [dt.datetime(2026, 2, 28, 1, 2, 3, tzinfo=UTC)]),
]


@pytest.mark.parametrize(("type_", "text", "value"), VALUES, ids=lambda part: str(part)[:40])
def test_a_value_is_what_the_text_says(type_: Type, text: bytes, value: Any):
    assert column_of([text, None, text], type_).to_pylist() == [value, None, value]


def test_floats_have_one_nan_and_one_zero():
    found = column_of([b"NaN", b"-0"], DOUBLE).to_pylist()
    assert math.isnan(found[0])
    assert math.copysign(1, found[1]) == 1


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Decimal(5, 2), b"NaN"),
        (Decimal(5, 2), b"Infinity"),
        (Decimal(5, 2), b"1234.5"),
        (TINYINT, b"128"),
        (Array(INT), b"{{1},{2}}"),
        (STRING, b"\xff"),
    ],
)
def test_a_value_that_the_type_does_not_have_is_refused_and_never_changed(type_: Type, text: bytes):
    with pytest.raises(NoSuchValue):
        column_of([text], type_)


def test_the_refusal_names_column_and_source():
    rows = SpoolRows(CapturedTable("s", "us", "t", (("price", Decimal(5, 2)),)))
    rows.add(1, "i", (b"NaN",))
    with pytest.raises(NoSuchValue, match='column "price" of source "s": the value NaN is none of decimal'):
        rows.take()


@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))))
def test_any_array_of_texts_is_read_back(elements: list[str | None]):
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    written = "{" + ",".join("NULL" if one is None else quoted(one) for one in elements) + "}"
    assert parse_array(written.encode()) == [None if one is None else one.encode() for one in elements]


def test_times_rise_whatever_the_clock_says():
    assert next_time(100, 200) == 200
    assert next_time(100, 100) == 101
    assert next_time(100, 5) == 101


def test_a_snapshot_sees_what_ended_before_it():
    snapshot = Snapshot.parse("100:110:100,105")
    assert [xid for xid in range(98, 112) if not snapshot.sees(xid)] == [100, 105, 110, 111]
    assert Snapshot.parse("5:5:").sees(4)


def test_a_snapshot_reads_short_ids_across_their_overflow():
    epoch = 3 << 32
    snapshot = Snapshot(epoch - 2, epoch + 5, frozenset({epoch - 1}))
    assert snapshot.sees(2**32 - 3)
    assert not snapshot.sees(2**32 - 1)
    assert snapshot.sees(4)
    assert not snapshot.sees(5)


def test_rows_changed_since_the_snapshot_are_not_taken_from_the_reading():
    window = SnapshotWindow()
    window.transaction(10).add((b"1",), known=True)
    window.transaction(20).add((b"2",), known=True)
    merged = window.merge([(b"1",), (b"2",), (b"3",)], Snapshot.parse("15:15:"))
    assert merged == MergedChunk((0, 2), ())


def test_rows_that_the_log_has_in_part_are_read_again():
    window = SnapshotWindow()
    window.transaction(20).add((b"2",), known=False)
    assert window.merge([(b"1",), (b"2",)], Snapshot.parse("15:15:")) == MergedChunk((0,), ((b"2",),))


def test_nothing_is_taken_of_a_table_that_was_emptied_since():
    window = SnapshotWindow()
    window.transaction(20).truncated = True
    assert window.merge([(b"1",)], Snapshot.parse("15:15:")) == MergedChunk((), ())


def test_all_is_read_again_when_too_much_changed_since():
    window = SnapshotWindow()
    for number in range(MOST_KEYS + 1):
        window.transaction(20).add((b"%d" % number,), known=True)
    assert window.merge([(b"x",)], Snapshot.parse("15:15:")) is None
    assert window.merge([(b"x",)], Snapshot.parse("25:25:")) == MergedChunk((0,), ())


def test_a_snapshot_that_does_not_see_what_was_captured_before_the_watch_is_not_used():
    window = SnapshotWindow(unwatched=[10, 11])
    assert not window.can_use(Snapshot.parse("11:12:11"))
    assert window.can_use(Snapshot.parse("12:12:"))


def test_large_rows_are_read_in_small_numbers_and_small_ones_in_large():
    assert next_size(1000, 1000 * 20_000, 10_000) == CHUNK_BYTES // 20_000
    assert next_size(1000, 1000, 10_000) == 4_000
    assert next_size(4000, 4000, 10_000) == 10_000
    assert next_size(3, CHUNK_BYTES * 30, 10_000) == 1
    assert next_size(0, 0, 10_000) == 10_000


def test_a_position_survives_its_note():
    position = Position(parse_lsn("1/2A"), 7, 8, "slot")
    assert Position.from_note(position.to_note("main")) == position
    assert format_lsn(position.lsn) == "1/2A"
