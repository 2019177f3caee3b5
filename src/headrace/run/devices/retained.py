"""Decides when to ask the broker again for what it retains: documents of devices, and tables.

It sends that when somebody subscribes. A broker that was killed and started again has been seen to send nothing of it
to the first that came. So whoever knows of a message that should be there, and did not get it, asks again: soon at
first, then ever less often, since it may not be there at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SOONEST_S, SELDOMEST_S = 1.0, 600.0

Retained = tuple[str, str]
"""What kind of message, and whose it is."""


@dataclass(slots=True)
class RetainedMessages:
    """Times are seconds of one clock."""

    _missing: set[Retained] = field(default_factory=set)
    _ask_s: float = 0.0
    _pause_s: float = SOONEST_S

    def begin_connection(self) -> None:
        """The broker is asked for everything now."""
        self._missing.clear()
        self._pause_s = SOONEST_S

    def note_missing(self, message: Retained, now_s: float) -> None:
        """Somebody says that there is such a message, and it is not here. That may be wrong, and be said again and
        again: it is asked for soon only the first time.
        """
        if message not in self._missing:
            self._ask_s = min(self._ask_s, now_s + SOONEST_S) if self._missing else now_s + SOONEST_S
            self._missing.add(message)

    def note_there(self, message: Retained) -> None:
        if message in self._missing:
            self._missing.remove(message)
            self._pause_s = SOONEST_S

    def take_due(self, now_s: float) -> bool:
        """Whether to ask now; the caller does."""
        if not self._missing or now_s < self._ask_s:
            return False
        self._pause_s = min(2 * self._pause_s, SELDOMEST_S)
        self._ask_s = now_s + self._pause_s
        return True
