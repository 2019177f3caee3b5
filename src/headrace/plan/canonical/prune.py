"""Columns that nobody reads go, from the top down; a group-by of which only the keys are left is a distinct."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.model.expr import Expr, columns_of
from headrace.model.relation import Output, Ranking, Scan
from headrace.plan.canonical.drafts import (
    CoreInput,
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
    alias_of,
    field_of,
)


def prune(query: DraftQuery) -> DraftQuery:
    """The query with all of its own outputs, and below it only what these need."""
    return DraftQuery(_core(query.core, (output.expr for output in query.outputs)), query.outputs)


def _core(core: DraftCore, readers: Iterable[Expr]) -> DraftCore:
    read = frozenset(column for expr in (*readers, *core.predicates) for column in columns_of(expr))
    inputs = (
        input_
        if isinstance(input_.of, Scan)
        else CoreInput(input_.alias, _node(input_.of, {field_of(c) for c in read if alias_of(c) == input_.alias}))
        for input_ in core.inputs
    )
    return DraftCore(tuple(inputs), core.predicates)


def _node(node: Node, read: set[str]) -> Node:
    match node:
        case Grouped():
            return _prune_grouped(node, read)
        case Deduplicated(core, columns):
            return Deduplicated(_core(core, node.readers), columns)
        case Ranked():
            return _prune_ranked(node, read)
        case Sessioned():
            node = replace(node, columns=tuple(column for column in node.columns if column.name in read))
            return replace(node, core=_core(node.core, node.readers))
        case Framed():
            return _prune_framed(node, read)
        case Sided(_, left, right, on):
            read = read | {column for part in on for column in columns_of(part)}
            return replace(node, left=_only(left, read), right=_only(right, read))
        case United(branches):
            return United(tuple(_only(branch, read) for branch in branches))
        case Unfolded(query, columns, place):
            return replace(node, query=_only(query, read | set(columns)), place=place if place in read else None)
        case Windowed() | Dated():
            return node


def _only(query: DraftQuery, names: set[str]) -> DraftQuery:
    return prune(DraftQuery(query.core, tuple(output for output in query.outputs if output.name in names)))


def _prune_grouped(node: Grouped, read: set[str]) -> Node:
    read = read | {column for part in node.having for column in columns_of(part)}
    node = replace(node, calls=tuple(call for call in node.calls if call.name in read))
    core = _core(node.core, node.readers)
    if node.keys and not node.calls and not node.having and node.window is None:
        return Deduplicated(core, node.keys)
    return replace(node, core=core)


def _prune_ranked(node: Ranked, read: set[str]) -> Ranked:
    """Columns break the ties of row_number, so there all of them count."""
    columns: tuple[Output, ...] = node.columns
    if node.ranking is not Ranking.ROW_NUMBER:
        columns = tuple(column for column in columns if column.name in read)
    node = replace(node, columns=columns, rank_name=node.rank_name if node.rank_name in read else None)
    return replace(node, core=_core(node.core, node.readers))


def _prune_framed(node: Framed, read: set[str]) -> Framed:
    """Calls that nobody reads go; columns stay where they break ties."""
    node = replace(node, calls=tuple(call for call in node.calls if call.name in read))
    if not node.breaks_ties:
        node = replace(node, columns=tuple(column for column in node.columns if column.name in read))
    return replace(node, core=_core(node.core, node.readers))
