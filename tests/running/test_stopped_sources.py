"""When the project's files are planned again because sources are stopped."""

from __future__ import annotations

from headrace.coordinate.changed_sources import TRY_AGAIN_AFTER_S, StoppedSources


def test_files_are_planned_again_once_for_each_reason_and_now_and_then_while_it_lasts():
    now = [0.0]
    stopped = StoppedSources(lambda: now[0])
    assert not stopped.is_worth_planning({})
    assert stopped.is_worth_planning({"users": "its key is gone"})
    assert not stopped.is_worth_planning({"users": "its key is gone"})
    assert stopped.is_worth_planning({"users": "its table is gone"})
    now[0] += TRY_AGAIN_AFTER_S
    assert stopped.is_worth_planning({"users": "its table is gone"})
    assert not stopped.is_worth_planning({"users": "its table is gone"})
