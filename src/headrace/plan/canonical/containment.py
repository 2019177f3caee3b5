"""Which filter lets everything through that another one does: `x > 5` contains `x > 7 AND y = 1`.

Every conjunct of the wider filter must be one of the narrower's, word for word, or hold for all values that the
narrower leaves to the same column. Only conditions on one column with literals are compared by value: whoever reads
the texts alone can then tell the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.block import BlockFilter
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.types import DATE, STRING, TIMESTAMP, is_numeric
from headrace.plan.canonical.function_facts import lacks_answers
from headrace.plan.canonical.restrictions import Restriction, restriction
from headrace.plan.canonical.value_sets import ValueSet

_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">=", "in"))


def contains(wide: BlockFilter, narrow: BlockFilter) -> bool:
    """Whether no row passes the narrow filter and not the wide one. Columns are the same whatever the aliases are.

    A row for which the wide filter has no answer would stop the narrow one too, which may guard against it.
    """
    if wide.texts != narrow.texts and any(map(lacks_answers, wide.conjuncts)):
        return False
    left = _values_left(narrow)
    parts = zip(wide.conjuncts, wide.texts, strict=True)
    return all(text in narrow.texts or _follows(conjunct, left) for conjunct, text in parts)


def _follows(conjunct: Expr, left: Mapping[str, ValueSet]) -> bool:
    found = _on_one_column(conjunct)
    return found is not None and _name_column(found) in left and left[_name_column(found)] <= found.values


def _values_left(filter_: BlockFilter) -> dict[str, ValueSet]:
    """The values that a filter leaves to columns."""
    left: dict[str, ValueSet] = {}
    for conjunct in filter_.conjuncts:
        found = _on_one_column(conjunct)
        if found is not None:
            name = _name_column(found)
            left[name] = left[name] & found.values if name in left else found.values
    return left


def _name_column(found: Restriction) -> str:
    assert isinstance(found.subject, Column)
    return found.subject.name.partition(".")[2]


def _on_one_column(conjunct: Expr) -> Restriction | None:
    """A comparison of a column with numbers, texts, dates or timestamps, or that it is not NULL."""
    is_negated = isinstance(conjunct, Call) and conjunct.function == "not"
    atom = conjunct.arguments[0] if isinstance(conjunct, Call) and is_negated else conjunct
    if not isinstance(atom, Call) or not isinstance(atom.arguments[0], Column):
        return None
    compared = atom.function in _COMPARISONS and all(map(_is_plain, atom.arguments[1:]))
    if not compared and not (is_negated and atom.function == "is_null"):
        return None
    found = restriction(atom, frozenset((not is_negated,)))
    return found if isinstance(found.subject, Column) else None


def _is_plain(value: Expr) -> bool:
    if not isinstance(value, Literal) or value.value is None:
        return False
    if isinstance(value.value, float) and not abs(value.value) < float("inf"):
        return False
    return is_numeric(value.type) or value.type in (STRING, DATE, TIMESTAMP)
