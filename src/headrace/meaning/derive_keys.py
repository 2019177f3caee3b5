"""Finds the key by which the rows of a derivation's inputs affect each other.

A changed row affects only results of rows with the same key. An empty key means that all rows affect each other. Of
sessions it is the partition and the stretch of time, as long as the gap, in which a row lies: a row affects its own
stretch and those around it, as far as rows follow each other.
"""

from __future__ import annotations

from headrace.meaning.evaluate_join import Equality, split_condition
from headrace.model.block import Derivation, DerivationKind
from headrace.model.expr import TRUE, Call, Expr, Literal, substitute
from headrace.model.relation import Field
from headrace.model.types import BIGINT, TIMESTAMP


def keys_of(derivation: Derivation, fields: tuple[tuple[Field, ...], ...]) -> tuple[tuple[Expr, ...], ...]:
    """The key of each input, over its fields; expressions at the same place have the same type."""
    match derivation.kind:
        case DerivationKind.DISTINCT:
            return (tuple(column.expr for column in derivation.columns[0]),)
        case DerivationKind.TOPK | DerivationKind.WINDOW:
            columns = {column.name: column.expr for column in derivation.columns[0]}
            return (tuple(substitute(expr, columns) for expr in derivation.partition),)
        case DerivationKind.SESSIONS:
            assert derivation.session is not None, "sessions without a gap"
            columns = {column.name: column.expr for column in derivation.columns[0]}
            partition = (substitute(expr, columns) for expr in derivation.partition)
            lengths = (Literal(derivation.session.gap_ms, BIGINT), Literal(0, BIGINT))
            time = substitute(derivation.session.time, columns)
            return ((*partition, Call("window_start", (time, *lengths), TIMESTAMP)),)
        case DerivationKind.UNION_ALL | DerivationKind.PYTHON:
            return ((),) * len(fields)
        case _:
            equalities, _ = condition_of(derivation, fields)
            return tuple(e.left for e in equalities), tuple(e.right for e in equalities)


def condition_of(derivation: Derivation, fields: tuple[tuple[Field, ...], ...]) -> tuple[tuple[Equality, ...], Expr]:
    """The condition of a join: its equalities in the order of the keys, and the rest."""
    left, right = (tuple(field.name for field in side) for side in fields)
    return split_condition(TRUE if derivation.on is None else derivation.on, left, right)
