"""What a person declared, before it is checked: plain values, and the place where each was written.

A document comes from YAML or from Python calls; everything after this point treats the two alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.errors import Location

Path = tuple[str | int, ...]
"""The way to a value: `("sites", "us", "cpu")`, `("links", 0, "from")`."""


@dataclass(frozen=True, slots=True)
class WrittenDocument:
    """`value` is made of dicts with text keys, lists, text, numbers, booleans and None.

    `keys` and `values` say where a key and its value stand; a path that is not there has the place of its parent.
    """

    value: Mapping[str, object]
    keys: Mapping[Path, Location]
    values: Mapping[Path, Location]
    start: Location

    def key_at(self, path: Path) -> Location:
        return self.keys.get(path) or self.value_at(path)

    def value_at(self, path: Path) -> Location:
        for length in range(len(path), 0, -1):
            found = self.values.get(path[:length])
            if found is not None:
                return found
        return self.start
