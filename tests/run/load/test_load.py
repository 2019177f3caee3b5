"""What new vertices start with, as far as it comes from other sites."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headrace.meaning.zset import ZSet
from headrace.run.load.load import LoadSent
from headrace.testing.worlds import RunningWorld
from tests.run.test_engine import SOURCES, check, world_of

OF_R = "SELECT r.id, r.k FROM r WHERE r.k > 0"
ROWS = 1000
FOOTER = 2000
"""Bytes of a file that are not rows, at most."""


def some_of_r() -> ZSet:
    columns = SOURCES["r"].columns
    assert columns is not None
    rows = [{"id": number, "k": 1} for number in range(ROWS)]
    return ZSet((tuple(row.get(column.name) for column in columns), 1) for row in rows)


def loaded(world: RunningWorld) -> Counter[tuple[str, str]]:
    """Bytes by link."""
    sent: Counter[tuple[str, str]] = Counter()

    def count(one: LoadSent) -> None:
        sent[one.origin, one.site] += one.bytes

    world.engine.count_sent = count
    world.engine.load()
    assert world.wrong() == []
    return sent


def test_what_is_loaded_from_another_site_counts_like_a_push_of_it(tmp_path: Path) -> None:
    first, second = (world_of([OF_R], "m2", tmp_path / name) for name in ("first", "second"))
    first.capture({"r": some_of_r()})
    sent = loaded(first)
    second.engine.load()
    second.capture({"r": some_of_r()})
    pushed = second.engine.push(list(second.program.tasks), second.now)
    check(pushed)
    assert sent.keys() == {("m1", "m2")}
    assert 0 < sum(one.sent for one in pushed) - sent["m1", "m2"] < FOOTER
    assert sent["m1", "m2"] > ROWS * 24, "two numbers, a time and a weight"


@pytest.mark.parametrize("again", [False, True])
def test_what_stays_at_its_site_or_is_there_already_is_not_sent(tmp_path: Path, again: bool) -> None:
    world = world_of([OF_R], "m2" if again else "m1", tmp_path)
    world.capture({"r": some_of_r()})
    if again:
        world.engine.load()
        world.open()
    assert loaded(world) == {}
