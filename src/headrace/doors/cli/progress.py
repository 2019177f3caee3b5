"""What goes on, told on stderr once a command has taken a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

QUIET_S = 2.0


def progress() -> Callable[[str], None]:
    """Quick commands stay silent."""
    started = time.monotonic()

    def say(what: str) -> None:
        passed = time.monotonic() - started
        if passed >= QUIET_S:
            print(f"{what} ({passed:.0f} s)", file=sys.stderr, flush=True)

    return say
