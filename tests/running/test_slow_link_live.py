"""A link between two sites that becomes ten times slower is seen in `status` within seconds, and is left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.running.running_project import until
from tests.running.slow_link import SlowLink, open_slow_link

FAST, SLOW = 1.25e6, 0.125e6


def is_about(found: float | None, expected: float) -> bool:
    return found is not None and abs(found - expected) <= 0.15 * expected


@pytest.mark.long
def test_a_link_that_becomes_slower_is_seen_and_left(tmp_path: Path, postgres_database: Callable[[], str]) -> None:
    with open_slow_link(tmp_path / "project", postgres_database(), "10 Mbps", 60) as world:
        world.set_rate(FAST)
        world.change_posts(60)
        until(lambda: is_about(world.link().get("capacity_bytes_s"), FAST), "the link is measured", within_s=60)
        until(lambda: _is_kept(world), "the promise is kept", within_s=60)
        world.set_rate(SLOW)
        began = time.monotonic()
        until(lambda: is_about(world.link()["capacity_bytes_s"], SLOW), "the change is seen", within_s=30)
        assert time.monotonic() - began <= 15.0, "ten seconds, and what `status` takes on a busy machine"
        until(lambda: bool(world.status()["moves"]), "the contract is moved", within_s=60)
        (move,) = world.status()["moves"]
        assert move["contracts"] == ["volume"] and move["error"] is None
        assert move["because"][0].endswith("of what us>eu carries")
        until(lambda: _is_kept(world), "the promise is kept again", within_s=90)
        imagined = json.loads(world.headrace("whatif", "volume", str(world.folder), "--freshness=5s", "--json"))
        assert imagined["after"]["kept"]
        assert is_about(world.link()["believed_bytes_s"], SLOW), "it is remembered while nothing waits"


def _is_kept(world: SlowLink) -> bool:
    return bool(world.status()["contracts"][0]["state"] == "kept")
