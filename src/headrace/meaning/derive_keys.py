"""Finds the key by which the rows of a derivation's inputs affect each other.

A changed row affects only results of rows with the same key. An empty key means that all rows affect each other.
"""

from __future__ import annotations

from headrace.meaning.evaluate_join import Equality, split_condition
from headrace.model.block import Derivation, DerivationKind
from headrace.model.expr import TRUE, Expr, substitute
from headrace.model.relation import Field


def keys_of(derivation: Derivation, fields: tuple[tuple[Field, ...], ...]) -> tuple[tuple[Expr, ...], ...]:
    """The key of each input, over its fields; expressions at the same place have the same type."""
    match derivation.kind:
        case DerivationKind.DISTINCT:
            return (tuple(column.expr for column in derivation.columns[0]),)
        case DerivationKind.TOPK:
            columns = {column.name: column.expr for column in derivation.columns[0]}
            return (tuple(substitute(expr, columns) for expr in derivation.partition),)
        case DerivationKind.UNION_ALL | DerivationKind.PYTHON:
            return ((),) * len(fields)
        case _:
            equalities, _ = condition_of(derivation, fields)
            return tuple(e.left for e in equalities), tuple(e.right for e in equalities)


def condition_of(derivation: Derivation, fields: tuple[tuple[Field, ...], ...]) -> tuple[tuple[Equality, ...], Expr]:
    """The condition of a join: its equalities in the order of the keys, and the rest."""
    left, right = (tuple(field.name for field in side) for side in fields)
    return split_condition(TRUE if derivation.on is None else derivation.on, left, right)
