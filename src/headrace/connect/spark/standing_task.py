"""What a standing task does in Spark's Python worker: it connects to the service and performs items as they come.

The worker ends an item that takes too long by ending itself, even if the item never lets go of the interpreter. It also
ends after many items, or with much memory, and Spark starts the task again in a new worker: whatever a library leaks is
gone with it.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from headrace.connect.spark.signed_link import LinkBroken, SignedLink, greet_service
from headrace.run.push.items import attempt

BEGUN, GOODBYE = b"begun", b""
MOST_ITEMS = 20_000
MOST_OWN_BYTES = 2_000_000_000
"""After this many items, or with this much memory, a worker is replaced by a new one."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class StandingTask:
    """Where a task finds its service, the secret that both know, what performs items, and what that needs."""

    address: tuple[str, int]
    secret: bytes
    perform: Callable[..., object]
    modules: tuple[str, ...]
    most_items: int

    def serve(self, numbers: Iterable[int]) -> Iterator[int]:
        """Performs items until the service says goodbye; how many. Fails if the service is gone without a word."""
        list(numbers)  # Spark waits until a task has read its input
        for module in self.modules:
            import_module(module)
        link = greet_service(self.address, self.secret)
        try:
            yield self._serve_link(link)
        finally:
            link.close()

    def _serve_link(self, link: SignedLink) -> int:
        served = 0
        while message := link.receive():
            name, pickled, limit_s = pickle.loads(message)
            link.send(BEGUN)
            with _end_worker_after(limit_s):
                outcome = attempt(self.perform, name, pickled)
            link.send(outcome)
            served += 1
            if served >= self.most_items or own_bytes() > MOST_OWN_BYTES:
                # Only a worker that ends is replaced: one whose task is done goes on with other tasks.
                link.close()
                os._exit(0)
        if message is None:
            raise LinkBroken("the service is gone")  # a task that fails is started again, should the service live
        return served


@contextmanager
def _end_worker_after(limit_s: float) -> Iterator[None]:
    # This timer needs no interpreter lock, which an endless regular expression never releases.
    faulthandler.dump_traceback_later(limit_s, exit=True, file=sys.__stderr__ or 2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def own_bytes() -> int:
    """Memory of this process alone: mapped files are not its own, however much of them it has looked at."""
    try:
        resident, shared = map(int, Path("/proc/self/statm").read_text().split()[1:3])
        return (resident - shared) * PAGE_BYTES
    except (OSError, ValueError):  # a system that does not tell
        return 0
