"""Classes of columns that a query makes equal (union-find)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.model.expr import Call, Column, Expr
from headrace.model.types import BOOLEAN
from headrace.plan.canonical.expressions import canonical


@dataclass(slots=True)
class EqualColumns:
    """Columns by name; every column of a class points to the same list of members."""

    _members: dict[str, list[Column]] = field(default_factory=dict)

    def unite(self, left: Expr, right: Expr) -> Iterator[Expr]:
        """Make two columns equal; returns the equalities of columns that this makes true, canonical."""
        assert isinstance(left, Column) and isinstance(right, Column), "only columns have classes"
        ours = self._members.setdefault(left.name, [left])
        theirs = self._members.setdefault(right.name, [right])
        if ours is theirs:
            return iter(())
        new = [canonical(Call("=", (one, other), BOOLEAN)) for one in ours for other in theirs]
        ours.extend(theirs)
        for column in theirs:
            self._members[column.name] = ours
        return iter(new)

    def classes(self) -> Iterator[tuple[Column, ...]]:
        """Every class once, members and classes sorted by name."""
        for name, members in sorted(self._members.items()):
            ordered = sorted(members, key=lambda column: column.name)
            if ordered[0].name == name:
                yield tuple(ordered)
