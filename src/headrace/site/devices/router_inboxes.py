"""Brings committed rows of devices to the inboxes of their sources, in order.

A batch is written to all inboxes, and forgotten only then: what was interrupted is written again as a whole. That is
safe, since the last change of each key is the same however often it is written. A disk that does not take rows holds
them up; it is tried again, and somebody is told. A row that no file can hold would hold up all others for ever: it is
set aside, and somebody is told of that, too.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.connect.written.inbox import put_rows
from headrace.model.errors import ConnectError
from headrace.model.types import Row
from headrace.run.devices.intake import WrittenChange, last_of_each_key
from headrace.site.devices.router_settings import RoutedSource

log = logging.getLogger("headrace.router")


@dataclass(slots=True)
class _WaitingRows:
    """Changes of one source in their order, and how many of them each device sent."""

    changes: list[WrittenChange] = field(default_factory=list)
    of_device: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class RouterInboxes:
    """Rows that are committed and not in the inboxes. `up_to` is the number of the last message that they come from;
    `set_aside` counts rows that no file could hold.
    """

    up_to: int = 0
    set_aside: int = 0
    _waiting: dict[RoutedSource, _WaitingRows] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(len(waiting.changes) for waiting in self._waiting.values())

    def count_rows(self, device: str) -> int:
        return sum(waiting.of_device[device] for waiting in self._waiting.values())

    def add(self, source: RoutedSource, device: str, change: WrittenChange) -> None:
        waiting = self._waiting.setdefault(source, _WaitingRows())
        waiting.changes.append(change)
        waiting.of_device[device] += 1

    def reach(self, up_to: int) -> None:
        """All rows of messages up to this number have been added."""
        self.up_to = max(self.up_to, up_to)

    def put(self) -> int:
        """Writes all that waits; the number of the last message whose rows are there. Raises `ConnectError`."""
        for source in list(self._waiting):
            upserts, deletes = last_of_each_key(self._waiting[source].changes, source.key)
            self._put(source, upserts, deletes)
            del self._waiting[source]
        return self.up_to

    def delete(self, source: RoutedSource, rows: Sequence[Row]) -> None:
        """Takes rows out of a source, of which only the key counts. What waits has to be written before: a row that is
        written after its deletion would be there again. Raises `ConnectError`.
        """
        assert not self._waiting, "rows that wait are written first"
        self._put(source, (), rows)

    def _put(self, source: RoutedSource, upserts: Sequence[Row], deletes: Sequence[Row]) -> None:
        """Writes rows, each of another key. If that fails for what is in them, halves are tried."""
        try:
            put_rows(source.inbox, source.columns, upserts, deletes)
        except ConnectError:
            raise
        except Exception as error:
            if len(upserts) + len(deletes) == 1:
                self._set_aside(source, (*upserts, *deletes)[0], error)
                return
            for rows, are_gone in ((upserts, False), (deletes, True)):
                half = (len(rows) + 1) // 2
                for part in filter(None, (rows[:half], rows[half:])):
                    self._put(source, () if are_gone else part, part if are_gone else ())

    def _set_aside(self, source: RoutedSource, row: Row, error: Exception) -> None:
        self.set_aside += 1
        key = tuple(row[position] for position in source.key)
        log.error("a row for %s with key %.500r is set aside: %s: %s", source.inbox, key, type(error).__name__, error)
