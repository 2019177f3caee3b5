"""Reads fields of a JSON document. A value that is wrong is noted and replaced, so that the rest can still be read."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from headrace.model.errors import nearest_name
from headrace.plan.exact_json import Path, Problems, exact_amount, shown
from headrace.plan.place.instance import CLOUD
from headrace.plan.place.numbers import Exact

MOST_DIGITS = 150
LARGEST = 10**MOST_DIGITS
"""Beyond this a ratio of two costs may be no double."""


class PlacementFields:
    """One document and the mistakes found in it so far."""

    def __init__(self, document: dict[str, Any], problems: Problems) -> None:
        self.document = document
        self.problems = problems

    def fields(self, found: Mapping[str, Any], path: Path, known: tuple[str, ...]) -> None:
        for field in found:
            if field not in known:
                self.problems.add(
                    f'"{field}" is not a field here',
                    (*path, field),
                    nearest_name(field, known) or f"one of: {', '.join(known)}",
                )

    def number(self, field: str, default: Exact, at: Mapping[str, Any] | None = None, path: Path = ()) -> Exact:
        found = (self.document if at is None else at).get(field, default)
        return self.amount(found, field, (*path, field))

    def amount(self, found: Any, what: str, path: Path) -> Exact:
        if type(found) is int and 0 <= found < LARGEST:
            return found
        if isinstance(found, Fraction):
            return found
        try:
            exact = exact_amount(found, MOST_DIGITS)
        except ValueError as error:
            self.problems.add(f"{what} {error}", path, "rates, prices, loads and capacities are 0 or more")
            return 0
        return exact.numerator if exact.denominator == 1 else exact

    def name(self, found: Any, what: str, path: Path, *, place: bool = True) -> str:
        if isinstance(found, int) and not isinstance(found, bool):
            found = str(found)
        if not isinstance(found, str) or not found:
            self.problems.add(f"{what} is not a name: {shown(found)}", path)
            return "?"
        if place and found == CLOUD:
            self.problems.add(f'"{CLOUD}" is reserved and cannot name {what}', path)
        return found

    def names(self, found: Any, path: Path) -> tuple[str, ...]:
        if not isinstance(found, list):
            self.problems.add(f"expected a list of names, not {shown(found)}", path)
            return ()
        return tuple(self.name(name, "a name", (*path, at), place=False) for at, name in enumerate(found))

    def object(self, found: Any, path: Path) -> Mapping[str, Any]:
        if isinstance(found, dict):
            return found
        self.problems.add(f"expected an object, not {shown(found)}", path)
        return {}

    def list(self, field: str) -> list[Any]:
        found = self.document.get(field)
        if isinstance(found, list):
            return found
        what = f'"{field}" is missing' if found is None else f'"{field}" is not a list'
        self.problems.add(what, (field,))
        return []
