"""How notes are written as texts and read again: what all kinds have in common, and parts of JSON texts.

What is not as expected raises KeyError, TypeError or ValueError; `model.notes` says what becomes of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, Self


@dataclass(frozen=True, slots=True)
class RemovedNote:
    """What a commit removes; it may not be there."""

    name: str


class StoredNote:
    """What all kinds have: a name in the ledger and a text. The first field is the key, unless the kind occurs once."""

    __slots__ = ()

    stored_as: ClassVar[str]
    """The name, with what it is about in capitals."""

    @classmethod
    def prefix(cls) -> str:
        kind, separator, _ = cls.stored_as.partition(":")
        return kind + separator

    @classmethod
    def name_of(cls, key: str = "") -> str:
        return cls.prefix() + key

    @classmethod
    def remove(cls, key: str = "") -> RemovedNote:
        return RemovedNote(cls.name_of(key))

    @property
    def key(self) -> str:
        return "" if ":" not in self.stored_as else str(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        return self.name_of(self.key)

    def to_text(self) -> str:
        raise NotImplementedError

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        """Raises KeyError, TypeError or ValueError for a text that is none of ours."""
        raise NotImplementedError

    @classmethod
    def make(cls, key: str, *values: object, **named: object) -> Self:
        maker: Callable[..., Self] = cls
        return maker(*([key] if ":" in cls.stored_as else []), *values, **named)


class NumberNote(StoredNote):
    """Its one value is a number."""

    __slots__ = ()

    def to_text(self) -> str:
        return str(getattr(self, fields(self)[-1].name))  # type: ignore[arg-type]

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        return cls.make(key, int(text))


class TextNote(StoredNote):
    """Its one value is a text, for people or of another module's making."""

    __slots__ = ()

    def to_text(self) -> str:
        return str(getattr(self, fields(self)[-1].name))  # type: ignore[arg-type]

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        return cls.make(key, text)


def read_object(text: str) -> dict[str, object]:
    return as_object(json.loads(text))


def as_object(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise TypeError(f"{found!r} is no object")
    return {str(name): value for name, value in found.items()}


def as_list(found: object) -> list[object]:
    if not isinstance(found, list):
        raise TypeError(f"{found!r} is no list")
    return found


def as_integer(found: object) -> int:
    if not isinstance(found, int):
        raise TypeError(f"{found!r} is no whole number")
    return found


def as_number(found: object) -> float:
    if not isinstance(found, int | float):
        raise TypeError(f"{found!r} is no number")
    return float(found)


def as_text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError(f"{found!r} is no text")
    return found


def as_texts(found: object) -> tuple[str, ...]:
    return tuple(as_text(one) for one in as_list(found))
