"""Lines that a process is told on its standard input."""

from __future__ import annotations

import os
from collections.abc import Iterator


def lines_of(handle: int) -> Iterator[str]:
    """Reads lines as they come.

    Not through `sys.stdin`: a thread that waits there would keep Python from ending in order.
    """
    rest = b""
    while some := os.read(handle, 1 << 16):
        *whole, rest = (rest + some).split(b"\n")
        yield from (line.decode() for line in whole)
