"""What a slow link cannot carry fills the room that changes may take: then the source waits, and goes on after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.running.running_project import until
from tests.running.slow_link import SlowLink, open_slow_files

ROOM, POSTS = 3_000_000, 5
"""Bytes for changes at `us`, and posts in a file: some 27 kB."""
SLOW, FAST = 20_000.0, 2e6


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_source_waits_while_another_site_takes_less_of_it_and_nothing_is_loaded_anew(tmp_path: Path) -> None:
    with open_slow_files(tmp_path / "project", f"{ROOM} B") as world:
        world.set_rate(FAST)
        with world.writing_posts(POSTS):
            until(lambda: _find_newest(world) >= 0, "the first posts are there", within_s=180)
            world.set_rate(SLOW)
            until(lambda: bool(_find_trouble(world)), "the source waits", within_s=240)
            (trouble,) = _find_trouble(world)
            assert "nothing more is read of posts" in trouble["what"] and 'site "eu" is' in trouble["what"]
        world.set_rate(FAST)
        until(lambda: not _find_trouble(world), "the source goes on", within_s=240)
        until(lambda: _find_newest(world) == world.files * POSTS - 1, "all posts are there", within_s=240)
        assert "cut off by the budget" not in world.read_log("us")


def _find_trouble(world: SlowLink) -> list[dict[str, Any]]:
    return [one for one in world.site_status("us")["troubles"] if "have not taken" in one["what"]]


def _find_newest(world: SlowLink) -> int:
    words = ("show", "copied", str(world.folder), "--limit=1", "--order=pid desc", "--json")
    rows = json.loads(world.headrace(*words))["rows"]
    return rows[0][0] if rows else -1
