"""The store of files: what is written is read back, and what crashes leave behind is found."""

from __future__ import annotations

import errno
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.checksums import forget_known
from headrace.connect.files import FileStore
from headrace.model.errors import ConnectError
from headrace.model.log import StoredFile
from headrace.run.ports import Store

TABLE = pa.table(
    {
        "x.id": pa.array([1, 2, None], pa.int64()),
        "x.text": pa.array(["a", None, "ä"], pa.string()),
        "x.at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        "x.price": pa.array([Decimal("1.50"), None, Decimal(2)], pa.decimal128(10, 2)),
        "x.tags": pa.array([["a"], [], None], pa.list_(pa.string())),
        "__t": pa.array([5, 6, 7], pa.int64()),
    }
)


def test_rows_are_read_back_as_written(tmp_path: Path):
    store: Store = FileStore(tmp_path / "data")
    chunks = pa.concat_tables([TABLE, TABLE.slice(1, 1), TABLE.slice(0, 0)])
    file = store.write("us", chunks, "v1")
    assert store.read("us", file).equals(chunks)
    assert (tmp_path / "data" / "us" / file.file).stat().st_size == file.bytes
    assert store.read("us", file, ["__t", "x.text"]).equals(chunks.select(["__t", "x.text"]))
    assert all(column.num_chunks == 1 for column in store.read("us", file).columns)


def test_a_file_without_rows_keeps_its_columns(tmp_path: Path):
    store = FileStore(tmp_path)
    file = store.write("us", TABLE.slice(0, 0), "v1")
    assert store.read("us", file).equals(TABLE.slice(0, 0))


def test_reading_maps_the_file_and_copies_nothing(tmp_path: Path):
    store = FileStore(tmp_path)
    rows = pa.table({"x.id": pa.array(range(1_000_000), pa.int64())})
    file = store.write("us", rows, "v1")
    before = pa.total_allocated_bytes()
    found = store.read("us", file)
    assert pa.total_allocated_bytes() - before < 100_000
    store.delete("us", file.file)
    assert found.equals(rows), "who has it open reads on"


def test_some_columns_of_a_mapped_file_are_not_copied_either(tmp_path: Path):
    store = FileStore(tmp_path / "data")
    file = store.write("us", pa.table({name: range(1_000_000) for name in ("a", "b", "c")}), "large")
    before = pa.total_allocated_bytes()
    chosen = store.read("us", file, ["c", "a"])
    assert pa.total_allocated_bytes() - before < 100_000
    assert chosen.column_names == ["c", "a"]


def test_every_attempt_has_a_name_of_its_own(tmp_path: Path):
    store = FileStore(tmp_path)
    assert len({store.write("us", TABLE, "same").file for _ in range(5)}) == 5


@given(site=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), hint=st.text(max_size=300))
def test_any_site_and_hint_make_a_file_inside_the_store(tmp_path_factory: pytest.TempPathFactory, site: str, hint: str):
    root = tmp_path_factory.mktemp("store")
    store = FileStore(root)
    file = store.write(site, TABLE, hint)
    assert [(found_site, found) for found_site, found, _ in store.list()] == [(site, file.file)]
    assert [path.parent.parent for path in root.rglob("*.arrow")] == [root]
    assert store.read(site, file).equals(TABLE)
    store.delete(site, file.file)
    store.delete(site, file.file)
    assert list(store.list()) == []


def test_what_a_crash_left_unfinished_is_listed(tmp_path: Path):
    store = FileStore(tmp_path)
    file = store.write("us", TABLE, "v1")
    (tmp_path / "us" / ".v1-0.arrow.unfinished").write_bytes(b"half")
    assert [name for _, name, _ in store.list()] == [".v1-0.arrow.unfinished", file.file]


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path):
    with pytest.raises(ConnectError, match=r'the file ".*gone.arrow" is missing'):
        FileStore(tmp_path).read("us", StoredFile("gone.arrow", 1, None))


def test_a_store_that_is_not_there_yet_is_empty(tmp_path: Path):
    assert list(FileStore(tmp_path / "none").list()) == []


LARGE = pa.table({"x.id": pa.array(range(1_000_000), pa.int64())})


@pytest.mark.parametrize("rows", [TABLE, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("has_links", [True, False], ids=["links", "no links"])
def test_a_file_with_two_names_is_there_until_both_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: pa.Table, has_links: bool
):
    store = FileStore(tmp_path)
    file = store.write("us", rows, "index-v1")
    if not has_links:
        monkeypatch.setattr("os.link", refuse_link)
    other = store.link("us", file, "v1")
    forget_known()
    assert (tmp_path / "us" / file.file).samefile(tmp_path / "us" / other.file) is has_links
    assert {name for _, name, _ in store.list()} == {file.file, other.file}
    store.delete("us", file.file)
    assert store.read("us", other).equals(rows) and store.read("us", other, whole=False).equals(rows)
    store.delete("us", other.file)
    assert list((tmp_path / "us").iterdir()) == []


def refuse_link(path: Path, name: Path) -> None:
    """As a file system without hard links does."""
    raise OSError(errno.EPERM, "Operation not permitted")
