"""Tables of files that this process has opened a moment ago, so that the next push need not open them again.

Files never change, so a table is right as long as the file is the same: the same device, inode, time of the last write,
size and checksum. Opening one takes longer than to look up a few rows in it, and a push looks up rows in dozens.

A file that was deleted keeps its space on disk while it is mapped. So tables are let go of a minute after they were
used last, as others are opened, and all together they are never larger than a limit.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import pyarrow as pa

MOST_FILES = 2_000
UNUSED_S = 60.0


@dataclass(slots=True)
class OpenedFiles:
    """May be used by several threads at once."""

    most_bytes: int
    clock: Callable[[], float] = time.monotonic
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _tables: OrderedDict[Hashable, tuple[pa.Table, int, float]] = field(default_factory=OrderedDict)
    """With its bytes and when it was used last, the oldest first."""
    _bytes: int = 0

    def find(self, who: Hashable) -> pa.Table | None:
        with self._turn:
            found = self._tables.get(who)
            if found is None:
                return None
            self._tables[who] = (*found[:2], self.clock())
            self._tables.move_to_end(who)
            return found[0]

    def keep(self, who: Hashable, table: pa.Table, size: int) -> None:
        now = self.clock()
        with self._turn:
            if who in self._tables or size > self.most_bytes:
                return
            self._tables[who] = table, size, now
            self._bytes += size
            while self._tables and self._is_too_much(now):
                _, (_, gone, _) = self._tables.popitem(last=False)
                self._bytes -= gone

    def _is_too_much(self, now: float) -> bool:
        used = next(iter(self._tables.values()))[2]
        return self._bytes > self.most_bytes or len(self._tables) > MOST_FILES or now - used > UNUSED_S
