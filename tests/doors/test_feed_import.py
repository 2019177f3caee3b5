"""`headrace feeds import` reads names, ids and bodies as they are written, whatever else a file has."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from headrace.app.feed_import import read_rows
from headrace.model.errors import UsageError
from headrace.model.feed_names import API_EVENTS, API_FOLLOWS

FOLLOWS, EVENTS = tuple(API_FOLLOWS), tuple(API_EVENTS)
NOON = dt.datetime(2026, 3, 1, 12)


def read(file: Path, columns: tuple[str, ...]) -> list[tuple[object, ...]]:
    return [row for rows in read_rows(file, columns) for row in rows]


def write(folder: Path, *lines: str) -> Path:
    file = folder / "rows.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_names_that_look_like_numbers_stay_as_they_are_written(tmp_path: Path) -> None:
    file = write(tmp_path, "consumer,age,producer", "007,1,1.50", "1e3,,true", "null,x,2026-03-01")
    assert read(file, FOLLOWS) == [("007", "1.50"), ("1e3", "true"), ("null", "2026-03-01")]


def test_a_file_that_begins_with_digits_may_go_on_with_names(tmp_path: Path) -> None:
    """The first block, from which types would be guessed, has a million characters."""
    digits = [f"{number:09}" for number in range(60_000)]
    file = write(tmp_path, "producer,consumer,age", *(f"{one},{one},1" for one in digits), "bob,anna,old")
    found = read(file, FOLLOWS)
    assert found == [*((one, one) for one in digits), ("anna", "bob")]


def test_events_have_times_as_people_write_them_and_any_body(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "producer,id,time,body",
        "1,01,2026-03-01T12:00:00Z,007",
        '1,02,2026-03-01 13:00:00.250+01:00,"{""text"": ""hello""}"',
        "1,03,2026-03-01T12:00,",
    )
    quarter = NOON + dt.timedelta(milliseconds=250)
    assert read(file, EVENTS) == [
        ("1", NOON, "01", "007"),
        ("1", quarter, "02", '{"text": "hello"}'),
        ("1", NOON, "03", ""),
    ]


def test_a_parquet_file_has_types_of_its_own(tmp_path: Path) -> None:
    columns = {"producer": [7], "id": [1], "time": pa.array([NOON], pa.timestamp("ms", "UTC")), "body": [None]}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    assert read(tmp_path / "rows.parquet", EVENTS) == [("7", NOON, "1", None)]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("bob,2,soon,x", '^row 2 of ".*": "soon" is not a time'),
        ("bob,2,,x", '^row 2 of ".*" has no time'),
        (",,2026-03-01,x", '^row 2 of ".*" has no producer, id'),
    ],
)
def test_a_row_that_is_no_event_is_named(tmp_path: Path, line: str, what: str) -> None:
    file = write(tmp_path, "producer,id,time,body", "bob,1,2026-03-01T12:00:00Z,x", line)
    with pytest.raises(UsageError, match=what):
        read(file, EVENTS)


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no column consumer"):
        read(write(tmp_path, "producer,who", "bob,anna"), FOLLOWS)


def test_bodies_may_have_several_lines_in_a_file_of_any_size(tmp_path: Path) -> None:
    """It is read in blocks of a million characters, which must not end within a body."""
    bodies = [f"line {number}\n\nanother, and {'more ' * (number % 9)}\n" for number in range(30_000)]
    lines = (f'bob,i{number},2026-03-01T12:00:00Z,"{body}"' for number, body in enumerate(bodies))
    file = write(tmp_path, "producer,id,time,body", *lines)
    found = read(file, EVENTS)
    assert [row[EVENTS.index("body")] for row in found] == bodies


@pytest.mark.parametrize("name", ["x" * 501, "a\0b"])
def test_a_name_that_nobody_can_have_is_told_with_its_row(tmp_path: Path, name: str) -> None:
    table = pa.table({"consumer": ["anna", "anna"], "producer": ["bob", name]})
    file = tmp_path / "rows.parquet"
    pq.write_table(table, file)
    with pytest.raises(UsageError, match=r'row 2 of ".*rows\.parquet"'):
        read(file, FOLLOWS)
