"""Something that goes wrong in a running project and that a person may have to fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class TroubleKind(StrEnum):
    """What a trouble is about. The value is what its key begins with; the rest of a key is a name."""

    SOURCE = "source:"
    REREAD = "reread:"
    CAPTURE = "capture:"
    DELIVERY = "delivery:"
    FEED = "feed:"
    DECISION = "decision:"
    CALIBRATION = "calibration:"
    FEED_SERVER = "feed server:"
    BROKER = "broker:"
    ROUTER = "router:"
    PLACEMENT = "placement:"
    ABSENT = "absent:"
    NOTIFY = "notify:"
    WITHDRAWAL = "withdrawal:"
    ROW = "row:"
    ENGINE = "engine:"
    STANDSTILL = "standstill:"
    LINKS = "links:"
    SITE = "site:"
    HELD = "held:"
    PAUSED = "paused:"
    DAMAGE = "damage:"
    DISK = "disk:"
    SOURCE_DIFFERS = "source differs:"
    VIEW_DIFFERS = "view differs:"

    @property
    def begins(self) -> str:
        """The kind of the event that tells of its beginning."""
        return _EVENTS[self][0]

    @property
    def ends(self) -> str:
        return _EVENTS[self][1]

    @property
    def about(self) -> str | None:
        """What the name in its key names; None if there is no name that people know."""
        return _EVENTS[self][2]


_EVENTS: Mapping[TroubleKind, tuple[str, str, str | None]] = {
    TroubleKind.SOURCE: ("source stopped", "source mended", "sources"),
    TroubleKind.REREAD: ("source obsolete", "source current", "sources"),
    TroubleKind.CAPTURE: ("capture failed", "capture recovered", "databases"),
    TroubleKind.DELIVERY: ("copy failed", "copy recovered", "contracts"),
    TroubleKind.FEED: ("feed behind", "feed recovered", "feeds"),
    TroubleKind.FEED_SERVER: ("feed server failed", "feed server recovered", None),
    TroubleKind.DECISION: ("feed undecided", "feed decided", "feeds"),
    TroubleKind.BROKER: ("broker lost", "broker back", None),
    TroubleKind.ROUTER: ("router lost", "router back", None),
    TroubleKind.PLACEMENT: ("placement halted", "placement recovered", None),
    TroubleKind.ABSENT: ("devices absent", "devices back", "templates"),
    TroubleKind.NOTIFY: ("notify failed", "notify recovered", "templates"),
    TroubleKind.CALIBRATION: ("feed unpriced", "feed priced", "feeds"),
    TroubleKind.WITHDRAWAL: ("drop failed", "dropped", None),
    TroubleKind.ROW: ("view halted", "view mended", "contracts"),
    TroubleKind.ENGINE: ("engine lost", "engine replaced", None),
    TroubleKind.STANDSTILL: ("stuck", "unstuck", "contracts"),
    TroubleKind.LINKS: ("link slow", "link recovered", None),
    TroubleKind.SITE: ("site silent", "site answers", None),
    TroubleKind.HELD: ("held back", "gone over", "contracts"),
    TroubleKind.PAUSED: ("copies paused", "copies resumed", None),
    TroubleKind.DAMAGE: ("file damaged", "file rebuilt", None),
    TroubleKind.DISK: ("disk failed", "disk recovered", None),
    TroubleKind.SOURCE_DIFFERS: ("source differs", "source repaired", "sources"),
    TroubleKind.VIEW_DIFFERS: ("view differs", "view repaired", "contracts"),
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A sentence that says what is wrong, since when (seconds since 1970), and how to fix it."""

    what: str
    since: float
    hint: str

    def to_json(self) -> dict[str, str | float]:
        return {"what": self.what, "since": self.since, "hint": self.hint}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> Trouble:
        return Trouble(found["what"], found["since"], found["hint"])
