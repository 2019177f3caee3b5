"""Decides what a device sends next, and again: from queues that are emptied only by what the cloud has kept.

queue       rows of a stream, or changes of a template's results, numbered. An acknowledgement is the last number
            that was kept, so each queue is sent in order, and again from its start when none comes in time
between     higher priority first; of equal ones, what is new before what waited
queues      at most MOST_IN_FLIGHT messages are unacknowledged, half of them with old rows, of which so many are
            sent per second: after a night offline, a device does not stand in the way of its own live rows
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.run.device.store import WaitingRow

MOST_IN_FLIGHT = 20
MOST_OLD_IN_FLIGHT = 10
OLD_AFTER_MS = 5_000
OLD_PER_SECOND = 20.0
RESEND_AFTER_MS = 15_000
MOST_ROWS = 200
MOST_BYTES = 64_000
"""Of one message, unless a single row is larger."""


class QueuedRows(NamedTuple):
    """Rows of a queue that go up together: the body, and the last number in it."""

    queue: str
    body: str
    last: int


class _Flight(NamedTuple):
    queue: str
    last: int
    sent_ms: int
    is_old: bool


@dataclass(slots=True)
class Sending:
    """`last` is the last number in each queue that has been sent on this connection."""

    last: dict[str, int] = field(default_factory=dict)
    _flights: list[_Flight] = field(default_factory=list)
    _old_left: float = OLD_PER_SECOND
    _filled_ms: int = 0

    def reconnect(self) -> None:
        """Nobody knows what arrived: everything is sent again."""
        self.last.clear()
        self._flights.clear()

    def acknowledge(self, queue: str, seq: int) -> None:
        self.last[queue] = max(seq, self.last.get(queue, 0))
        self._flights = [one for one in self._flights if one.queue != queue or one.last > seq]

    def start_again(self, queue: str) -> None:
        self.last.pop(queue, None)
        self._flights = [one for one in self._flights if one.queue != queue]

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    def due_ms(self) -> int | None:
        """When something will have to be sent again."""
        return min((one.sent_ms + RESEND_AFTER_MS for one in self._flights), default=None)

    def choose(
        self,
        ends: Mapping[str, int],
        priority: Callable[[str], int],
        waiting: Callable[[str, int, int], list[WaitingRow]],
        now_ms: int,
    ) -> list[QueuedRows]:
        """Messages to send now. `ends` are the last numbers of queues; `waiting` reads rows after a number."""
        self._resend(now_ms)
        self._refill(now_ms)
        found = list[QueuedRows]()
        heads = dict[str, list[WaitingRow]]()
        for queue, end in ends.items():
            if end > self.last.get(queue, 0):
                heads[queue] = waiting(queue, self.last.get(queue, 0), MOST_ROWS)
                if not heads[queue]:  # all that was put there has been acknowledged, or given up
                    self.last[queue] = end
                    del heads[queue]
        while heads and len(self._flights) < MOST_IN_FLIGHT:
            queue = min(heads, key=lambda one: (-priority(one), self._is_old(heads[one][0], now_ms), one))
            message = self._send(queue, heads.pop(queue), now_ms)
            if message is not None:
                found.append(message)
                rows = waiting(queue, message.last, MOST_ROWS) if message.last < ends[queue] else []
                if rows:
                    heads[queue] = rows
        return found

    def _send(self, queue: str, rows: list[WaitingRow], now_ms: int) -> QueuedRows | None:
        is_old = self._is_old(rows[0], now_ms)
        if is_old and not self._may_send_old():
            return None
        taken, size = 1, len(rows[0].text)
        while taken < len(rows) and size + len(rows[taken].text) <= MOST_BYTES:
            size += len(rows[taken].text)
            taken += 1
        last = rows[taken - 1].seq
        self.last[queue] = last
        self._flights.append(_Flight(queue, last, now_ms, is_old))
        self._old_left -= is_old
        return QueuedRows(queue, "[" + ",".join(row.text for row in rows[:taken]) + "]", last)

    def _may_send_old(self) -> bool:
        return self._old_left >= 1 and sum(one.is_old for one in self._flights) < MOST_OLD_IN_FLIGHT

    @staticmethod
    def _is_old(row: WaitingRow, now_ms: int) -> bool:
        return now_ms - row.put_ms > OLD_AFTER_MS

    def _resend(self, now_ms: int) -> None:
        """A queue starts anew if a message is not acknowledged in time, or was sent by a clock that was ahead."""
        late = {one.queue for one in self._flights if not 0 <= now_ms - one.sent_ms < RESEND_AFTER_MS}
        for queue in late:
            self.start_again(queue)

    def _refill(self, now_ms: int) -> None:
        passed_ms = min(1000, max(0, now_ms - self._filled_ms))
        self._old_left = min(OLD_PER_SECOND, self._old_left + OLD_PER_SECOND * passed_ms / 1000)
        self._filled_ms = now_ms
