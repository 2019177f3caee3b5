"""How often captures commit: often enough for the shortest promise, and not more often than that takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.connect.postgres.process import parse_config
from headrace.connect.postgres.source import DSN_VARIABLE, DatabaseTask
from headrace.run.source_port import LONGEST_STEP_S
from headrace.site.sources.databases import find_step_s


@pytest.mark.parametrize(
    ("promises_s", "step_s"), [([], 0.5), ([60.0, 10.0], 0.5), ([60.0, 1.0], 0.15), ([2.0], 0.3), ([0.1], 0.1)]
)
def test_the_shortest_promise_says_how_long_changes_wait_for_others(promises_s: list[float], step_s: float) -> None:
    assert find_step_s(promises_s) == pytest.approx(step_s)


def test_a_process_is_told_in_which_steps_to_capture_and_goes_over_to_others(tmp_path: Path) -> None:
    slow = DatabaseTask(CaptureSettings("p", "d", "dsn", (), tmp_path))
    quick = DatabaseTask(CaptureSettings("p", "d", "dsn", (), tmp_path, step_s=0.15))
    told = parse_config(quick.make_process(tmp_path / "ledger.db", tmp_path).line.decode())
    assert told.settings({DSN_VARIABLE: "dsn"}) == quick.settings
    assert slow.settings.step_s == LONGEST_STEP_S and slow != quick
    assert slow.can_become(quick) and quick.can_become(slow)
    assert not slow.can_become(DatabaseTask(CaptureSettings("p", "d", "elsewhere", (), tmp_path)))
