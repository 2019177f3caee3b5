"""Rows of joins. Equalities of the condition find partners by hashing; what remains is tested on each pair.

NULL is never equal in `=`, always equal to NULL in `<=>` and in the keys of Matching.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from headrace.meaning.row_functions import Names, bag, names_of, predicate_of, row_of
from headrace.meaning.scalar import Surroundings
from headrace.meaning.zset import ZSet
from headrace.model.expr import Call, Expr, columns_of, conjunction, conjuncts
from headrace.model.relation import Join, JoinKind, Matching
from headrace.model.types import Row

Weighted = tuple[Row, int]


@dataclass(frozen=True, slots=True)
class Equality:
    """Two expressions, one over each side, that must be equal."""

    left: Expr
    right: Expr
    null_safe: bool


class _Partners:
    """Finds the rows of the right side that a row of the left side meets."""

    def __init__(
        self,
        right: Iterable[Weighted],
        names: tuple[Names, Names],
        on: Expr,
        keys: tuple[Equality, ...],
        around: Surroundings,
    ) -> None:
        found, rest = split_condition(on, *names)
        equalities = keys + found
        self._left_key = _make_key(tuple((e.left, e.null_safe) for e in equalities), names[0], around)
        right_key = _make_key(tuple((e.right, e.null_safe) for e in equalities), names[1], around)
        self._holds = predicate_of(rest, names[0] + names[1], around)
        self._index: dict[Row, list[Weighted]] = defaultdict(list)
        for row, weight in right:
            key = right_key(row)
            if key is not None:
                self._index[key].append((row, weight))

    def of(self, row: Row) -> Iterator[Weighted]:
        key = self._left_key(row)
        if key is not None:
            yield from (item for item in self._index.get(key, ()) if self._holds(row + item[0]))


def _make_key(parts: tuple[tuple[Expr, bool], ...], names: Names, around: Surroundings) -> Callable[[Row], Row | None]:
    """The values that must be equal, or None when a NULL among them makes that impossible."""
    values = row_of(tuple(expr for expr, _ in parts), names, around)
    strict = tuple(position for position, (_, null_safe) in enumerate(parts) if not null_safe)

    def key(row: Row) -> Row | None:
        found = values(row)
        return None if any(found[position] is None for position in strict) else found

    return key


def split_condition(on: Expr, left: Names, right: Names) -> tuple[tuple[Equality, ...], Expr]:
    """The equalities between the two sides, and the rest of the condition."""
    parts = conjuncts(on)
    found = {part: equality for part in parts if (equality := _equality(part, frozenset(left), frozenset(right)))}
    return tuple(found.values()), conjunction(tuple(part for part in parts if part not in found))


def _equality(part: Expr, left: frozenset[str], right: frozenset[str]) -> Equality | None:
    if not isinstance(part, Call) or part.function not in ("=", "<=>"):
        return None
    first, second = part.arguments
    if first.type != second.type:
        return None
    if columns_of(first) <= left and columns_of(second) <= right:
        return Equality(first, second, part.function == "<=>")
    if columns_of(first) <= right and columns_of(second) <= left:
        return Equality(second, first, part.function == "<=>")
    return None


def join(relation: Join, left: ZSet, right: ZSet, around: Surroundings) -> Iterator[Weighted]:
    """Weights of pairs multiply. A side that only decides whether rows of the other appear must be a bag."""
    names = names_of(relation.left), names_of(relation.right)
    if relation.kind in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI, JoinKind.FULL):
        bag(right, relation)
    if relation.kind in (JoinKind.RIGHT, JoinKind.FULL):
        bag(left, relation)
    partners = _Partners(right.items(), names, relation.on, (), around)
    match relation.kind:
        case JoinKind.SEMI:
            return ((row, weight) for row, weight in left.items() if any(True for _ in partners.of(row)))
        case JoinKind.ANTI:
            return ((row, weight) for row, weight in left.items() if not any(True for _ in partners.of(row)))
        case kind:
            return _pairs(kind, left, right, partners, (len(names[0]), len(names[1])))


def _pairs(kind: JoinKind, left: ZSet, right: ZSet, partners: _Partners, widths: tuple[int, int]) -> Iterator[Weighted]:
    left_nulls, right_nulls = (None,) * widths[0], (None,) * widths[1]
    met: set[Row] = set()
    for row, weight in left.items():
        found = tuple(partners.of(row))
        met.update(other for other, _ in found)
        yield from ((row + other, weight * other_weight) for other, other_weight in found)
        if not found and kind in (JoinKind.LEFT, JoinKind.FULL):
            yield row + right_nulls, weight
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        yield from ((left_nulls + row, weight) for row, weight in right.items() if row not in met)


def matching(relation: Matching, input_: ZSet, touched: ZSet, around: Surroundings) -> Iterator[Weighted]:
    """Rows with a partner among the touched ones, whatever weights these have."""
    names = names_of(relation.input), names_of(relation.touched)
    keys = tuple(Equality(left, right, null_safe=True) for left, right in relation.keys)
    partners = _Partners(touched.items(), names, relation.on, keys, around)
    return ((row, weight) for row, weight in input_.items() if any(True for _ in partners.of(row)))
