"""Which transactions a snapshot of PostgreSQL sees."""

from __future__ import annotations

from dataclasses import dataclass

_CYCLE = 1 << 32


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as `pg_current_snapshot()` writes it, `xmin:xmax:xip,...`: transactions below `xmin` have ended, those
    from `xmax` on had not begun, and `running` between them had not ended."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @staticmethod
    def parse(text: str) -> Snapshot:
        xmin, xmax, running = text.split(":")
        return Snapshot(int(xmin), int(xmax), frozenset(map(int, filter(None, running.split(",")))))

    def sees(self, xid: int) -> bool:
        """Whether what a committed transaction did was there. `xid` is of 32 bits, as in the log."""
        full = self.xmax + (xid - self.xmax + _CYCLE // 2) % _CYCLE - _CYCLE // 2
        return full < self.xmax and full not in self.running
