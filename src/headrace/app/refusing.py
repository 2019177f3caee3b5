"""Refuses to run a project that somebody runs already, here or elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.model.errors import UsageError
from headrace.site.folder import Folder
from headrace.site.process import find_service_lease, running_process

LOOK_EVERY_S = 0.2


def refuse_second(folder: Folder, say: Callable[[str], None] = lambda _: None, what: str = "the project") -> None:
    """Raises UsageError if a process runs the project. Of one elsewhere nobody here knows whether it lives: it does if
    it renews its lease, and does not once that has run out.
    """
    running = running_process(folder)
    if running is not None and not running.is_here:
        say(f"{running.words} ran the project: waiting until it renews its lease, or the lease runs out")
        running = running if _renews_lease(folder) else None
    if running is not None:
        raise UsageError(
            f'{what} in "{folder.project}" is already running, as {running.words}',
            "`headrace apply` makes it match its files; `headrace down` stops it",
        )


def _renews_lease(folder: Folder) -> bool:
    """Whether whoever has the project renews the lease, before it runs out."""
    first = held = find_service_lease(folder)
    while held is not None and held.left_s > 0.0:
        if first is not None and (held.lease, held.until) != (first.lease, first.until):
            return True
        time.sleep(LOOK_EVERY_S)
        held = find_service_lease(folder)
    return False
