"""How far a database was captured, as the ledger keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.notes import CapturedUpTo


@dataclass(frozen=True, slots=True)
class Position:
    """The log up to `lsn` (where the next transaction may begin) is in the spools, and `t` is the last time given.

    `commit_time` is that of the last transaction, on our clock; microseconds. `slot` keeps the log from there on.
    """

    lsn: int
    t: int
    commit_time: int
    slot: str

    def to_note(self, database: str) -> CapturedUpTo:
        return CapturedUpTo(database, self.t, self.commit_time, {"lsn": format_lsn(self.lsn), "slot": self.slot})

    @staticmethod
    def from_note(note: CapturedUpTo) -> Position | None:
        """None if it does not say where in the log."""
        try:
            return Position(parse_lsn(note.place["lsn"]), note.t, note.commit_time, note.place["slot"])
        except (KeyError, ValueError):
            return None


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)
