"""Decides which rows of devices are new, by their numbers.

Messages come more than once: a device sends again what was not acknowledged. They may also be missing: what is on its
way when the router or the broker ends is lost, and the device sends it again later than what it made since. So an
acknowledgement must never cover a number that did not come.

    latest rows     a higher number replaces a lower one; whatever lies between was replaced already
    numbered rows   (`keep` streams, results) come in the order of their numbers, some of which a device may skip. For
                    `UNSURE_S` after a connection began, or a message of the stream was not taken, only a row that
                    follows without a gap is taken. After a gap nothing is, until the device sends the same again: it
                    then begins with the oldest that it has

A device that has lost its memory says so (`Hello.plan` is 0) and counts from 1 again: it has lower numbers at later
times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

UNSURE_S = 20.0
"""Longer than a device waits before it sends again."""
AGAIN_S = 5.0
"""Shorter than that. What comes twice sooner was delivered twice: that says nothing of what came before it."""
MOST_UNSURE = 100_000


class HasNumber(Protocol):
    @property
    def seq(self) -> int: ...

    @property
    def at_ms(self) -> int: ...


Numbered = TypeVar("Numbered", bound=HasNumber)


class LastNumber(NamedTuple):
    """The last row that was taken of a stream: its number, and the device's time."""

    seq: int = 0
    at_ms: int = 0


NOTHING = LastNumber()

FRESH_MS = 10_000
"""How far numbers that begin anew are beyond those before, at least."""


class RowNumbers:
    """Streams are pairs of a device and a name. Times are seconds of one clock."""

    def __init__(self, last: Mapping[tuple[str, str], LastNumber] | None = None) -> None:
        self._last = dict(last or {})
        self._after_gap: dict[tuple[str, str], tuple[int, float]] = {}
        self._without_memory: set[tuple[str, str]] = set()
        self._unsure_until_s = float("-inf")
        self._unsure_streams: dict[tuple[str, str], float] = {}

    def doubt(self, now_s: float) -> None:
        """A connection begins: what was on its way before, or taken and not committed, is lost."""
        self._unsure_until_s = now_s + UNSURE_S
        self._after_gap.clear()

    def doubt_stream(self, device: str, stream: str, now_s: float) -> None:
        """A message of this stream was not taken: whatever comes next does not follow it."""
        if len(self._unsure_streams) >= MOST_UNSURE:  # a device may make up any number of streams
            self._unsure_streams.clear()
            self.doubt(now_s)
        self._unsure_streams[device, stream] = now_s + UNSURE_S
        self._after_gap.pop((device, stream), None)

    def last(self, device: str, stream: str) -> LastNumber:
        return self._last.get((device, stream), NOTHING)

    def lose_memory(self, device: str) -> None:
        """The device may count anew: what comes next of each of its streams tells."""
        self._without_memory |= {key for key in self._last if key[0] == device}

    def take_newest(self, device: str, stream: str, rows: Sequence[Numbered]) -> tuple[list[Numbered], bool]:
        """The row that is newer than all before, if there is one, and whether the device begins anew."""
        if not rows:
            return [], False
        key, newest = (device, stream), max(rows, key=_seq)
        begins = self._begins_anew(key, newest)
        if newest.seq <= self._last.get(key, NOTHING).seq and not begins:
            return [], False
        self._without_memory.discard(key)
        self._last[key] = LastNumber(newest.seq, newest.at_ms)
        return [newest], begins

    def take_next(
        self, device: str, stream: str, rows: Iterable[Numbered], now_s: float
    ) -> tuple[list[Numbered], bool]:
        """The rows that are new, in their order, and whether the device begins anew: all before is void."""
        key, ordered = (device, stream), sorted(rows, key=_seq)
        if not ordered:
            return [], False
        begins = self._begins_anew(key, ordered[0])
        last = 0 if begins else self._last.get(key, NOTHING).seq
        new = [row for row in ordered if row.seq > last]
        if not new or not self._follows(key, last, ordered[0].seq, new[0].seq, now_s):
            return [], False
        self._without_memory.discard(key)
        self._last[key] = LastNumber(new[-1].seq, max(row.at_ms for row in new))
        return new, begins

    def _begins_anew(self, key: tuple[str, str], first: HasNumber) -> bool:
        if key not in self._without_memory:
            return False
        last = self._last[key]
        # Numbers begin at the time of the first row, far from where they were: one that counts on may meet the time by
        # chance. A row that only comes again has the time that it had before.
        is_fresh = first.seq == first.at_ms and first.seq > last.seq + FRESH_MS
        return first.at_ms > last.at_ms and (first.seq <= last.seq or is_fresh)

    def _follows(self, key: tuple[str, str], last: int, first: int, new: int, now_s: float) -> bool:
        """Whether nothing can be missing between `last` and `new`; the message begins with number `first`."""
        held = self._after_gap.get(key)
        is_sure = held is None and now_s >= max(self._unsure_until_s, self._unsure_streams.get(key, 0.0))
        is_repeated = held is not None and first <= held[0] and now_s >= held[1] + AGAIN_S
        if first <= last + 1 or is_sure or is_repeated:
            self._after_gap.pop(key, None)
            self._unsure_streams.pop(key, None)
            return True
        self._after_gap[key] = (new, now_s) if held is None else held
        return False


def _seq(row: HasNumber) -> int:
    return row.seq
