"""Reads the fields of a JSON document one by one, noting every mistake with its place.

Instances hold millions of names and rates next to a handful of settings, so they are read in one plain pass; places
are looked for only in texts that have mistakes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar

from headrace.model.errors import nearest_name
from headrace.plan.exact_json import Path, Problems, exact_amount, show_value

Choice = TypeVar("Choice", bound=StrEnum)


class DocumentFields:
    """The mistakes of one document, and the readers that note them. After a mistake a reader returns a stand-in."""

    def __init__(self, text: str, file: str, digits: int) -> None:
        """`digits` is how many an amount may have before the point, or behind it."""
        self._problems = Problems(text, file)
        self._digits = digits

    def wrong(self, path: Path, message: str, hint: str | None = None) -> None:
        self._problems.add(message, path, hint)

    def end(self) -> None:
        """Raises InputError if anything was wrong."""
        self._problems.raise_any()

    def members(self, value: object, path: Path, what: str) -> dict[str, object]:
        """An object with names of the user's choice."""
        if isinstance(value, dict):
            return value
        self.wrong(path, f"{what} must be an object, not {show_value(value)}")
        return {}

    def fields(
        self, value: object, path: Path, what: str, known: Iterable[str], required: Iterable[str] = ()
    ) -> Mapping[str, object]:
        """An object with names of ours: no others, and none missing that is required."""
        members = self.members(value, path, what)
        known = tuple(known)
        for name in members:
            if name not in known:
                hint = nearest_name(name, known) or f"it may have: {', '.join(known)}"
                self.wrong((*path, name), f'{what} has an unknown field "{name}"', hint)
        if isinstance(value, dict):
            for name in required:
                if name not in members:
                    self.wrong(path, f'{what} has no "{name}"')
        return members

    def amount(self, value: object, path: Path, what: str) -> Fraction:
        try:
            return exact_amount(value, self._digits)
        except ValueError as error:
            self.wrong(path, f"{what} {error}", "amounts are numbers of 0 or more, such as 0.25")
            return Fraction(0)

    def share(self, value: object, path: Path, what: str) -> Fraction:
        number = self.amount(value, path, what)
        if number > 1:
            self.wrong(path, f"{what} must be at most 1, but is {show_value(value)}")
        return number

    def integer(self, value: object, path: Path, what: str, least: int, most: int) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.wrong(path, f"{what} must be an integer from {least} to {most}, not {show_value(value)}")
        return least

    def choice(self, value: object, path: Path, what: str, choices: type[Choice]) -> Choice:
        every = [str(choice) for choice in choices]
        if isinstance(value, str) and value in every:
            return choices(value)
        hint = nearest_name(value, every) if isinstance(value, str) else None
        self.wrong(path, f"{what} must be one of {', '.join(every)}, not {show_value(value)}", hint)
        return next(iter(choices))

    def items(self, value: object, path: Path, what: str) -> list[object]:
        if isinstance(value, list):
            return value
        self.wrong(path, f"{what} must be a list, not {show_value(value)}")
        return []
