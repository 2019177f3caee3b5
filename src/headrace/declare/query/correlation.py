"""Conditions between a query and the one around it, where they are equalities: each has an inner and an outer side."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from headrace.model.expr import Call, Expr, columns_of
from headrace.model.types import BOOLEAN


@dataclass(frozen=True, slots=True)
class Correlation:
    """`inner` is a value of the inner query's rows, `outer` one of the rows around it. The operator is = or <=>."""

    operator: str
    inner: Expr
    outer: Expr

    def compare(self, inner: Expr) -> Expr:
        """The condition, with another inner side."""
        return Call(self.operator, (inner, self.outer), BOOLEAN)


def split_condition(part: Expr, own: Set[str]) -> Correlation | None:
    """The sides of an equality between two queries; None if the condition is none. `own` are the inner fields."""
    if isinstance(part, Call) and part.function in ("=", "<=>"):
        for inner, outer in (part.arguments, part.arguments[::-1]):
            if columns_of(inner) and columns_of(inner) <= own and not columns_of(outer) & own:
                return Correlation(part.function, inner, outer)
    return None


def split_conditions(parts: Sequence[Expr], own: Set[str]) -> tuple[Correlation, ...] | None:
    """All conditions, if all are equalities."""
    found = [split_condition(part, own) for part in parts]
    return None if None in found else tuple(one for one in found if one is not None)
