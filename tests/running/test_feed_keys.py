"""Cursors of a project are signed with one key, whoever is the first to need it."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from headrace.model.errors import UnreadableState
from headrace.site.feeds.signing import KEY_FILE, find_key

READERS, PROJECTS = 8, 40


def test_readers_who_come_at_once_to_a_new_project_sign_with_one_key(tmp_path: Path) -> None:
    together = Barrier(READERS)

    def find_together(folder: Path) -> bytes:
        together.wait(10)
        return find_key(folder)

    with ThreadPoolExecutor(READERS) as readers:
        for number in range(PROJECTS):
            folder = tmp_path / str(number)
            folder.mkdir()
            keys = set(readers.map(find_together, [folder] * READERS))
            assert keys == {find_key(folder)}
            assert [one.name for one in folder.iterdir()] == [KEY_FILE]
            assert stat.S_IMODE((folder / KEY_FILE).stat().st_mode) == 0o600


def test_a_key_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    """With an empty key, anybody could sign."""
    find_key(tmp_path)
    (tmp_path / KEY_FILE).write_bytes(b"")
    with pytest.raises(UnreadableState, match="0 bytes, not 32"):
        find_key(tmp_path)
