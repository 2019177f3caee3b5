"""Files that were opened a moment ago are not opened again, and never hold more than they may."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.connect.files import FileStore
from headrace.connect.opened_files import UNUSED_S, OpenedFiles
from headrace.model.damage import DamagedFile

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})


def test_what_was_used_last_stays_within_the_limit():
    opened = OpenedFiles(100)
    for name in "abc":
        opened.keep(name, TABLE, 40)
        opened.find("a")
    assert [opened.find(name) is not None for name in "abc"] == [True, False, True]
    opened.keep("large", TABLE, 101)
    assert opened.find("large") is None and opened.find("a") is not None


def test_what_is_not_used_for_a_minute_is_let_go_of():
    now = [100.0]
    opened = OpenedFiles(100, lambda: now[0])
    opened.keep("a", TABLE, 1)
    now[0] += UNUSED_S + 1
    opened.keep("b", TABLE, 1)
    assert opened.find("a") is None and opened.find("b") is not None


@pytest.mark.parametrize("rows", [3, 400_000], ids=["in memory", "mapped"])
def test_a_file_that_is_read_again_is_the_same_table_until_it_changes(tmp_path: Path, rows: int):
    store = FileStore(tmp_path)
    table = pa.table({"a": range(rows), "b": range(rows)})
    stored = store.write("eu", table, "numbers")
    first, again = store.read("eu", stored), store.read("eu", stored, ["b"])
    assert first.equals(table) and again.equals(table.select(["b"]))
    assert first["b"].chunk(0).buffers()[1].address == again["b"].chunk(0).buffers()[1].address
    path = tmp_path / "eu" / stored.file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, (1, 1))
    with pytest.raises(DamagedFile):
        store.read("eu", stored)
    path.unlink()
    with pytest.raises(DamagedFile, match="missing"):
        store.read("eu", stored)
