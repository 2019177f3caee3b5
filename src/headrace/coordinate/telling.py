"""What commands print while people wait for them: what the service is doing, and what is wrong.

`up` tells each trouble when it begins, when its words change (not how long it lasts), and when it is over; while views
are being loaded, it repeats each trouble every minute. `apply` and `reread` tell what the service is doing when that
changes, and every minute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.trouble import Trouble

AGAIN_AFTER_S = 60.0
AMOUNT = re.compile(r"\b\d[\d.]* (us|ms|s|min|h|days|[kMGTP]?B)\b")
GIVE_UP_AFTER_S = 300.0
"""`up --detach` does not wait longer than this for what somebody else has to mend."""
TROUBLE, HINT = "trouble: ", "  hint: "
GOES_ON = "  hint: the service continues if you stop this command; `headrace status` shows the progress"


@dataclass
class TroubleLines:
    _told: dict[str, tuple[Trouble, float]] = field(default_factory=dict)
    """What was said last of each, and when (seconds of a clock that nobody sets)."""

    def next_lines(self, found: Mapping[str, Trouble], now_s: float, waiting: bool) -> Iterator[str]:
        for key, trouble in found.items():
            before, at_s = self._told.get(key, (None, now_s))
            if before is None or _words(before) != _words(trouble) or (waiting and now_s - at_s >= AGAIN_AFTER_S):
                self._told[key] = trouble, now_s
                yield from _lines_of(trouble)
        for key in [key for key in self._told if key not in found]:
            yield f"resolved: {self._told.pop(key)[0].what}"


@dataclass
class WaitLines:
    """Lines for people who wait until the service has done something: nobody waits in silence."""

    _phase: str = ""
    _told_s: float = 0.0

    def next_lines(self, phase: str, troubles: Sequence[Trouble], passed_s: float) -> Iterator[str]:
        """`passed_s` seconds after the command began. What is wrong is told once the same phase lasts for a minute."""
        is_new = phase != self._phase
        if is_new or passed_s - self._told_s >= AGAIN_AFTER_S:
            self._phase, self._told_s = phase, passed_s
            yield f"{phase} ({passed_s:.0f} s)"
            if not is_new:
                yield from (line for trouble in troubles for line in _lines_of(trouble))
                yield GOES_ON


@dataclass
class Progress:
    """Whether it is worth waiting for a service that loads its views: while it moves on, or nothing is wrong."""

    _phase: str = ""
    _since_s: float = 0.0

    def is_stuck(self, phase: str, troubles: Sequence[Trouble], now_s: float) -> bool:
        """Whether it has been at the same phase for too long, all the time with something to mend."""
        if phase != self._phase or not troubles:
            self._phase, self._since_s = phase, now_s
        return now_s - self._since_s >= GIVE_UP_AFTER_S


def _words(trouble: Trouble) -> str:
    """What is wrong, however long and however much: that may change every second."""
    return AMOUNT.sub("", trouble.what)


def _lines_of(trouble: Trouble) -> Iterator[str]:
    yield f"{TROUBLE}{trouble.what}"
    yield f"{HINT}{trouble.hint}"
