"""Things wait for rows that were written before them, and for no others."""

from __future__ import annotations

from pathlib import Path

from headrace.connect.written.inbox import list_files, put_rows, remove_files
from headrace.coordinate.devices.waiting import CapturedFirst
from headrace.model.types import BIGINT

COLUMNS = (("a", BIGINT),)


def test_a_thing_waits_for_all_files_that_were_there(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    held: CapturedFirst[str] = CapturedFirst()
    held.hold("nothing before it", [one, other])
    put_rows(one, COLUMNS, [(1,)])
    put_rows(one, COLUMNS, [(2,)])
    put_rows(other, COLUMNS, [(3,)])
    held.hold("after three files", [one, other])
    put_rows(one, COLUMNS, [(4,)])
    assert held.release() == ["nothing before it"]
    first, second, third = list_files(one, 10)
    remove_files(one, [first])
    remove_files(other, list_files(other, 10))
    assert held.release() == []
    remove_files(one, [second])
    assert held.release() == ["after three files"], "a later file keeps nobody"
    assert list_files(one, 10) == [third] and not len(held)


def test_things_come_out_in_their_order(tmp_path: Path) -> None:
    held: CapturedFirst[int] = CapturedFirst()
    for number in range(5):
        put_rows(tmp_path, COLUMNS, [(number,)])
        held.hold(number, [tmp_path])
    remove_files(tmp_path, list_files(tmp_path, 3))
    assert held.release() == [0, 1, 2]
    remove_files(tmp_path, list_files(tmp_path, 3))
    assert held.release() == [3, 4]
