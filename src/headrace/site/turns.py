"""The turns that threads of a service take: three locks, always taken in one order.

    plan       is taken to go over to a plan, and to mend views of the plan that runs: one at a time
    upkeep     is taken to compact logs, and to load views: what a view starts from must not be compacted meanwhile
    pushing    is taken to prepare and to commit pushes, and to say what is pushed

The order is plan, upkeep, pushing. A thread that holds one of them waits only for those after it. A thread that wants
an earlier one does not wait for it: `try_plan` says no while somebody else has it.

What is pushed, the program and its plan, changes only while one thread holds all three. So it stays the same for
a thread that holds any of them.

All other locks belong to one object each. One is outside of the turns: `coordinate/host.py` lets one person at a time
apply a plan, and waits until it is loaded. The rest is inside, and a thread that holds one of them takes no turn. Among
these the order is: captures, the engine, a look of the auditor, its records, and then those that are held for a moment
without calling anybody: accounts, troubles, journal, unloaded contracts, gaps, pushes in work, the ledger.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class Turns:
    """Use each in a `with` statement. The turn for pushing may be taken again by the thread that has it."""

    __slots__ = ("_plan", "_pushing", "_upkeep")

    def __init__(self) -> None:
        self._plan, self._upkeep = threading.Lock(), threading.Lock()
        # A thread that loads views holds it around a commit, and pushes what these views read within.
        self._pushing = threading.RLock()

    @property
    def plan(self) -> AbstractContextManager[object]:
        return self._plan

    @property
    def upkeep(self) -> AbstractContextManager[object]:
        return self._upkeep

    @property
    def pushing(self) -> AbstractContextManager[object]:
        return self._pushing

    @contextmanager
    def upkeep_and_pushing(self) -> Iterator[None]:
        """Both turns, for a thread that changes what is pushed and holds `plan` already."""
        with self._upkeep, self._pushing:
            yield

    @contextmanager
    def try_plan(self) -> Iterator[bool]:
        """Whether the thread has the turn now: it may hold `upkeep`, so it must not wait for `plan`."""
        taken = self._plan.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._plan.release()

    @contextmanager
    def try_pushing(self, within_s: float) -> Iterator[bool]:
        """Whether the thread gets the turn within so many seconds: a push may take minutes."""
        taken = self._pushing.acquire(timeout=within_s)
        try:
            yield taken
        finally:
            if taken:
                self._pushing.release()

    def wait_for_pushes(self, within_s: float) -> None:
        """Returns when nobody pushes, or when that many seconds have passed."""
        if self._pushing.acquire(timeout=within_s):
            self._pushing.release()
