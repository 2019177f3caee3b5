"""Pushes beside all others, each in a thread of its own: prepared and committed in turn, run while others push.

A result that is no longer needed is discarded: when another plan runs by then, or the service ends. It is in files that
nobody names.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.run.ports import Runner
from headrace.run.push.in_work import InWork
from headrace.run.push.items import ItemOutcome
from headrace.run.push.work import Produced, WorkItem
from headrace.site.threads import GuardedThreads
from headrace.site.turns import Turns

Finish = Callable[[WorkItem, ItemOutcome[Produced], float], None]
"""What to do with what a push made, and the seconds that it took; called with the turn to push."""


@dataclass(frozen=True, slots=True)
class Beside:
    runner: Runner[Any]
    in_work: InWork
    turns: Turns
    threads: GuardedThreads

    def push(self, item: WorkItem, finish: Finish) -> None:
        """The caller has the turn to push."""
        held = ExitStack()
        held.enter_context(self.in_work.holding(item))  # before anybody else may push, and replace its files
        self.threads.start(partial(self._push, item, held, finish), f"push of {item.name}")

    def _push(self, item: WorkItem, held: ExitStack, finish: Finish) -> None:
        with held:
            began = time.perf_counter()
            outcome = self.in_work.run(self.runner, item)
            with self.turns.pushing:
                if not self.threads.stop.is_set():
                    finish(item, outcome, time.perf_counter() - began)
