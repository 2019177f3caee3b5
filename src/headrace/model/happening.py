"""What all events have: when, what about, a sentence, a reason, and numbers with units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar

from headrace.model.amounts import format_seconds

_ABOUT = {
    "contract": "contracts",
    "contracts": "contracts",
    "views": "views",
    "source": "sources",
    "sources": "sources",
    "database": "databases",
    "link": "links",
}
"""What an event is about, by the name of the field that says so."""
_NO_NUMBERS = {"at", "pid", "died_pid"}


@dataclass(frozen=True, slots=True)
class Happening:
    """What all events have. `at` is in microseconds since 1970; a warning is something to look at."""

    name: ClassVar[str]
    is_routine: ClassVar[bool] = False
    is_warning: ClassVar[bool] = False
    at: int
    reason: str | None = field(default=None, kw_only=True)

    @property
    def kind(self) -> str:
        return self.name

    @property
    def text(self) -> str:
        raise NotImplementedError

    @property
    def about(self) -> Mapping[str, tuple[str, ...]]:
        """Names, by what they are names of."""
        named = {_ABOUT[one.name]: getattr(self, one.name) for one in fields(self) if one.name in _ABOUT}
        return {what: (names,) if isinstance(names, str) else tuple(names) for what, names in named.items() if names}

    @property
    def numbers(self) -> Mapping[str, float]:
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _NO_NUMBERS}
        return {name: value for name, value in found.items() if isinstance(value, int | float)}


def seconds_text(seconds: float, digits: int = 1) -> str:
    return format_seconds(round(seconds, digits))
