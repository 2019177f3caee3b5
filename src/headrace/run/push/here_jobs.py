"""Runs jobs in this process: marks each item while working on it; a job that is told to end starts no further item.

An item that hangs cannot be ended here, because a thread cannot be killed. It is abandoned.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.run.push.items import Item, ItemOutcome, attempt


@dataclass(frozen=True, slots=True)
class HereJobs:
    """Runs items one after the other, pickled on the way in and out as elsewhere."""

    perform: Callable[..., Any]
    _in_work: dict[str, dict[int, object]] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    def run_job(self, job: str, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        done: list[ItemOutcome[Any]] = []
        try:
            for number, item in enumerate(items):
                if job in self._ended:
                    break
                self._in_work[job] = {number: "begun"}
                done.append(pickle.loads(attempt(self.perform, item.name, pickle.dumps(item))))
        finally:
            self._in_work.pop(job, None)
            self._ended.discard(job)
        left = items[len(done) :]
        return [*done, *(ItemOutcome(item.name, None, "its job was ended", 0.0, retryable=True) for item in left)]

    def in_work(self, job: str) -> Mapping[int, object]:
        return self._in_work.get(job, {})

    def end_job(self, job: str) -> None:
        self._ended.add(job)

    def answers(self) -> bool:
        return True

    def kill(self) -> None:
        """Nobody can kill a thread."""
