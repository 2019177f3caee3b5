"""What `up` says about troubles: each one when it begins, when its words change, and when it is over.

While views are being loaded, `up` repeats each trouble every minute: loading may wait until somebody fixes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.model.trouble import Trouble

AGAIN_AFTER_S = 60.0
TROUBLE, HINT = "trouble: ", "  hint: "


@dataclass
class TroubleLines:
    _told: dict[str, tuple[Trouble, float]] = field(default_factory=dict)
    """What was said last of each, and when (seconds of a clock that nobody sets)."""

    def next_lines(self, found: Mapping[str, Trouble], now_s: float, waiting: bool) -> Iterator[str]:
        for key, trouble in found.items():
            before, at_s = self._told.get(key, (None, now_s))
            if before is None or before.what != trouble.what or (waiting and now_s - at_s >= AGAIN_AFTER_S):
                self._told[key] = trouble, now_s
                yield f"{TROUBLE}{trouble.what}"
                yield f"{HINT}{trouble.hint}"
        for key in [key for key in self._told if key not in found]:
            yield f"over: {self._told.pop(key)[0].what}"
