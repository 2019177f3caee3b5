"""A runner that is still starting: databases are read meanwhile, and who has work for it waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from headrace.run.items import Item, Outcome
from headrace.run.ports import Runner


class LateRunner:
    def __init__(self, start: Callable[[], Runner[Any]]) -> None:
        starter = ThreadPoolExecutor(1, thread_name_prefix="start")
        self._started: Future[Runner[Any]] = starter.submit(start)
        starter.shutdown(wait=False)

    def run(self, items: Sequence[Item]) -> list[Outcome[Any]]:
        """Raises what kept it from starting."""
        return self._started.result().run(items)
