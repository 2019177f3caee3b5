"""Writes the spool of a source by a clock of its own: what many kinds of sources need, above all those to which rows
are only added.

Rows that are committed together get one time. Rows, position, notes and commit mark are one commit, under a lease that
fences off whoever captured the source before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headrace.model.log import Commit, CommitMark, Edit, PieceKind, StoredFile
from headrace.model.notes import CapturedUpTo, NoteChange
from headrace.run.capture.clock import next_time
from headrace.run.capture.spool import KEPT_TYPE, spool_log
from headrace.run.ports import Ledger, Store

LEASE_S = 15.0


class StreamSpool:
    """One at a time for each source: raises `LeaseHeld` while there is another one.

    `database` is the name of the source's clock, `holder` that of this process in leases. Call `renew` at
    least every few seconds.
    """

    def __init__(
        self,
        source: str,
        site: str,
        database: str,
        ledger: Ledger,
        store: Store,
        now: Callable[[], int],
        holder: str,
    ) -> None:
        self.source = source
        self._site, self._database = site, database
        self._ledger, self._store, self._now = ledger, store, now
        self._lease = ledger.acquire(f"capture:{database}", holder, LEASE_S)
        self._log = spool_log(source)
        self._t = ledger.times().get(self._log)
        self._written: list[tuple[StoredFile, int]] = []

    def renew(self) -> None:
        """Raises `Fenced` if someone else has taken over."""
        self._ledger.renew(self._lease, LEASE_S)

    def next_time(self) -> int:
        """Not before what other captures have reached, so that nobody waits for our clock when it is put back."""
        return next_time(max(self._t or 0, max(self._ledger.times().values(), default=0) - 1), self._now())

    def write(self, rows: pa.Table, t: int, operations: pa.ChunkedArray | None = None) -> None:
        """Rows with columns named `source.column`, to be committed at time t; all are insertions if nothing else is
        said of each.
        """
        first = sum(count for _, count in self._written)
        stored = self._store.write(self._site, _stamp_rows(rows, t, first, operations), self._log)
        self._written.append((stored, rows.num_rows))

    def discard(self) -> None:
        """Forgets what was written since the last commit: its files are garbage."""
        self._written = []

    def commit(
        self,
        t: int,
        commit_time: int,
        reached: int,
        notes: Sequence[NoteChange] = (),
        place: Mapping[str, str] | None = None,
    ) -> None:
        """Commits what was written, also if that is nothing.

        `commit_time` is when its source committed it, and `reached` up to when we know all that there was; both in
        microseconds of our clock. `place` is where the next capture goes on.
        """
        after = t - 1 if self._t is None else self._t
        pieces = tuple(stored.as_piece(PieceKind.CHANGE, after, t, rows) for stored, rows in self._written)
        edit = Edit(self._log, self._t, t, pieces, start=after if self._t is None else None, site=self._site)
        position = CapturedUpTo(self._database, t, reached, dict(place or {}))
        mark = CommitMark(self._database, t, commit_time)
        self._ledger.commit(self._lease, Commit((edit,), (*notes, position), (mark,)))
        self._t, self._written = t, []

    def close(self) -> None:
        self._ledger.release(self._lease)


def _stamp_rows(rows: pa.Table, t: int, first: int, operations: pa.ChunkedArray | None) -> pa.Table:
    count = rows.num_rows
    return (
        rows.append_column("__t", pa.array(np.full(count, t), pa.int64()))
        .append_column("__n", pa.array(np.arange(first, first + count), pa.int64()))
        .append_column("__op", pa.array(["i"] * count, pa.string()) if operations is None else operations)
        .append_column("__kept", pa.nulls(count, KEPT_TYPE))
    )
