"""Nodes in their simplest form: repeated and constant columns go, and nodes that do nothing go.

Every function returns a query of the node's fields: of the node itself, of less than it, or of no rows at all. What
lies below a node is settled before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.model.expr import FALSE, TRUE, Column, Expr, Literal, columns_of, rename_columns, substitute
from headrace.model.relation import AggregateCall, AggregateFunction, JoinKind, Order, Output, WindowCall
from headrace.plan.canonical.block_key import call_json, window_json
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
    add_predicates,
    is_nothing,
    node_of,
    nothing,
    query_of_node,
)
from headrace.plan.canonical.expression_key import compact, key_of
from headrace.plan.canonical.expressions import canonical
from headrace.plan.canonical.predicates import conditions_of, equalities


def simplify(node: Node, alias: str) -> DraftQuery:
    match node:
        case Grouped():
            return _simplify_grouped(node, alias)
        case Deduplicated():
            return _simplify_deduplicated(node, alias)
        case Ranked():
            return _simplify_ranked(node, alias)
        case Sessioned():
            return _simplify_sessions(node, alias)
        case Framed():
            return _simplify_framed(node, alias)
        case Sided():
            return _simplify_sided(node, alias)
        case United():
            return _simplify_united(node, alias)
        case Dated():
            return query_of_node(node, alias)
        case Unfolded():
            whole = query_of_node(node, alias)
            return nothing(whole) if is_nothing(node.query) else whole
        case Windowed():
            raise AssertionError("windows are spread before nodes are read")


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns without constants and repetitions, and where each of the original ones is found."""

    kept: tuple[Output, ...]
    constants: dict[str, Expr]
    same_as: dict[str, str]

    @classmethod
    def of(cls, columns: Iterable[Output], keep_one: bool) -> _Columns:
        """Splits columns into those kept and those left out.

        With `keep_one`, one constant stays if there is nothing else: no columns at all would mean something else.
        """
        kept: dict[str, Output] = {}
        constants: dict[str, Expr] = {}
        same_as: dict[str, str] = {}
        for column in columns:
            if isinstance(column.expr, Literal):
                constants[column.name] = column.expr
            else:
                same_as[column.name] = kept.setdefault(key_of(column.expr), column).name
        if constants and not kept and keep_one:
            kept[""] = Output(next(iter(constants)), TRUE)
        return cls(tuple(kept.values()), constants, same_as)

    def restore(self, query: DraftQuery) -> DraftQuery:
        """A query of the kept columns (and others) with the left-out ones added again."""
        values = query.values
        found = {name: values[original] for name, original in self.same_as.items()}
        all_values = {**values, **found, **self.constants}
        return DraftQuery(query.core, tuple(Output(name, expr) for name, expr in all_values.items()))


def _simplify_grouped(node: Grouped, alias: str) -> DraftQuery:
    whole = query_of_node(node, alias)
    if FALSE in node.core.predicates and (node.keys or node.window):
        return nothing(whole)
    conditions = conditions_of(node.having)
    if conditions.is_empty:
        return nothing(whole)
    keys = _Columns.of(node.keys, keep_one=node.window is None)
    calls = {call.name: _plain_call(call) for call in node.calls}
    first = {_call_key(call): name for name, call in reversed(calls.items())}
    kept_calls = tuple(calls[name] for name in calls if first[_call_key(calls[name])] == name)
    same = {**keys.same_as, **{name: first[_call_key(call)] for name, call in calls.items()}}
    having = (*equalities(conditions.classes), *conditions.conjuncts)
    moved = tuple(substitute(rename_columns(part, same), keys.constants) for part in having)
    below = tuple(part for part in moved if columns_of(part) and columns_of(part) <= {key.name for key in keys.kept})
    key_values = {key.name: key.expr for key in keys.kept}
    core = DraftCore(node.core.inputs, (*node.core.predicates, *(substitute(part, key_values) for part in below)))
    above = tuple(part for part in moved if part not in below)
    smaller = query_of_node(Grouped(core, keys.kept, kept_calls, node.window, above), alias)
    return _Columns((), keys.constants, same).restore(smaller)


def _plain_call(call: AggregateCall) -> AggregateCall:
    """MIN and MAX do not see duplicates; COUNT of a constant counts rows."""
    call = call.over(canonical)
    if call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return replace(call, distinct=False)
    counts_rows = call.function is AggregateFunction.COUNT and not call.distinct
    if counts_rows and isinstance(call.argument, Literal) and call.argument.value is not None:
        return replace(call, argument=None)
    return call


def _call_key(call: AggregateCall) -> str:
    return compact(call_json(call))


def _simplify_deduplicated(node: Deduplicated, alias: str) -> DraftQuery:
    rows = DraftQuery(node.core, node.columns)
    if is_nothing(rows):
        return nothing(rows)
    if _is_distinct(rows):
        return rows
    rows = without_distinct(rows)
    columns = _Columns.of(rows.outputs, keep_one=True)
    return columns.restore(query_of_node(Deduplicated(rows.core, columns.kept), alias))


def _is_distinct(query: DraftQuery) -> bool:
    """Whether no row can occur twice: all that tells the rows of one node apart is among the outputs."""
    node = node_of(query) if len(query.core.inputs) == 1 else None
    alias = query.core.inputs[0].alias
    shown = {output.expr.name for output in query.outputs if isinstance(output.expr, Column)}
    match node:
        case Grouped(_, keys, _, window):
            bounds = window is None or bool({f"{alias}.{window.start}", f"{alias}.{window.end}"} & shown)
            return bounds and {f"{alias}.{key.name}" for key in keys} <= shown
        case Deduplicated(_, columns):
            return {f"{alias}.{column.name}" for column in columns} <= shown
    return False


def without_distinct(query: DraftQuery) -> DraftQuery:
    """The query without the distincts that it reads, for readers that do not count rows."""
    for input_ in query.core.inputs:
        if isinstance(input_.of, Deduplicated):
            query = inline_query(query, input_.alias, DraftQuery(input_.of.core, input_.of.columns))
        elif isinstance(input_.of, United):
            branches = tuple(without_distinct(branch) for branch in input_.of.branches)
            query = inline_query(query, input_.alias, query_of_node(United(branches), input_.alias))
    return query


def inline_query(query: DraftQuery, alias: str, by: DraftQuery) -> DraftQuery:
    """The query with the input of that alias replaced by a query of the same fields."""
    values = {f"{alias}.{name}": expr for name, expr in by.values.items()}
    inputs = tuple(
        input_
        for original in query.core.inputs
        for input_ in (by.core.inputs if original.alias == alias else (original,))
    )
    predicates = (*(substitute(predicate, values) for predicate in query.core.predicates), *by.core.predicates)
    outputs = tuple(Output(output.name, substitute(output.expr, values)) for output in query.outputs)
    return DraftQuery(DraftCore(inputs, predicates), outputs)


def _simplify_ranked(node: Ranked, alias: str) -> DraftQuery:
    if FALSE in node.core.predicates or node.limit <= 0:
        return nothing(query_of_node(node, alias))
    columns = _Columns.of(node.columns, keep_one=False)
    partition = {key_of(expr): expr for expr in node.partition if not isinstance(expr, Literal)}
    order: dict[str, Order] = {}
    for one in node.order:
        if not isinstance(one.expr, Literal) and key_of(one.expr) not in partition:
            order.setdefault(key_of(one.expr), one)
    smaller = replace(node, columns=columns.kept, partition=tuple(partition.values()), order=tuple(order.values()))
    return columns.restore(query_of_node(smaller, alias))


def _simplify_sessions(node: Sessioned, alias: str) -> DraftQuery:
    if FALSE in node.core.predicates:
        return nothing(query_of_node(node, alias))
    columns = _Columns.of(node.columns, keep_one=False)
    partition = {key_of(expr): expr for expr in node.partition if not isinstance(expr, Literal)}
    smaller = replace(node, columns=columns.kept, partition=tuple(partition.values()))
    return columns.restore(query_of_node(smaller, alias))


def _simplify_framed(node: Framed, alias: str) -> DraftQuery:
    if FALSE in node.core.predicates:
        return nothing(query_of_node(node, alias))
    if not node.calls:
        return DraftQuery(node.core, node.columns)
    columns = _Columns.of(node.columns, keep_one=False)
    calls = {call.name: call.over(canonical) for call in node.calls}
    first = {_window_key(call): name for name, call in reversed(calls.items())}
    same = {**columns.same_as, **{name: first[_window_key(call)] for name, call in calls.items()}}
    partition = {key_of(expr): expr for expr in node.partition if not isinstance(expr, Literal)}
    order = {key_of(one.expr): one for one in reversed(node.order)}
    if all(call.frame.key is None for call in node.calls):  # else it is what offsets are from
        left = [one for one in node.order if not isinstance(one.expr, Literal) and key_of(one.expr) not in partition]
        order = {key_of(one.expr): one for one in reversed(left)}
    smaller = Framed(
        node.core,
        columns.kept,
        tuple(partition.values()),
        tuple(one for one in node.order if order.get(key_of(one.expr)) is one),
        tuple(call for name, call in calls.items() if first[_window_key(call)] == name),
    )
    return _Columns((), columns.constants, same).restore(query_of_node(smaller, alias))


def _window_key(call: WindowCall) -> str:
    return compact(window_json(call))


def _simplify_united(node: United, alias: str) -> DraftQuery:
    branches = tuple(inner for branch in node.branches if not is_nothing(branch) for inner in _branches_of(branch))
    if not branches:
        return nothing(query_of_node(node, alias))
    return branches[0] if len(branches) == 1 else query_of_node(United(branches), alias)


def _branches_of(query: DraftQuery) -> tuple[DraftQuery, ...]:
    node = node_of(query)
    if not isinstance(node, United):
        return (query,)
    alias = query.core.inputs[0].alias
    return tuple(inline_query(query, alias, branch) for branch in node.branches)


# Joins with sides


def _simplify_sided(node: Sided, alias: str) -> DraftQuery:
    whole = query_of_node(node, alias)
    conditions = conditions_of(node.on)
    no_match = conditions.is_empty or is_nothing(node.right)
    if is_nothing(node.left):
        return _with_nulls(node.right, whole) if node.kind is JoinKind.FULL else nothing(whole)
    if no_match:
        return _without_match(node, whole, is_nothing(node.right))
    on = (*_equalities_by_side(conditions.classes, node), *conditions.conjuncts)
    split = _split(node, on)
    if not split.keeps_right:
        split = replace(split, right=without_distinct(split.right))
    return query_of_node(split, alias)


def _with_nulls(side: DraftQuery, whole: DraftQuery) -> DraftQuery:
    """One side's rows, with NULLs for the other's fields."""
    values = side.values
    return DraftQuery(
        side.core,
        tuple(Output(o.name, values.get(o.name, Literal(None, o.expr.type))) for o in whole.outputs),
    )


def _without_match(node: Sided, whole: DraftQuery, right_is_empty: bool) -> DraftQuery:
    """What is left of a join in which no pair matches."""
    match node.kind:
        case JoinKind.SEMI:
            return nothing(whole)
        case JoinKind.ANTI:
            return node.left
        case JoinKind.FULL if not right_is_empty:
            return DraftQuery(
                DraftCore(tuple(CoreInput(i.alias, replace(node, on=(FALSE,))) for i in whole.core.inputs)),
                whole.outputs,
            )
    return _with_nulls(node.left, whole)


def _equalities_by_side(classes: Iterable[tuple[Column, ...]], node: Sided) -> Iterable[Expr]:
    """A class as equalities within each side, and one between them."""
    ours = node.left.values.keys()
    for members in classes:
        left = tuple(column for column in members if column.name in ours)
        right = tuple(column for column in members if column.name not in ours)
        ends = tuple(side[0] for side in (left, right) if side)
        yield from equalities((left, right, ends) if len(ends) == 2 else (members,))


def _split(node: Sided, on: tuple[Expr, ...]) -> Sided:
    """Conditions on one side alone go there, where the other rows of that side would not show anyway."""
    left_names, right_names = node.left.values.keys(), node.right.values.keys()
    to_right = [part for part in on if node.kind is not JoinKind.FULL and columns_of(part) <= right_names]
    to_left = [part for part in on if node.kind is JoinKind.SEMI and columns_of(part) <= left_names]
    rest = tuple(part for part in on if part not in to_right and part not in to_left)
    return replace(node, left=add_predicates(node.left, to_left), right=add_predicates(node.right, to_right), on=rest)
