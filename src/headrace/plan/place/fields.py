"""Reads fields of a placement instance: rates that stay integers where they are, and names of places."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from headrace.plan.exact_fields import DocumentFields
from headrace.plan.exact_json import Path, show_value
from headrace.plan.exact_numbers import Exact
from headrace.plan.place.instance import CLOUD

MOST_DIGITS = 150
LARGEST = 10**MOST_DIGITS
"""Beyond this a ratio of two costs may be no double."""


class PlacementFields(DocumentFields):
    """One document, and the readers for what stands in it."""

    def __init__(self, document: dict[str, Any], text: str, file: str) -> None:
        super().__init__(text, file, MOST_DIGITS)
        self.document = document

    def number(self, found: object, path: Path, what: str) -> Exact:
        """An amount. Most are integers, and these need no fraction."""
        if type(found) is int and 0 <= found < LARGEST:
            return found
        if isinstance(found, Fraction):
            return found
        exact = self.amount(found, path, what)
        return exact.numerator if exact.denominator == 1 else exact

    def number_of(self, field: str, default: Exact, at: Mapping[str, Any] | None = None, path: Path = ()) -> Exact:
        """The amount in a field of an object, or of the document itself."""
        found = (self.document if at is None else at).get(field, default)
        return self.number(found, (*path, field), field)

    def name(self, found: Any, path: Path, what: str, *, place: bool = True) -> str:
        if isinstance(found, int) and not isinstance(found, bool):
            found = str(found)
        if not isinstance(found, str) or not found:
            self.wrong(path, f"{what} is not a name: {show_value(found)}")
            return "?"
        if place and found == CLOUD:
            self.wrong(path, f'"{CLOUD}" is reserved and cannot name {what}')
        return found

    def names(self, found: Any, path: Path, what: str) -> tuple[str, ...]:
        entries = self.items(found, path, what)
        return tuple(self.name(name, (*path, at), "a name", place=False) for at, name in enumerate(entries))

    def required_items(self, field: str) -> list[Any]:
        """The list in a field of the document."""
        found = self.document.get(field)
        if found is None:
            self.wrong((field,), f'"{field}" is missing')
            return []
        return self.items(found, (field,), f'"{field}"')
