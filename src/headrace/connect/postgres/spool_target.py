"""The spool of one source while it is captured: why it is stopped, and what is held back while its table is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.connect.postgres.spill import Spill
from headrace.model.log import StoredFile
from headrace.run.capture.chunks import SnapshotWindow
from headrace.run.capture.spool import CapturedTable, SpoolRows, UnheldValue
from headrace.run.capture.visibility import Snapshot


@dataclass(slots=True)
class Holding:
    """Changes of a table without key while it is read: those that the reading did not see follow after it.

    `read` has the rows read, `changed` the changes, stamped by transaction.
    """

    read: Spill
    changed: Spill
    snapshot: Snapshot | None = None
    xids: set[int] = field(default_factory=set)

    def holds(self, xid: int) -> bool:
        """Whether a transaction's changes have to be kept: not if the reading saw them."""
        if self.snapshot is not None:
            return not self.snapshot.sees(xid)
        self.xids.add(xid)
        return True

    def begin_reading(self, snapshot: Snapshot) -> None:
        """Drops what came before and is in what is read."""
        self.snapshot = snapshot
        for xid in filter(snapshot.sees, self.xids):
            self.changed.abort(xid)


@dataclass(slots=True)
class SpoolTarget:
    """The spool of one source. `t` is where its log is in the ledger, None if it has none there.

    `window` is there while the table is read by ranges of its key, `holding` while it is read as a whole.
    `unread` is a table that is to be read as if we held nothing of it: until then its changes say nothing to us.
    `halted` says why nothing goes to it any more; that is over once the table is as it was, if it `drifted`, or once
    somebody did what `mend` says. `unheld` is the value because of which it was halted, if it was one.
    Nobody looks again before `look_at`, in seconds of a clock that nobody sets.
    """

    captured: CapturedTable
    t: int | None
    rows: SpoolRows
    window: SnapshotWindow | None = None
    holding: Holding | None = None
    unread: bool = False
    halted: str | None = None
    drifted: bool = False
    mend: str | None = None
    unheld: UnheldValue | None = None
    look_at: float = 0.0
    numbers: int = 0
    pieces: list[tuple[StoredFile, int]] = field(default_factory=list)
