"""Which answers go first over the link to a site: changes, and behind them loads, which are large and can wait.

While changes wait here to be sent, or are on their way, a load gets a tenth of what is sent: so views that are loaded
get there in the end, and those that run stay fresh. When none are, it gets all of the link. What a load has handed over
to the kernel goes before all that comes later. So it never hands over more than the link carries in a quarter of a
second, or in two round trips if that is more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from headrace.connect.wire.tcp import TcpInfo

LOAD_SHARE = 0.1
SLICE_S = 0.25
LEAST_AHEAD = 16 * 1024
"""Bytes of a load that may be ahead of changes on any link."""
MOST_CREDIT = 256 * 1024
"""Bytes that loads may send at once when changes have just been sent."""
WAITS_AT_MOST_S = 20.0
"""After so long a load sends something even if changes do not move: readers give up what stands still for longer."""


@dataclass(slots=True)
class LinkOrder:
    """What is sent to one site. One thread calls the methods. Connections are told with what they have not brought to
    the other side yet, bytes.
    """

    _changes: dict[Hashable, Callable[[], int]] = field(default_factory=dict)
    _credit: float = 0.0

    def begin_changes(self, connection: Hashable, count_outgoing: Callable[[], int]) -> None:
        """An answer that is no load is sent over this connection, which counts until a load is."""
        self._changes[connection] = count_outgoing

    def end(self, connection: Hashable) -> None:
        """Nothing but loads is sent over this connection from now on, or nothing at all."""
        self._changes.pop(connection, None)

    def note_changes(self, size: int) -> None:
        """So many bytes of changes were sent."""
        self._credit = min(MOST_CREDIT, self._credit + size * LOAD_SHARE / (1.0 - LOAD_SHARE))

    def take(self, size: int, waited_s: float) -> bool:
        """Whether a load that has waited for some time may send so many bytes now. It then sends them."""
        if not self._is_any_waiting():
            return True
        if self._credit < size and waited_s < WAITS_AT_MOST_S:
            return False
        self._credit = max(0.0, self._credit - size)
        return True

    def _is_any_waiting(self) -> bool:
        return any(count() > 0 for count in self._changes.values())


def may_be_ahead(known: TcpInfo | None) -> int:
    """How many bytes of a load may be on their way at once over a connection."""
    if known is None:
        return LEAST_AHEAD
    return max(LEAST_AHEAD, round(known.delivery_rate * max(SLICE_S, 2.0 * known.rtt_s)))
