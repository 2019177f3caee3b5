"""Threads that look things up for the event loop, which must not wait itself.

They are few, and end with the process whatever they wait for: a store that stands still holds up nobody who wants to
end. Handing over is a queue and a future, since a page is found in less time than the usual ways of handing over take.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeAlias

_Job: TypeAlias = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class FeedThreads:
    """Used by one event loop."""

    def __init__(self, count: int) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._most = count
        self._started = 0
        self._busy = 0

    async def run(self, what: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._busy += 1
        # No more threads than are busy at once: each has sessions of its own, and a store answers quicker where it was
        # asked a moment ago.
        if self._started < min(self._busy, self._most):
            self._started += 1
            threading.Thread(target=self._work, name="feeds", daemon=True).start()
        self._jobs.put((what, loop, answer))
        try:
            return await answer
        finally:
            self._busy -= 1

    def end(self) -> None:
        """Waits for nobody."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            what, loop, answer = job
            found, failure = None, None
            try:
                found = what()
            except BaseException as error:  # whoever asked is told
                failure = error
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                loop.call_soon_threadsafe(_settle, answer, found, failure)


def _settle(answer: asyncio.Future[Any], found: Any, failure: BaseException | None) -> None:
    if answer.done():
        return  # who asked has left
    if failure is None:
        answer.set_result(found)
    else:
        answer.set_exception(failure)
