"""A file of a log that is not what was written: what is wrong with it, and since when that is known."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headrace.model.errors import ConnectError


class DamageKind(StrEnum):
    """`CONTENTS` may have been read as if it were right, where a file is too large to be checked as a whole."""

    MISSING = "missing"
    SIZE = "size"
    CONTENTS = "contents"


@dataclass(frozen=True, slots=True)
class FileDamage:
    """`why` completes a sentence that begins with the file. `since` is in seconds since 1970."""

    site: str
    file: str
    kind: DamageKind
    why: str
    since: float

    @property
    def name(self) -> str:
        return f"{self.site}/{self.file}"


class DamagedFile(ConnectError):
    """A file cannot be read as what was written. Nothing of it was used."""

    def __init__(self, path: str, damage: FileDamage) -> None:
        self.damage = damage
        hint = "a running service rebuilds it; `headrace status` shows the progress"
        super().__init__(f'the file "{path}" {damage.why}', hint)
