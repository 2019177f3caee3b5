"""How far a database was captured, as the ledger keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.notes import CapturedUpTo


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The last transaction that was taken: no other log has one of this number, committed at this microsecond of the
    database's clock, that ends at the same place. `start` is the place just before its commit.
    """

    xid: int
    time: int
    start: int


@dataclass(frozen=True, slots=True)
class Position:
    """The log up to `lsn` (where the next transaction may begin) is in the spools, and `t` is the last time given.

    `commit_time` is that of the last transaction, on our clock; microseconds. `slot` keeps the log from `start` on:
    from the `last` transaction, which the next capture has to meet again, or from `lsn` if none is known. A database
    that was restored to a copy without that transaction does not have it, even if its log has become as long again.
    """

    lsn: int
    t: int
    commit_time: int
    slot: str
    last: LastCommit | None = None

    @property
    def start(self) -> int:
        return self.lsn if self.last is None else self.last.start

    def is_last(self, xid: int, end_lsn: int, time: int) -> bool:
        """Whether a transaction of the log is the one that was taken last."""
        return self.last is not None and (xid, end_lsn, time) == (self.last.xid, self.lsn, self.last.time)

    def to_note(self, database: str) -> CapturedUpTo:
        place = {"lsn": format_lsn(self.lsn), "slot": self.slot}
        if self.last is not None:
            last = self.last
            place |= {"last_xid": str(last.xid), "last_time": str(last.time), "last_lsn": format_lsn(last.start)}
        return CapturedUpTo(database, self.t, self.commit_time, place)

    @staticmethod
    def from_note(note: CapturedUpTo) -> Position | None:
        """None if it does not say where in the log."""
        try:
            place, last = note.place, None
            if "last_xid" in place:
                last = LastCommit(int(place["last_xid"]), int(place["last_time"]), parse_lsn(place["last_lsn"]))
            return Position(parse_lsn(place["lsn"]), note.t, note.commit_time, place["slot"], last)
        except (KeyError, ValueError):
            return None


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)
