"""Move every predicate to where it belongs and simplify every node, until nothing changes.

Equal meanings then mostly have equal queries. What is left are select-project-join cores over scans and nodes, with
predicates in canonical form: equalities of columns first, then conjuncts. A constant that a class of equal columns
spreads into a node stays only there.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.model.expr import Expr
from headrace.model.relation import Output, Scan
from headrace.plan.canonical.absorb import absorb
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
    nothing,
)
from headrace.plan.canonical.expressions import canonical
from headrace.plan.canonical.predicates import conditions_of, equalities
from headrace.plan.canonical.prune import prune
from headrace.plan.canonical.simplify import inline_query, simplify


def settle(query: DraftQuery) -> DraftQuery:
    while True:
        better = prune(_settle_query(query))
        if better == query or all(isinstance(input_.of, Scan) for input_ in query.core.inputs):
            return better
        query = better


def _settle_query(query: DraftQuery) -> DraftQuery:
    """One pass, top down for predicates and bottom up for nodes."""
    conditions = conditions_of(query.core.predicates)
    if conditions.is_empty:
        return nothing(query)
    predicates = (*equalities(conditions.classes), *conditions.conjuncts)
    outputs = tuple(Output(output.name, canonical(output.expr)) for output in query.outputs)
    query = DraftQuery(DraftCore(query.core.inputs, predicates), outputs)
    for input_ in query.core.inputs:
        if not isinstance(input_.of, Scan):
            query = _with_node_settled(query, input_.alias, input_.of)
    return query


def _with_node_settled(query: DraftQuery, alias: str, node: Node) -> DraftQuery:
    taken = absorb(alias, node, query.core.predicates)
    query = DraftQuery(DraftCore(query.core.inputs, taken.left_over), query.outputs)
    inner = taken.query.core.inputs
    if len(inner) == 1 and inner[0].alias == alias and not isinstance(inner[0].of, Scan):
        return inline_query(query, alias, simplify(_with_inputs_settled(inner[0].of), alias))
    return inline_query(query, alias, taken.query)


def _with_inputs_settled(node: Node) -> Node:
    match node:
        case Grouped(core, keys, calls, window):
            exprs = [key.expr for key in keys] + [expr for call in calls for expr in call.inputs]
            core, settled = _settle_below(core, [*exprs, *(() if window is None else (window.time,))])
            return replace(
                node,
                core=core,
                keys=tuple(Output(key.name, settled.pop(0)) for key in keys),
                calls=tuple(call.over(lambda _: settled.pop(0)) for call in calls),
                window=None if window is None else replace(window, time=settled.pop(0)),
            )
        case Deduplicated(core, columns):
            core, settled = _settle_below(core, [column.expr for column in columns])
            return Deduplicated(core, tuple(Output(column.name, settled.pop(0)) for column in columns))
        case Ranked(core, columns, partition, order):
            exprs = [*(column.expr for column in columns), *partition, *(one.expr for one in order)]
            core, settled = _settle_below(core, exprs)
            return replace(
                node,
                core=core,
                columns=tuple(Output(column.name, settled.pop(0)) for column in columns),
                partition=tuple(settled.pop(0) for _ in partition),
                order=tuple(replace(one, expr=settled.pop(0)) for one in order),
            )
        case Sessioned(core, columns, partition, time):
            core, settled = _settle_below(core, [*(column.expr for column in columns), *partition, time])
            return replace(
                node,
                core=core,
                columns=tuple(Output(column.name, settled.pop(0)) for column in columns),
                partition=tuple(settled.pop(0) for _ in partition),
                time=settled.pop(0),
            )
        case Framed(core, columns, partition, order, window_calls):
            core, settled = _settle_below(core, list(node.readers))
            return replace(
                node,
                core=core,
                columns=tuple(Output(column.name, settled.pop(0)) for column in columns),
                partition=tuple(settled.pop(0) for _ in partition),
                order=tuple(replace(one, expr=settled.pop(0)) for one in order),
                calls=tuple(call.over(lambda _: settled.pop(0)) for call in window_calls),
            )
        case Sided(_, left, right):
            return replace(node, left=_settle_query(left), right=_settle_query(right))
        case United(branches):
            return United(tuple(map(_settle_query, branches)))
        case Dated():
            return node
        case Unfolded(query):
            return replace(node, query=_settle_query(query))
        case Windowed():
            raise AssertionError("windows are spread before nodes are read")


def _settle_below(core: DraftCore, exprs: list[Expr]) -> tuple[DraftCore, list[Expr]]:
    """A core, and expressions over it, after it was settled."""
    query = _settle_query(DraftQuery(core, tuple(Output(str(number), expr) for number, expr in enumerate(exprs))))
    return query.core, [output.expr for output in query.outputs]
