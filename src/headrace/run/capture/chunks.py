"""Merging what was read of a table with what changed meanwhile, after DBLog (Andreakis, Papapanagiotou, 2020).

A table is read in ranges of its key while changes go on. A range is read in one snapshot; then a mark is written into
the log, and when capture meets the mark it has seen every transaction that the snapshot saw. Of the rows read, those
that other transactions changed before the mark are old: the log has had their newer state already. DBLog takes all
transactions between a mark before the reading and the one after it; we ask the snapshot, since PostgreSQL may show a
transaction to readers a little later than its commit stands in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.run.capture.spool import TextRow
from headrace.run.capture.visibility import Snapshot

MOST_KEYS = 100_000
"""That a transaction's changes are remembered for; what it may have changed beyond is read again."""

CHUNK_BYTES = 16_000_000


def next_size(rows: int, size: int, most: int) -> int:
    """How many rows to read next, when so many were `size` bytes: about CHUNK_BYTES, and at most fourfold."""
    if not rows:
        return most
    return max(1, min(most, 4 * rows, CHUNK_BYTES * rows // max(size, 1)))


@dataclass(slots=True)
class TouchedRows:
    """What one transaction did to the table that is read: `known` keys have their whole row in the log.

    With `too_many` keys they are not remembered.
    """

    xid: int
    known: set[TextRow] = field(default_factory=set)
    partly_known: set[TextRow] = field(default_factory=set)
    truncated: bool = False
    too_many: bool = False

    def add(self, key: TextRow, known: bool) -> None:
        if known:
            self.known.add(key)
            self.partly_known.discard(key)
        else:
            self.partly_known.add(key)
        if len(self.known) + len(self.partly_known) > MOST_KEYS:
            self.known.clear()
            self.partly_known.clear()
            self.too_many = True


@dataclass(frozen=True, slots=True)
class MergedChunk:
    """Rows to take, by position, and keys that have to be read again: the log has only a part of their rows."""

    positions: tuple[int, ...]
    again: tuple[TextRow, ...]


class SnapshotWindow:
    """The transactions that a later snapshot may not see yet, oldest first.

    `unwatched` are transactions that capture met just before it began to watch this table.
    """

    def __init__(self, unwatched: Sequence[int] = ()) -> None:
        self._unwatched = tuple(unwatched)
        self._transactions: list[TouchedRows] = []

    def can_use(self, snapshot: Snapshot) -> bool:
        """False for a snapshot that does not see what the log had before the watch began: read again, later."""
        if all(map(snapshot.sees, self._unwatched)):
            self._unwatched = ()
            return True
        return False

    def transaction(self, xid: int) -> TouchedRows:
        if not self._transactions or self._transactions[-1].xid != xid:
            self._transactions.append(TouchedRows(xid))
        return self._transactions[-1]

    def merge(self, keys: Sequence[TextRow], snapshot: Snapshot) -> MergedChunk | None:
        """None if all has to be read again. Forgets what the snapshot saw: later ones see it, too."""
        self._transactions = [one for one in self._transactions if not snapshot.sees(one.xid)]
        newer = self._transactions
        if any(one.truncated for one in newer):
            return MergedChunk((), ())
        if any(one.too_many for one in newer):
            return None
        partly = set().union(*(one.partly_known for one in newer))
        known = set().union(*(one.known for one in newer)) | partly
        if not known:
            return MergedChunk(tuple(range(len(keys))), ())
        take = tuple(position for position, key in enumerate(keys) if key not in known)
        # All of them, not only those of this range: a row may have come to its key from one that was to be read.
        return MergedChunk(take, tuple(sorted(partly, key=repr)))
