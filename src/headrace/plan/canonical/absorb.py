"""Predicates into nodes: which conditions on a node's rows can be conditions on what the node reads.

    group-by                       on keys below it, others into HAVING
    distinct, semi, anti, union    below, always
    top-k, window functions        below, when only the partition is read
    left join                      into the left side, when only that is read
    unfolded arrays                below, when no element is read

A predicate that no row of NULLs passes turns a left join into an inner one, and a full join into a left one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.model.expr import Expr, Literal, columns_of, rename_columns, substitute
from headrace.model.relation import JoinKind
from headrace.plan.canonical.drafts import (
    Dated,
    Deduplicated,
    DraftCore,
    DraftQuery,
    Framed,
    Grouped,
    Node,
    Ranked,
    Sessioned,
    Sided,
    Unfolded,
    United,
    Windowed,
    add_predicates,
    aliases_in,
    fields_of_node,
    filter_core,
    query_of_node,
)
from headrace.plan.canonical.expression_key import key_of
from headrace.plan.canonical.predicates import conditions_of


@dataclass(frozen=True, slots=True)
class Absorbed:
    """What became of a node, as a query of the same outputs, and the predicates that stay above it."""

    query: DraftQuery
    left_over: tuple[Expr, ...]


def absorb(alias: str, node: Node, predicates: tuple[Expr, ...]) -> Absorbed:
    """Take in what can be of the predicates of the core that reads the node under this alias."""
    fields = {f"{alias}.{field.name}": field.name for field in fields_of_node(node)}
    touching = [rename_columns(predicate, fields) for predicate in predicates if alias in aliases_in(predicate)]
    node_or_query = _with_nulls_rejected(node, touching)
    if isinstance(node_or_query, DraftQuery):
        return Absorbed(node_or_query, predicates)
    below, above = node_or_query, []
    for predicate in predicates:
        taken = _take(below, rename_columns(predicate, fields)) if aliases_in(predicate) == {alias} else None
        if taken is None:
            above.append(predicate)
        else:
            below = taken
    return Absorbed(query_of_node(below, alias), tuple(above))


def _take(node: Node, predicate: Expr) -> Node | None:
    """The node with a predicate on its fields taken in, or None."""
    match node:
        case Grouped():
            return _into_groups(node, predicate)
        case Deduplicated(core, columns):
            values = {column.name: column.expr for column in columns}
            return replace(node, core=filter_core(core, (substitute(predicate, values),)))
        case Ranked(core, columns, partition) | Framed(core, columns, partition) | Sessioned(core, columns, partition):
            keys = set(map(key_of, partition))
            values = {column.name: column.expr for column in columns if key_of(column.expr) in keys}
            if not columns_of(predicate) <= values.keys():
                return None
            return replace(node, core=filter_core(core, (substitute(predicate, values),)))
        case United(branches):
            return United(tuple(add_predicates(branch, (predicate,)) for branch in branches))
        case Sided(kind, left):
            if kind is JoinKind.FULL or not columns_of(predicate) <= left.values.keys():
                return None
            return replace(node, left=add_predicates(left, (predicate,)))
        case Unfolded(query):
            return (
                replace(node, query=add_predicates(query, (predicate,))) if columns_of(predicate) <= node.kept else None
            )
        case Windowed() | Dated():
            return None


def _into_groups(node: Grouped, predicate: Expr) -> Grouped:
    """A group passes a condition on its keys exactly if its rows do. Without keys there is a group even of no rows."""
    keys = {key.name: key.expr for key in node.keys}
    if columns_of(predicate) <= keys.keys():
        return replace(node, core=filter_core(node.core, (substitute(predicate, keys),)))
    return replace(node, having=(*node.having, predicate))


def _with_nulls_rejected(node: Node, predicates: Iterable[Expr]) -> Node | DraftQuery:
    """The join without rows that it fills up with NULLs, where a predicate drops all of these anyway."""
    if not isinstance(node, Sided) or node.kind not in (JoinKind.LEFT, JoinKind.FULL):
        return node
    predicates = tuple(predicates)
    needs_right = any(rejects_nulls(predicate, node.right) for predicate in predicates)
    if node.kind is JoinKind.LEFT:
        return _inner(node) if needs_right else node
    needs_left = any(rejects_nulls(predicate, node.left) for predicate in predicates)
    if needs_left and needs_right:
        return _inner(node)
    if needs_left:
        return replace(node, kind=JoinKind.LEFT)
    return replace(node, kind=JoinKind.LEFT, left=node.right, right=node.left) if needs_right else node


def rejects_nulls(predicate: Expr, side: DraftQuery) -> bool:
    """Whether the predicate is true for no row in which all outputs of that side are NULL."""
    nulls = {name: Literal(None, expr.type) for name, expr in side.values.items() if name in columns_of(predicate)}
    return bool(nulls) and conditions_of((substitute(predicate, nulls),)).is_empty


def _inner(node: Sided) -> DraftQuery:
    left, right = node.left, node.right
    core = DraftCore((*left.core.inputs, *right.core.inputs), (*left.core.predicates, *right.core.predicates))
    return add_predicates(DraftQuery(core, (*left.outputs, *right.outputs)), node.on)
