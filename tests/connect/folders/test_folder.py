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
from headrace.connect.folders.source import FolderTask
from headrace.connect.folders.source import taken_files as find_taken
from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.model.errors import ConnectError, InputError
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
    now: int = 1_000

    def capture(self, ledger: Any = None) -> FolderCapture:
        return FolderCapture(self.stream, ledger or self.ledger, self.store, now=lambda: self.now)

    def rows(self) -> list[tuple[Any, ...]]:
        log = self.ledger.logs(["spool:s"])["spool:s"]
        tables = [self.store.read("us", piece.stored).to_pylist() for piece in log.pieces]
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


def ids(place: Place) -> list[int]:
    return [row[0] for row in place.rows()]


def look_twice(capture: FolderCapture) -> int:
    return capture.step() + capture.step()


def test_files_that_are_away_for_a_while_are_not_taken_again(place: Place, tmp_path: Path):
    folder, away = place.stream.folder, tmp_path / "away"
    for name, number in (("a.csv", 1), ("b.csv", 2)):
        write_csv(folder / name, number)
    capture = place.capture()
    assert look_twice(capture) == 2
    for again in (capture, None):
        away.mkdir()
        for file in list(folder.iterdir()):
            file.rename(away / file.name)
        capture.step()
        assert {one.gone_at for one in taken_files(place).values()} == {1_000}
        if again is None:  # also if the service is started again meanwhile
            capture.close()
            capture = place.capture()
        for file in list(away.iterdir()):
            file.rename(folder / file.name)
        away.rmdir()
        assert look_twice(capture) == 0
        assert {one.gone_at for one in taken_files(place).values()} == {None}
    assert ids(place) == [1, 2]


def test_an_empty_folder_in_the_place_of_one_with_files_is_named_and_nothing_is_taken_twice(
    place: Place, tmp_path: Path
):
    folder = place.stream.folder
    write_csv(folder / "a.csv", 1)
    capture = place.capture()
    assert look_twice(capture) == 1
    t = place.ledger.times()["spool:s"]
    folder.rename(tmp_path / "disk")
    folder.mkdir()
    for _ in range(2):
        with pytest.raises(ConnectError, match="is empty, and is another one than before: 1 files") as raised:
            capture.step()
        assert "mount its disk" in (raised.value.hint or "")
        capture.close()
        capture = place.capture()
    assert place.ledger.times()["spool:s"] == t, "there is no heartbeat"
    folder.rmdir()
    (tmp_path / "disk").rename(folder)
    assert look_twice(capture) == 0
    folder.rename(tmp_path / "disk")
    folder.mkdir()
    write_csv(folder / "b.csv", 2)
    assert look_twice(capture) == 1, "it goes on with the first new file"
    assert ids(place) == [1, 2]


def test_a_copy_of_a_file_with_another_time_is_not_taken_again(place: Place):
    file = place.stream.folder / "a.csv"
    write_csv(file, 1)
    capture = place.capture()
    assert look_twice(capture) == 1
    for is_gone in (False, True):
        if is_gone:
            file.unlink()
            capture.step()
        write_csv(file, 1)
        os.utime(file, (5 + is_gone, 5 + is_gone))
        assert look_twice(capture) == 0
        assert place.ledger.notes("rejected:s:") == {}
        (taken,) = taken_files(place).values()
        assert (taken.modified_ns, taken.gone_at) == ((5 + is_gone) * 10**9, None)
        assert len(list(read_taken(place.stream, taken))) == 1


def test_a_file_that_is_changed_or_cut_after_it_was_read_is_named_until_it_is_put_back(place: Place):
    file = place.stream.folder / "a.csv"
    write_csv(file, 1, 2)
    first = file.read_bytes()
    capture = place.capture()
    assert look_twice(capture) == 2
    for contents in (first + first, first.replace(b"\n1,", b"\n7,"), b""):
        file.write_bytes(contents)
        os.utime(file, (7, 7))
        assert look_twice(capture) == 0
        (told,) = place.ledger.notes("rejected:s:").values()
        assert told.startswith("it was changed after it was read")
        ((source, what, hint),) = FolderTask(place.stream).find_troubles(place.ledger)
        assert source == "s" and 'leaves out file "a.csv"' in what and "sources reread s" in hint
        capture.close()
        capture = place.capture()
    file.write_bytes(first)
    assert look_twice(capture) == 0
    assert place.ledger.notes("rejected:s:") == {}
    assert ids(place) == [1, 2]


def test_another_file_under_the_name_of_one_that_went_is_taken(place: Place):
    file = place.stream.folder / "a.csv"
    write_csv(file, 1)
    capture = place.capture()
    look_twice(capture)
    file.unlink()
    capture.step()
    write_csv(file, 2)
    assert look_twice(capture) == 1
    assert ids(place) == [1, 2]
    assert taken_files(place)["a.csv"].gone_at is None


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


def test_files_that_went_long_ago_are_counted_with_their_rows_and_forgotten(place: Place):
    for name, numbers in (("a.csv", (1, 2)), ("b.csv", (3,)), ("c.csv", (4,))):
        write_csv(place.stream.folder / name, *numbers)
    place.now = 10**15
    capture = place.capture()
    assert look_twice(capture) == 4
    for name in ("a.csv", "b.csv"):
        (place.stream.folder / name).unlink()
        capture.step()
    assert taken_files(place).keys() == {"a.csv", "b.csv", "c.csv"}
    with pytest.raises(ConnectError, match=r"2 files \(b.csv the last\) were read and then deleted"):
        find_taken(place.ledger, "s", 2 * 10**15)
    place.now += 31 * 86_400 * 10**6
    capture.step()
    assert taken_files(place).keys() == {"c.csv"}
    assert read_note(place.ledger, GoneFiles, "s") == GoneFiles("s", 2, 3, "b.csv")
    with pytest.raises(ConnectError, match=r"2 files \(b.csv the last\) were read and then deleted"):
        find_taken(place.ledger, "s", 2 * 10**15)


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
