"""Prints progress to stderr once a command has run for a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

QUIET_S = 2.0


def progress(every_s: float = 0.0) -> Callable[[str], None]:
    """Quick commands stay silent. What comes sooner than `every_s` after the last line is left out."""
    started = time.monotonic()
    said = -every_s

    def say(what: str) -> None:
        nonlocal said
        passed = time.monotonic() - started
        if passed >= max(QUIET_S, said + every_s):
            said = passed
            print(f"{what} ({passed:.0f} s)", file=sys.stderr, flush=True)

    return say
