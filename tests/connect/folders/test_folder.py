"""Folders of files as streams: every complete file once, whatever happens in between."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connect.files import FileStore
from headrace.connect.folders.capture import FolderCapture, FolderStream, find_unreadable_file, read_taken
from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.model.errors import InputError
from headrace.model.log import Commit, Lease
from headrace.model.notes import GoneFiles, TakenFile, read_note, read_notes
from headrace.model.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Decimal
from headrace.run.rows.arrow import arrow_type

COLUMNS = (("id", BIGINT), ("at", TIMESTAMP), ("name", STRING), ("price", Decimal(8, 2)), ("x", DOUBLE))
ROW = (1, dt.datetime(2026, 2, 28, 1, 2, 3, 500_000, dt.UTC), "naïve", Number("7.50"), 0.5)


@dataclass
class Place:
    stream: FolderStream
    ledger: SqlLedger
    store: FileStore

    def capture(self, ledger: Any = None) -> FolderCapture:
        return FolderCapture(self.stream, ledger or self.ledger, self.store, now=lambda: 1_000)

    def rows(self) -> list[tuple[Any, ...]]:
        log = self.ledger.logs(["spool:s"])["spool:s"]
        tables = [self.store.read("us", piece.file).to_pylist() for piece in log.pieces]
        found = sorted((row for table in tables for row in table), key=lambda row: (row["__t"], row["__n"]))
        assert all(row["__op"] == "i" for row in found)
        return [tuple(row[f"s.{name}"] for name, _ in self.stream.columns) for row in found]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "in"
    folder.mkdir()
    ledger = open_sqlite(tmp_path / "ledger.db")
    yield Place(FolderStream("s", "us", folder, "csv", COLUMNS, "at"), ledger, FileStore(tmp_path / "files"))
    ledger.close()


def write_csv(file: Path, *ids: int) -> None:
    lines = [f"{number},2026-02-28T01:02:03.5Z,naïve,7.5,0.5" for number in ids]
    file.write_text("id,at,name,price,x\n" + "\n".join(lines) + "\n")


def test_a_file_is_taken_once_it_looks_the_same_twice(place: Place):
    capture = place.capture()
    write_csv(place.stream.folder / "a.csv", 1)
    assert capture.step() == 0
    write_csv(place.stream.folder / "a.csv", 1, 2)
    assert capture.step() == 0
    assert capture.step() == 2
    assert capture.step() == 0
    assert place.rows() == [ROW, (2, *ROW[1:])]


@pytest.mark.parametrize("format_", ["parquet", "csv", "jsonl"])
def test_every_format_gives_the_declared_types(place: Place, format_: str):
    place.stream = replace(place.stream, format=format_)
    file = place.stream.folder / f"a.{format_}"
    if format_ == "parquet":
        naive = ROW[1].replace(tzinfo=None)
        table = {
            "id": pa.array([1], pa.int32()),
            "at": [naive],
            "name": ["naïve"],
            "price": [Number("7.5")],
            "x": [0.5],
        }
        pq.write_table(pa.table({**table, "other": [1]}), file)
    elif format_ == "csv":
        write_csv(file, 1)
    else:
        file.write_text(
            '{"x": 0.5, "id": 1, "at": "2026-02-28 01:02:03.5", "name": "naïve", "price": "7.50", "y": 1}\n'
        )
    capture = place.capture()
    capture.step()
    assert capture.step() == 1
    assert place.rows() == [ROW]
    assert place.ledger.notes("watermark:") == {"watermark:s": str(int(ROW[1].timestamp() * 1e6))}


def test_unfinished_and_hidden_files_are_left_alone(place: Place):
    for name in (".a.csv", "_a.csv", "a.csv.tmp", "a.csv.part"):
        write_csv(place.stream.folder / name, 1)
    capture = place.capture()
    capture.step()
    assert capture.step() == 0


def test_a_file_that_cannot_be_read_is_left_out_until_it_changes(place: Place):
    file = place.stream.folder / "a.csv"
    file.write_text("id,at,name,price,x\nnot a number,2026-02-28,n,1,1\n")
    write_csv(place.stream.folder / "b.csv", 2)
    capture = place.capture()
    capture.step()
    assert capture.step() == 1
    (told,) = place.ledger.notes("rejected:s:").values()
    assert "not a number" in told
    write_csv(file, 1)
    capture.step()
    assert capture.step() == 1
    assert place.ledger.notes("rejected:s:") == {}
    assert [row[0] for row in place.rows()] == [2, 1]


def test_a_missing_column_is_named(place: Place):
    (place.stream.folder / "a.csv").write_text("id\n1\n")
    capture = place.capture()
    capture.step()
    capture.step()
    assert 'the file has no column "at"' in place.ledger.notes("rejected:s:")["rejected:s:a.csv"]


class FailingLedger:
    """Fails at the nth commit, before it is done or after it."""

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


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that cannot be read is only there on Linux")
def test_a_file_that_the_disk_cannot_read_is_left_out_with_the_reason_and_tried_again(place: Place):
    folder = place.stream.folder
    broken = folder / "a.csv"
    broken.symlink_to("/proc/self/mem")  # reading its first byte is an I/O error, for every user
    write_csv(folder / "b.csv", 2)
    problem = find_unreadable_file(place.stream)
    assert problem is not None and problem.message == "the file cannot be read: Input/output error"
    capture = place.capture()
    capture.step()
    assert capture.step() == 1
    assert place.ledger.notes("rejected:s:") == {"rejected:s:a.csv": problem.message}
    looked = broken.stat()
    broken.unlink()
    broken.touch()
    os.utime(broken, ns=(looked.st_atime_ns, looked.st_mtime_ns))
    capture.step()
    assert place.ledger.notes("rejected:s:") == {"rejected:s:a.csv": "the table cannot be read: Empty CSV file"}


@pytest.mark.parametrize("after", [False, True])
def test_a_failure_at_any_commit_takes_every_file_once(place: Place, after: bool):
    for number in range(6):
        write_csv(place.stream.folder / f"{number}.csv", number)
        capture = place.capture(FailingLedger(place.ledger, at=1 + number % 4, after=after))
        with pytest.raises(OSError, match=r"disk|answer"):
            step_until_it_fails(capture)
        capture.close()
    capture = place.capture()
    capture.step()
    capture.step()
    assert [row[0] for row in place.rows()] == list(range(6))


def step_until_it_fails(capture: FolderCapture) -> None:
    for _ in range(100):
        capture.step()


def test_notes_of_files_go_with_the_files(place: Place):
    write_csv(place.stream.folder / "a.csv", 1)
    capture = place.capture()
    capture.step()
    capture.step()
    assert list(place.ledger.notes("file:s:")) == ["file:s:a.csv"]
    (place.stream.folder / "a.csv").unlink()
    capture.step()
    assert place.ledger.notes("file:s:") == {}
    assert place.rows() == [ROW]


def test_time_moves_on_without_files(place: Place):
    capture = place.capture()
    capture.step()
    first = place.ledger.times()["spool:s"]
    capture.step()
    assert place.ledger.times()["spool:s"] > first


def taken_files(place: Place) -> dict[str, TakenFile]:
    return {one.file: one for one in read_notes(place.ledger, TakenFile, "s").values()}


def test_a_taken_file_can_be_read_again_until_it_changes(place: Place):
    capture = place.capture()
    file = place.stream.folder / "a.csv"
    write_csv(file, 1, 2)
    capture.step()
    assert capture.step() == 2
    (taken,) = taken_files(place).values()
    (again,) = read_taken(place.stream, taken)
    assert again.column("s.id").to_pylist() == [1, 2]
    write_csv(file, 1, 3)
    os.utime(file, ns=(taken.modified_ns or 0, (taken.modified_ns or 0) + 1))
    with pytest.raises(InputError, match="has changed since it was read"):
        list(read_taken(place.stream, taken))
    file.unlink()
    with pytest.raises(InputError, match="has disappeared since it was read"):
        list(read_taken(place.stream, taken))


def test_files_that_went_are_counted_with_their_rows(place: Place):
    capture = place.capture()
    for name, ids in (("a.csv", (1, 2)), ("b.csv", (3,)), ("c.csv", (4,))):
        write_csv(place.stream.folder / name, *ids)
    capture.step()
    assert capture.step() == 4
    (place.stream.folder / "a.csv").unlink()
    capture.step()
    (place.stream.folder / "b.csv").unlink()
    capture.step()
    capture.step()
    assert taken_files(place).keys() == {"c.csv"}
    assert read_note(place.ledger, GoneFiles, "s") == GoneFiles("s", 2, 3, "b.csv")


@pytest.mark.parametrize("bad", ["0000-12-31T00:00:00Z", 253_402_300_800_000_000, -62_135_596_800_000_001])
def test_a_file_with_times_that_nobody_could_read_is_left_out(place: Place, bad: str | int):
    if isinstance(bad, str):
        (place.stream.folder / "a.csv").write_text(f"id,at,name,price,x\n1,{bad},a,7.5,0.5\n")
    else:
        place.stream = replace(place.stream, format="parquet")
        times = pa.array([bad - 1 if bad < 0 else bad, None], pa.timestamp("us", "UTC"))
        others = {name: pa.nulls(2, arrow_type(type_)) for name, type_ in COLUMNS if name != "at"}
        pq.write_table(pa.table({**others, "at": times}), place.stream.folder / "a.parquet")
    capture = place.capture()
    assert [capture.step(), capture.step()] == [0, 0]
    assert list(place.ledger.notes("rejected:s:").values()) == ['column "at" has a time outside of the years 1 to 9999']
