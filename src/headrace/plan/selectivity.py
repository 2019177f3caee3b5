"""How many rows a filter lets through: what was measured of it or declared, else a rule of thumb by its form.

    =  1/distinct      IN  n/distinct      range  1/3      LIKE  1/10      anything else  1/3

Conjuncts multiply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from headrace.model.block import BlockFilter
from headrace.model.catalogue import Selectivity
from headrace.model.expr import Call, Column, Expr, Literal, columns_of, conjuncts, rename_columns
from headrace.model.statistics import believe
from headrace.plan.canonical.expression_key import key_of
from headrace.plan.canonical.predicates import canonical_conjuncts

OTHERWISE = 1 / 3
LIKE = 1 / 10

Distinct = Mapping[str, float]
"""Distinct values by column name, as expressions name columns."""


def share_of(predicate: Expr, distinct: Distinct) -> float:
    """The share of rows (or pairs of rows) for which a predicate is estimated to hold."""
    if isinstance(predicate, Literal):
        return 1.0 if predicate.value is True else 0.0
    if not isinstance(predicate, Call):
        return OTHERWISE
    match predicate.function:
        case "and":
            return prod(share_of(part, distinct) for part in conjuncts(predicate))
        case "=" | "<=>":
            return 1.0 / _values_of(predicate.arguments, distinct)
        case "in":
            return min(1.0, (len(predicate.arguments) - 1) / _values_of(predicate.arguments[:1], distinct))
        case "like":
            return LIKE
        case _:
            return OTHERWISE


def _values_of(sides: Iterable[Expr], distinct: Distinct) -> float:
    """The distinct values of the compared columns; of several, the most. An expression that is no column has 3."""
    counts = [distinct.get(side.name, 1 / OTHERWISE) for side in sides if isinstance(side, Column)]
    return max(*counts, 1.0) if counts else 1 / OTHERWISE


def share_of_filter(filter_: BlockFilter, source: str, distinct: Distinct, declared: Iterable[Selectivity]) -> float:
    """The share of a source's rows that its filter lets through. `distinct` is by `alias.column`.

    A declared predicate counts if all its conjuncts are in the filter, in whatever spelling; larger ones first, and of
    equal ones what was measured.
    """
    left = {_conjunct_key(conjunct, source): conjunct for conjunct in filter_.conjuncts}
    texts = {text: _conjunct_key(one, source) for text, one in zip(filter_.texts, filter_.conjuncts, strict=True)}
    share = 1.0
    known = [(_keys_of(entry, source, texts), entry) for entry in declared if entry.source == source]
    for keys, entry in sorted(known, key=lambda pair: (-len(pair[0]), sorted(pair[0]), not pair[1].measured)):
        if keys and keys <= left.keys():
            share *= min(1.0, believe(entry.share, OTHERWISE))
            left = {key: conjunct for key, conjunct in left.items() if key not in keys}
    return share * prod(share_of(conjunct, distinct) for conjunct in left.values())


def _keys_of(entry: Selectivity, source: str, texts: Mapping[str, str]) -> frozenset[str]:
    """The conjuncts of a declared predicate; by its text where the source's columns were not known."""
    if entry.predicate is None:
        return frozenset((texts[entry.text],)) if entry.text in texts else frozenset()
    return frozenset(_conjunct_key(conjunct, source) for conjunct in canonical_conjuncts(entry.predicate))


def _conjunct_key(conjunct: Expr, source: str) -> str:
    """Equal for equal conjuncts over one source, under whichever alias."""
    names = {name: f"{source}.{name.partition('.')[2]}" for name in columns_of(conjunct)}
    return key_of(rename_columns(conjunct, names))
