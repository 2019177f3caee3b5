"""Something that goes wrong in a running project and that a person may have to fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
