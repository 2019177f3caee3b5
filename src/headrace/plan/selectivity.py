"""How many rows a filter lets through: what was declared for a conjunct, else a rule of thumb by its form.

    =  1/distinct      IN  n/distinct      range  1/3      LIKE  1/10      anything else  1/3

Conjuncts multiply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from headrace.model.block import BlockFilter
from headrace.model.catalogue import Selectivity
from headrace.model.expr import Call, Column, Expr, Literal, conjuncts, rename_columns

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
    """The share of a source's rows that its filter lets through. `distinct` is by `alias.column`."""
    known = {
        _form(entry.predicate): entry.share
        for entry in declared
        if entry.source == source and entry.predicate is not None
    }
    texts = {entry.text: entry.share for entry in declared if entry.source == source}
    share = 1.0
    for conjunct, text in zip(filter_.conjuncts, filter_.texts, strict=True):
        form = _form(_named_after(source, filter_.alias, conjunct))
        share *= known.get(form, texts.get(text, share_of(conjunct, distinct)))
    return share


def _named_after(source: str, alias: str, conjunct: Expr) -> Expr:
    """The conjunct with its columns named `source.column`, as declared predicates name them."""
    columns = {node.name for node in _columns(conjunct)}
    return rename_columns(conjunct, {name: f"{source}.{name.removeprefix(f'{alias}.')}" for name in columns})


def _columns(expr: Expr) -> list[Column]:
    if isinstance(expr, Column):
        return [expr]
    return [] if isinstance(expr, Literal) else [column for argument in expr.arguments for column in _columns(argument)]


def _form(predicate: Expr | None) -> str:
    return str(predicate)
