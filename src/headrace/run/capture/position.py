"""How far a database was captured, as the note `position:DATABASE` keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """The log up to `lsn` (where the next transaction may begin) is in the spools, and `t` is the last time given.

    `commit_time` is that of the last transaction, on our clock; microseconds. `slot` keeps the log from there on.
    """

    lsn: int
    t: int
    commit_time: int
    slot: str

    def to_note(self) -> str:
        return json.dumps({**asdict(self), "lsn": format_lsn(self.lsn)}, sort_keys=True)

    @staticmethod
    def of_note(text: str) -> Position:
        found = json.loads(text)
        return Position(parse_lsn(found["lsn"]), found["t"], found["commit_time"], found["slot"])


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)
