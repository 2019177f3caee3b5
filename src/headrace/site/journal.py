"""The one place where events enter: each is logged in its own words, and committed by the service within a second.

Events of pushes and captures do not pass here: they are rows of the commits that they tell of. All others wait until
the auditor commits its next look, which is every second, and are part of that commit. Emitting waits for nobody and
never fails. Events that wait when the process is killed are lost; what finds the same after the restart tells it again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.model.events import Event

log = logging.getLogger("headrace.events")

KEEP_FOR_S = 7 * 86_400.0
"""How long events are kept."""
KEEP_ROUTINE_BYTES, KEEP_OTHER_BYTES = 80_000_000, 20_000_000
"""How many bytes of the ledger they take at most: pushes, however many, never crowd out what people look for."""


class Journal:
    """May be used by any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._waiting: tuple[Event, ...] = ()

    def emit(self, event: Event) -> None:
        if not event.is_routine:
            log_event(event)
        with self._turn:
            self._waiting = (*self._waiting, event)

    @contextmanager
    def committing(self) -> Iterator[tuple[Event, ...]]:
        """The events that wait, for a thread that commits them now; they go on waiting if that fails."""
        with self._turn:
            taken, self._waiting = self._waiting, ()
        try:
            yield taken
        except BaseException:
            with self._turn:
                self._waiting = (*taken, *self._waiting)
            raise


def log_event(event: Event) -> None:
    level = logging.WARNING if event.is_warning else logging.INFO
    reason = "" if event.reason is None or event.reason in event.text else f": {event.reason}"
    log.log(level, "%s%s", event.text, reason)
