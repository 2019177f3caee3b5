"""Tables that are too large for one message, as the router passes them on: parts as they came, each version whole.

The cloud writes parts as the messages that devices get, so they are read once, to see that they are right, and are kept
as they are. A version goes to devices when all of its parts are here; until then they go on with the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.device_messages import CLOUD, read_taken
from headrace.model.errors import WireError


class WholeTable(NamedTuple):
    """A version of a table: messages to send, in their order."""

    seq: int
    at_ms: int
    bodies: tuple[bytes, ...]


class DuePart(NamedTuple):
    taker: str
    name: str
    number: int
    body: bytes


@dataclass(slots=True)
class _RoutedParts:
    seq: int
    parts: int
    bodies: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class RoutedTables:
    """All large tables, by name. They go to one taker after another: were they to take turns, the first would have its
    table when the last has, and all of them too late for a move.
    """

    _coming: dict[str, _RoutedParts] = field(default_factory=dict)
    _whole: dict[str, WholeTable] = field(default_factory=dict)
    _due: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """The version and the next part, by taker and table."""

    def take(self, name: str, body: bytes) -> WholeTable | None:
        """A part; the table, if that is whole by now. Raises `WireError`."""
        found = read_taken(body)
        if len(found) != 1 or (found[0].device, found[0].stream) != (CLOUD, name):
            raise WireError("this is no part of the table that its topic names")
        (part,) = found
        if name in self._whole and part.sent.seq <= self._whole[name].seq:
            return None  # it is retained, and comes again with every connection
        coming = self._coming.get(name)
        if coming is None or (coming.seq, coming.parts) != (part.sent.seq, part.parts):
            if coming is not None and part.sent.seq < coming.seq:
                return None  # of an earlier version, which had more parts
            coming = self._coming[name] = _RoutedParts(part.sent.seq, part.parts)
        coming.bodies[part.part] = body
        if len(coming.bodies) < coming.parts:
            return None
        del self._coming[name]
        bodies = tuple(coming.bodies[number] for number in range(coming.parts))
        self._whole[name] = WholeTable(part.sent.seq, part.sent.at_ms, bodies)
        return self._whole[name]

    def forget(self, name: str) -> None:
        """It fits one message again."""
        self._coming.pop(name, None)
        self._whole.pop(name, None)

    def has(self, name: str, seq: int) -> bool:
        return name in self._whole and self._whole[name].seq == seq

    def plan(self, taker: str, name: str) -> None:
        """Sends all parts to a taker, from the first: it may have lost those before."""
        self._due[taker, name] = (self._whole[name].seq, 0)

    def take_due(self, most: int) -> Iterator[DuePart]:
        """Parts to send now. Of a version that was replaced meanwhile nothing more is sent: the next one follows."""
        while self._due and most > 0:
            taker, name = next(iter(self._due))
            seq, number = self._due[taker, name]
            bodies = self._whole[name].bodies if self.has(name, seq) else ()
            if number + 1 < len(bodies):
                self._due[taker, name] = (seq, number + 1)
            else:
                del self._due[taker, name]
            if bodies:
                most -= 1
                yield DuePart(taker, name, number, bodies[number])
