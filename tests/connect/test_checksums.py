"""Checksums: whatever happens to a file, nobody reads other rows than were written, and the damage is noted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.connect.checksums import BLOCK, forget_known, sums_beside
from headrace.connect.files import FileStore
from headrace.model.damage import DamagedFile, DamageKind
from headrace.model.log import StoredFile
from headrace.testing.damage import cut_short, empty_file, flip_bit, swap_files
from headrace.testing.worlds import quick_folder

SMALL, LARGE = 100, 400_000


@cache
def table_of(rows: int, first: int = 0) -> pa.Table:
    return pa.table({"a": pa.array(range(first, first + rows), pa.int64()), "b": [f"text {n}" for n in range(rows)]})


def path_of(store: FileStore, file: StoredFile) -> Path:
    return store.root / "us" / file.file


def read_slowly(store: FileStore, file: StoredFile) -> int | None:
    """The root of a file, as the scrub finds it."""
    found: list[int | None] = []

    def read() -> Iterator[int]:
        found.append((yield from store.check_slowly("us", file)))

    assert sum(read()) == file.bytes
    return found[0]


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([SMALL, LARGE]), st.floats(0, 1, exclude_max=True), st.integers(0, 7), st.booleans())
def test_a_bit_that_flips_anywhere_is_never_read(rows: int, where: float, bit: int, was_read: bool):
    with quick_folder() as folder:
        store = FileStore(Path(folder))
        file = store.write("us", table_of(rows), "v")
        if was_read:
            store.read("us", file)
        flip_bit(path_of(store, file), int(where * file.bytes), bit)
        with pytest.raises(DamagedFile, match="damaged") as raised:
            store.read("us", file)
        assert [(one.file, one.kind) for one in store.damaged()] == [(file.file, DamageKind.CONTENTS)]
        assert raised.value.damage.file == file.file
        with pytest.raises(DamagedFile):
            read_slowly(store, file)


def add_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, tuple[Callable[[Path], None], DamageKind]] = {
    "deleted": (Path.unlink, DamageKind.MISSING),
    "empty": (empty_file, DamageKind.SIZE),
    "cut short": (cut_short, DamageKind.SIZE),
    "longer": (add_byte, DamageKind.SIZE),
    "a folder": (make_folder, DamageKind.SIZE),
}


@pytest.mark.parametrize("rows", [SMALL, LARGE])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_file_that_is_not_whole_is_not_read_and_not_taken_for_an_empty_one(tmp_path: Path, name: str, rows: int):
    store = FileStore(tmp_path)
    file = store.write("us", table_of(rows), "v")
    damage, kind = DAMAGES[name]
    damage(path_of(store, file))
    whole = store.write("us", table_of(rows), "v")
    assert [one.file for one in store.find_damaged("us", [whole, file])] == [file.file]
    with pytest.raises(DamagedFile):
        store.read("us", file)
    with pytest.raises(DamagedFile):
        read_slowly(store, file)
    assert [(one.file, one.kind) for one in store.damaged()] == [(file.file, kind)]


@pytest.mark.parametrize("rows", [SMALL, LARGE])
def test_files_that_were_swapped_are_both_found(tmp_path: Path, rows: int):
    store = FileStore(tmp_path)
    one, other = (store.write("us", table_of(rows, first), "v") for first in (0, 5))
    assert one.bytes == other.bytes
    for file in (one, other):
        store.read("us", file)
    swap_files(path_of(store, one), path_of(store, other))
    for file in (one, other):
        with pytest.raises(DamagedFile, match="damaged"):
            store.read("us", file)


def test_a_lookup_in_a_large_file_checks_its_ends_alone_and_a_scan_all_of_it(tmp_path: Path):
    """What is between is for the scrub: a lookup costs what it finds."""
    store = FileStore(tmp_path)
    file = store.write("us", table_of(LARGE), "v")
    path = path_of(store, file)
    written = path.stat()
    flip_bit(path, 2 * BLOCK + 5)
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))  # as a disk does it: nobody wrote
    assert store.read("us", file).num_rows == LARGE, "what was just written has been summed up"
    forget_known()
    assert store.read("us", file, whole=False).num_rows == LARGE
    assert store.damaged() == []
    with pytest.raises(DamagedFile, match=rf"block 3 of {-(-file.bytes // BLOCK)} has changed"):
        store.read("us", file)
    for at in (0, file.bytes - 1):
        again = store.write("us", table_of(LARGE), "v")
        flip_bit(path_of(store, again), at)
        with pytest.raises(DamagedFile, match="has changed"):
            store.read("us", again, whole=False)


def test_a_large_file_that_somebody_wrote_to_is_checked_as_a_whole_before_a_lookup(tmp_path: Path):
    store = FileStore(tmp_path)
    file = store.write("us", table_of(LARGE), "v")
    store.read("us", file, whole=False)
    flip_bit(path_of(store, file), 2 * BLOCK + 5)
    with pytest.raises(DamagedFile, match="block 3 of"):
        store.read("us", file, whole=False)


@pytest.mark.parametrize("damage", [Path.unlink, empty_file, cut_short, lambda path: flip_bit(path, 20)])
def test_without_its_checksums_a_large_file_is_checked_by_their_root(tmp_path: Path, damage: Callable[[Path], None]):
    store = FileStore(tmp_path)
    file = store.write("us", table_of(LARGE), "v")
    damage(sums_beside(path_of(store, file)))
    assert store.read("us", file, whole=False).num_rows == LARGE
    forget_known()
    flip_bit(path_of(store, file), 2 * BLOCK + 5)
    with pytest.raises(DamagedFile, match="has changed"):
        store.read("us", file, whole=False)


def test_checksums_go_with_their_file_and_are_no_files_of_logs(tmp_path: Path):
    store = FileStore(tmp_path)
    file = store.write("us", table_of(LARGE), "v")
    assert sums_beside(path_of(store, file)).exists()
    assert [name for _, name, _ in store.list()] == [file.file]
    path_of(store, file).unlink()
    assert [name for _, name, _ in store.list()] == [f"{file.file}.sums"], "left over: to be swept away"
    store.delete("us", f"{file.file}.sums")
    again = store.write("us", table_of(LARGE), "v")
    store.delete("us", again.file)
    assert list((tmp_path / "us").iterdir()) == []


@pytest.mark.parametrize("rows", [SMALL, LARGE])
def test_a_file_of_an_earlier_version_is_read_and_can_be_summed_up(tmp_path: Path, rows: int):
    store = FileStore(tmp_path)
    file = store.write("us", table_of(rows), "v")
    sums_beside(path_of(store, file)).unlink(missing_ok=True)
    before = StoredFile(file.file, file.bytes, None)
    assert store.read("us", before).num_rows == rows
    assert read_slowly(store, before) == file.root
    path_of(store, file).write_bytes(b"x" * file.bytes)
    with pytest.raises(DamagedFile, match="damaged"):
        store.read("us", before)


def test_damage_of_pinned_files_is_noted_where_they_come_from_until_it_is_forgotten(tmp_path: Path):
    store = FileStore(tmp_path / "data")
    file = store.write("us/1", table_of(SMALL), "v")
    pinned = store.pin("us/1", [file.file], tmp_path / "pinned")
    flip_bit(next((tmp_path / "pinned").rglob("*.arrow")), 500)
    with pytest.raises(DamagedFile):
        pinned.read("us/1", file)
    (noted,) = store.damaged()
    assert (noted.site, noted.file) == ("us/1", file.file)
    with pytest.raises(DamagedFile):
        store.read("us/1", file)
    assert list(store.damaged()) == [noted], "since when stays"
    assert [name for _, name, _ in store.list()] == [file.file]
    store.forget_damage("us/1", file.file)
    assert store.damaged() == []
