"""Decides when to plan the project's files again because tables of stopped sources have another key or other columns.

Files that say nothing of a source's key or columns take them from its table. If these change, the running plan cannot
go on with the source, and the same files mean another plan. Files that somebody has edited meanwhile are left for
`headrace apply`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

TRY_AGAIN_AFTER_S = 60.0
"""While the same sources are stopped for the same reasons: a database may have been away, or a table half migrated."""


@dataclass
class StoppedSources:
    """Which sources were stopped, and why, when the files were last planned again; and when that was."""

    now_s: Callable[[], float] = time.monotonic
    _tried: Mapping[str, str] = field(default_factory=dict)
    _tried_s: float = 0.0

    def is_worth_planning(self, stopped: Mapping[str, str]) -> bool:
        """Whether to plan now. Counts as done, whatever comes of it."""
        if not stopped:
            return False
        if dict(stopped) == self._tried and self.now_s() - self._tried_s < TRY_AGAIN_AFTER_S:
            return False
        self._tried, self._tried_s = dict(stopped), self.now_s()
        return True
