"""What the placement loop remembers across restarts: the highest number of a document, and who was seen when.

Numbers are reserved ahead in blocks, so that none is used twice after a crash, and not every document is a write.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from headrace.coordinate.devices.presence import Presence
from headrace.site.folder import Folder

FILE = "placement.json"
BLOCK = 1_000


@dataclass(slots=True)
class PlacementMemory:
    folder: Folder
    _reserved: int = 0
    _presence: dict[str, object] = field(default_factory=dict)
    _saved_s: float = 0.0
    _written_s: float = 0.0

    def read_number(self) -> int:
        """No document has a higher number. Raises UnreadableState."""
        self._reserved = int((self.folder.read_json(FILE) or {}).get("number", 0))
        return self._reserved

    def read_presence(self) -> Presence:
        found = self.folder.read_json(FILE) or {}
        self._presence, self._saved_s = dict(found.get("seen", {})), float(found.get("at", 0.0))
        return Presence.from_json(found.get("seen", {}), self._saved_s)

    def reserve(self, number: int) -> None:
        """Numbers up to this one may be used; it is on disk before they are."""
        if number > self._reserved:
            self._reserved = number + BLOCK
            self._write()

    def save(self, presence: Presence, now_s: float, at_most_every_s: float = 0.0) -> None:
        """`now_s` is since 1970: whoever is there now was seen then."""
        if time.monotonic() - self._written_s >= at_most_every_s:
            self._presence, self._saved_s = presence.to_json(), now_s
            self._write()

    def _write(self) -> None:
        self.folder.write_json(
            FILE, {"number": self._reserved, "at": self._saved_s, "seen": self._presence}, indent=None
        )
        self._written_s = time.monotonic()
