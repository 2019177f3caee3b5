"""A view as it was at a time, before its base or after it, is its query on what the sources held then."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.meaning.zset import ZSet
from headrace.run.logs import upkeep
from headrace.run.rows.arrow import rows_of_arrow
from headrace.testing import changes, tables
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.examples import examples
from tests.run.test_crashes import VIEWS
from tests.run.test_engine import ANY_SIZE, world_of


@settings(ANY_SIZE, max_examples=examples(15))
@given(st.data())
def test_a_view_at_any_time_whose_changes_are_kept_is_its_query_at_that_time(data):
    with quick_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "COMPACT_PIECES", 0)  # a base of everything, each time
        world = world_of(VIEWS, "m2", Path(folder))
        world.capture(data.draw(tables(max_rows=4)))
        world.engine.load()
        for _ in range(data.draw(st.integers(1, 5))):
            world.capture(data.draw(changes(world.history[world.now])))
            if data.draw(st.booleans()):
                world.engine.push(list(world.program.tasks), world.now)
            if data.draw(st.booleans()):
                keep_up(world, keep=data.draw(st.sampled_from([0, 2**60])))
        check_all_times(world)


def test_a_view_is_known_before_its_base(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "COMPACT_PIECES", 0)
        world = world_of(["SELECT s.k, s.label FROM s"], "m2", tmp_path)
        rows = [(number % 3, number, None, "ab"[number % 2], None) for number in range(6)]
        world.capture({"s": ZSet.of(rows[:2])})
        world.engine.load()
        for row, gone in zip(rows[2:], rows, strict=False):
            world.capture({"s": ZSet([(row, 1), (gone, -1)])})
            world.engine.push(list(world.program.tasks), world.now)
        keep_up(world, keep=2**60)
        log = world.ledger.logs([world.plan.contracts[0].vertex])[world.plan.contracts[0].vertex]
        assert log.base_t == log.t > log.start
        assert check_all_times(world) == 5


def keep_up(world: RunningWorld, keep: int) -> None:
    one = upkeep.Upkeep(world.engine, keep=keep, gather_files=2)
    while one.step():
        pass
    one.trim(world.now)


def check_all_times(world: RunningWorld) -> int:
    """How many times of the last view could be checked."""
    checked = 0
    for planned in world.plan.contracts:
        log = world.ledger.logs([planned.vertex])[planned.vertex]
        times = [t for t in world.history if log.start <= t <= log.t]
        for t in times:
            assert ZSet.of(rows_of_arrow(world.rows(planned.contract, t))) == world.expected(planned.contract, t)
        checked = len(times)
    return checked
