"""Puts tables together that come in parts: nobody sees a table before all of it is there.

Parts of one version may come in any order, and twice. A part of a newer version ends the wait for an older one.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from headrace.model.device_messages import Sent, Taken
from headrace.model.types import Row


@dataclass(slots=True)
class _ComingTable:
    seq: int
    parts: int
    rows: dict[int, tuple[Row, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class TableParts:
    """Tables of which parts are missing, by name."""

    _coming: dict[str, _ComingTable] = field(default_factory=dict)

    def add(self, part: Taken) -> Sent | None:
        """The table with all its rows, if this is the last part that was missing."""
        coming = self._coming.get(part.stream)
        if coming is None or (part.sent.seq, part.parts) != (coming.seq, coming.parts):
            if coming is not None and part.sent.seq < coming.seq:
                return None
            coming = self._coming[part.stream] = _ComingTable(part.sent.seq, part.parts)
        coming.rows[part.part] = part.sent.rows
        if len(coming.rows) < coming.parts:
            return None
        del self._coming[part.stream]
        rows = tuple(row for number in range(coming.parts) for row in coming.rows[number])
        return Sent(coming.seq, part.sent.at_ms, rows)

    def keep_only(self, tables: Container[str]) -> None:
        """Nobody asks for others any more."""
        self._coming = {name: one for name, one in self._coming.items() if name in tables}
