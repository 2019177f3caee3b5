"""Something that goes wrong in a running project and that a person may have to fix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trouble:
    """A sentence that says what is wrong, since when (seconds since 1970), and how to fix it."""

    what: str
    since: float
    hint: str

    def to_json(self) -> dict[str, str | float]:
        return {"what": self.what, "since": self.since, "hint": self.hint}
