"""Decides what goes down to which device, and when. No clock and no broker: the caller says the time, and sends.

A device takes streams of others, and tables of the cloud, as its document says. Of a latest-row stream it gets the
newest row only, of a `keep` stream every row; what is due for one device goes in one message.

    a row comes        its takers get it after `COALESCE_S`, but not sooner than `every_s` after the one before
    new to a taker     the newest row, or the kept history, goes down as if it had just come; `NO_MORE` if there is none
    a taker is away    nothing is sent, since the broker would keep it all. Once back it gets the newest rows, and of
                       `keep` streams what came meanwhile

After things have settled, what a taker got last of a latest-row stream is what its sender sent last.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.device_messages import CLOUD, NO_MORE, Sent, Taken

COALESCE_S = 0.2

StreamOf = tuple[str, str]
"""A device, and the name of one of its streams."""


@dataclass(frozen=True, slots=True)
class History:
    """Rows of a `keep` stream that a taker lacks: all with a higher number than `after`, from where they are kept."""

    device: str
    stream: str
    after: int


@dataclass(frozen=True, slots=True)
class RowsDue:
    """One message to one device, and history that goes with it. `sent` is the last number of each `keep` stream that
    the device has then been sent, by device and stream.
    """

    taker: str
    rows: tuple[Taken, ...]
    history: tuple[History, ...]
    sent: tuple[tuple[StreamOf, int], ...]


@dataclass(slots=True)
class _Link:
    """What one taker gets of one stream. `waiting` are rows of a `keep` stream; `lacks` means that some are missing
    there, and have to be looked up. `sent` is the highest number that was sent.
    """

    every_s: float
    not_before_s: float = -math.inf
    sent: int = 0
    lacks: bool = False
    waiting: list[Sent] = field(default_factory=list)


@dataclass(slots=True)
class Routing:
    """`coalesce_s` is how long rows wait for others that go to the same device."""

    coalesce_s: float = COALESCE_S
    _newest: dict[StreamOf, Sent] = field(default_factory=dict)
    _kept: set[StreamOf] = field(default_factory=set)
    _takers: dict[StreamOf, dict[str, _Link]] = field(default_factory=dict)
    _links: dict[str, dict[StreamOf, _Link]] = field(default_factory=dict)
    _new: dict[str, set[StreamOf]] = field(default_factory=dict)
    _due: list[tuple[float, str]] = field(default_factory=list)
    _due_at: dict[str, float] = field(default_factory=dict)
    _away: set[str] = field(default_factory=set)
    _sent_before: dict[tuple[str, StreamOf], int] = field(default_factory=dict)

    # What comes

    def accept(self, device: str, stream: str, rows: Sequence[Sent], is_kept: bool, now_s: float) -> None:
        """Rows that are new, in the order of their numbers; `is_kept` if all of them count, not just the newest."""
        key = device, stream
        if not rows:
            return
        self._newest[key] = rows[-1]
        if is_kept:
            self._kept.add(key)
        for taker, link in self._takers.get(key, {}).items():
            if taker in self._away:
                link.lacks = link.lacks or is_kept
                continue
            if is_kept and not link.lacks:
                link.waiting.extend(rows)
            self._plan(taker, key, link, now_s)

    def load(
        self, newest: Mapping[StreamOf, Sent], kept: Iterable[StreamOf], sent: Mapping[tuple[str, StreamOf], int]
    ) -> None:
        """What is known from before. `sent` are the highest numbers that takers of `keep` streams were sent."""
        self._newest.update(newest)
        self._kept.update(kept)
        self._sent_before.update(sent)

    def set_takes(self, taker: str, takes: Mapping[StreamOf, float], now_s: float) -> None:
        """What a device's document says that it takes, and how often at most."""
        links = self._links.setdefault(taker, {})
        for key in [key for key in links if key not in takes]:
            self._drop(taker, key)
        for key, every_s in takes.items():
            if key[0] == taker:
                continue
            if key in links:
                links[key].every_s = every_s
                continue
            links[key] = link = _Link(every_s, sent=self._sent_before.pop((taker, key), 0))
            self._takers.setdefault(key, {})[taker] = link
            self._renew(taker, key, link, now_s)

    def note_back(self, taker: str, now_s: float, has_no_memory: bool = False) -> None:
        """The device is there, perhaps with a new connection: it gets the newest rows again."""
        self._away.discard(taker)
        for key, link in self._links.get(taker, {}).items():
            if has_no_memory:
                link.sent, link.lacks = 0, key in self._kept
            if key not in self._kept or link.lacks:
                self._renew(taker, key, link, now_s)

    def renew_all(self, now_s: float) -> None:
        """Whatever was sent before may be lost: all who are there get the newest rows again."""
        for taker in self._links:
            if taker not in self._away:
                self.note_back(taker, now_s)

    def note_away(self, taker: str) -> None:
        self._away.add(taker)
        for key in self._new.pop(taker, ()):
            link = self._links[taker][key]
            link.lacks = link.lacks or key in self._kept
            link.waiting.clear()
        self._due_at.pop(taker, None)

    def is_away(self, taker: str) -> bool:
        return taker in self._away

    def is_taken(self, taker: str, device: str, stream: str) -> bool:
        """Whether the taker is there, and its document says that it takes this."""
        return taker not in self._away and (device, stream) in self._links.get(taker, {})

    def is_kept(self, device: str, stream: str) -> bool:
        return (device, stream) in self._kept

    # What goes

    def next_due_s(self) -> float | None:
        """When something is to be sent next."""
        return self._due[0][0] if self._due else None

    def take_due(self, now_s: float) -> list[RowsDue]:
        """What is to be sent now; the caller sends it."""
        found = []
        while self._due and self._due[0][0] <= now_s:
            at_s, taker = heapq.heappop(self._due)
            if self._due_at.get(taker) != at_s:
                continue  # it was planned for another time meanwhile, or is away
            del self._due_at[taker]
            delivery = self._gather(taker, now_s)
            if delivery is not None:
                found.append(delivery)
        return found

    def _gather(self, taker: str, now_s: float) -> RowsDue | None:
        rows: list[Taken] = []
        history: list[History] = []
        sent: list[tuple[StreamOf, int]] = []
        waiting = self._new.pop(taker, set())
        for key in sorted(waiting):
            link = self._links[taker][key]
            if link.not_before_s > now_s:
                self._plan(taker, key, link, now_s)
                continue
            if key not in self._newest:
                rows.append(Taken(*key, NO_MORE))
                continue
            self._fill(key, link, rows, history)
            link.not_before_s = now_s + link.every_s
            if key in self._kept:
                sent.append((key, link.sent))
        return RowsDue(taker, tuple(rows), tuple(history), tuple(sent)) if rows or history else None

    def _fill(self, key: StreamOf, link: _Link, rows: list[Taken], history: list[History]) -> None:
        newest = self._newest[key]
        if link.lacks:
            history.append(History(*key, link.sent))
        elif key in self._kept:
            rows.extend(Taken(*key, sent) for sent in link.waiting)
        else:
            rows.append(Taken(*key, newest))
        link.lacks, link.sent = False, newest.seq
        link.waiting.clear()

    def _plan(self, taker: str, key: StreamOf, link: _Link, now_s: float) -> None:
        self._new.setdefault(taker, set()).add(key)
        at_s = max(now_s + self.coalesce_s, link.not_before_s)
        if at_s < self._due_at.get(taker, math.inf):
            self._due_at[taker] = at_s
            heapq.heappush(self._due, (at_s, taker))

    def _renew(self, taker: str, key: StreamOf, link: _Link, now_s: float) -> None:
        link.lacks = link.lacks or key in self._kept
        link.waiting.clear()
        # Tables are there soon, but a stream may have no rows for ever: the taker is told that, too.
        if (key in self._newest or key[0] != CLOUD) and taker not in self._away:
            self._plan(taker, key, link, now_s)

    def _drop(self, taker: str, key: StreamOf) -> None:
        self._links[taker].pop(key, None)
        takers = self._takers.get(key, {})
        takers.pop(taker, None)
        if not takers:
            self._takers.pop(key, None)
        self._new.get(taker, set()).discard(key)
