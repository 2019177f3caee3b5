"""Rows of open transactions in files: they come back as they were written, or the capture says that they do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.connect.postgres.spill import SpillFolder
from headrace.model.errors import ConnectError
from headrace.model.types import BIGINT
from headrace.run.capture.spool import CapturedTable
from headrace.testing.damage import cut_short, flip_bit

NUMBERS = CapturedTable("numbers", "us", "public.numbers", (("k", BIGINT),), ("k",))


def flip_middle(path: Path) -> None:
    flip_bit(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [None, flip_middle, cut_short, Path.unlink])
def test_rows_of_an_open_transaction_are_never_other_than_they_were_written(
    tmp_path: Path, damage: Callable[[Path], None] | None
):
    spill = SpillFolder(tmp_path).new()
    for first in (0, 50_000):
        rows = spill.rows_of(NUMBERS)
        rows.add_many(1, "i", [(str(number).encode(),) for number in range(first, first + 50_000)])
        spill.settle(rows, at_once=True)
    if damage is None:
        found = [value for table in spill.release("numbers", 7) for value in table["numbers.k"].to_pylist()]
        assert found == list(range(100_000))
        return
    (path,) = tmp_path.rglob("*.arrows")
    damage(path)
    with pytest.raises(ConnectError, match=r'the file ".*\.arrows" (is damaged|cannot be read)') as raised:
        list(spill.release("numbers", 7))
    assert raised.value.hint is not None and "once more" in raised.value.hint
