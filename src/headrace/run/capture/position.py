"""How far a database was captured, as the ledger keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.notes import CapturedUpTo


@dataclass(frozen=True, slots=True)
class Beat:
    """A mark of ours in the log that no other log has, and the place just before its transaction.

    The log that a capture goes on with has to have the last mark that it met. A database that was restored to an
    earlier state has not, even if its log has become as long again.
    """

    nonce: str
    lsn: int


@dataclass(frozen=True, slots=True)
class Position:
    """The log up to `lsn` (where the next transaction may begin) is in the spools, and `t` is the last time given.

    `commit_time` is that of the last transaction, on our clock; microseconds. `slot` keeps the log from `start` on:
    from the last `beat`, which the next capture has to meet again, or from `lsn` if none was met.
    """

    lsn: int
    t: int
    commit_time: int
    slot: str
    beat: Beat | None = None

    @property
    def start(self) -> int:
        return self.lsn if self.beat is None else self.beat.lsn

    def to_note(self, database: str) -> CapturedUpTo:
        place = {"lsn": format_lsn(self.lsn), "slot": self.slot}
        if self.beat is not None:
            place |= {"beat": self.beat.nonce, "beat_lsn": format_lsn(self.beat.lsn)}
        return CapturedUpTo(database, self.t, self.commit_time, place)

    @staticmethod
    def from_note(note: CapturedUpTo) -> Position | None:
        """None if it does not say where in the log."""
        try:
            place = note.place
            beat = Beat(place["beat"], parse_lsn(place["beat_lsn"])) if "beat" in place else None
            return Position(parse_lsn(place["lsn"]), note.t, note.commit_time, place["slot"], beat)
        except (KeyError, ValueError):
            return None


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)
