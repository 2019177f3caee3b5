"""Group-by, distinct, top-k, sessions and window functions on top of a join core, in canonical form.

Their own columns get canonical names, by which everything above reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.model.block import Aggregation, Derivation, DerivationKind, SessionGap, Window
from headrace.model.expr import Column, Expr, Literal, conjunction, rename_columns
from headrace.model.relation import AggregateCall, Output, Ranking, WindowCall
from headrace.plan.canonical.assemble import Finish, Rename, name_outputs
from headrace.plan.canonical.block_key import call_json, window_json
from headrace.plan.canonical.drafts import Deduplicated, DraftWindow, Framed, Grouped, Ranked, Sessioned
from headrace.plan.canonical.expression_key import compact, key_of
from headrace.plan.canonical.expressions import canonical, in_order
from headrace.plan.canonical.naming import stem_of, unique_names

WINDOW_START, WINDOW_END = "window_start", "window_end"
RANK = "rank"


def finish_node(
    node: Grouped | Deduplicated | Ranked | Framed | Sessioned, outputs: Mapping[str, Expr], rename: Rename
) -> Finish:
    """What a node puts on its core; `outputs` read its fields."""
    readers = tuple(map(rename, node.readers))
    top, names = _on_top(node, rename)
    above = {name: canonical(rename_columns(expr, names)) for name, expr in outputs.items()}
    return Finish(*name_outputs(above), top, readers)


def _on_top(
    node: Grouped | Deduplicated | Ranked | Framed | Sessioned, rename: Rename
) -> tuple[Aggregation | Derivation, Mapping[str, str]]:
    """The operator, and the names that the node's fields got."""
    match node:
        case Grouped():
            return _put_grouping(node, rename)
        case Deduplicated():
            return _put_distinct(node, rename)
        case Ranked():
            return _put_ranking(node, rename)
        case Sessioned():
            return _put_sessions(node, rename)
        case Framed():
            return _put_windows(node, rename)


def _put_grouping(node: Grouped, rename: Rename) -> tuple[Aggregation, Mapping[str, str]]:
    window = None if node.window is None else _window(node.window, rename)
    bounds = {} if node.window is None else {node.window.start: WINDOW_START, node.window.end: WINDOW_END}
    keys, key_names = name_outputs({key.name: rename(key.expr) for key in node.keys}, bounds.values())
    calls, call_names = _calls(node, rename, (*bounds.values(), *(key.name for key in keys)))
    names = {**bounds, **key_names, **call_names}
    having = in_order(canonical(rename_columns(part, names)) for part in node.having)
    return Aggregation(keys, calls, window, conjunction(having) if having else None), names


def _window(window: DraftWindow, rename: Rename) -> Window:
    lengths = (window.size_ms, window.slide_ms, window.offset_ms)
    return Window(rename(window.time), *lengths, WINDOW_START, WINDOW_END)


def _calls(
    node: Grouped, rename: Rename, taken: tuple[str, ...]
) -> tuple[tuple[AggregateCall, ...], Mapping[str, str]]:
    """Sorted by what they compute, and the name that each got."""
    by_key: dict[str, AggregateCall] = {}
    asked: dict[str, str] = {}
    for call in node.calls:
        renamed = call.over(rename)
        asked[call.name] = compact(call_json(renamed))
        by_key[asked[call.name]] = renamed
    keys = sorted(by_key)
    names = dict(zip(keys, unique_names((stem_of(by_key[key]) for key in keys), taken), strict=True))
    return tuple(replace(by_key[key], name=names[key]) for key in keys), {n: names[key] for n, key in asked.items()}


def _put_distinct(node: Deduplicated, rename: Rename) -> tuple[Derivation, Mapping[str, str]]:
    columns, names = name_outputs({column.name: rename(column.expr) for column in node.columns})
    return Derivation(DerivationKind.DISTINCT, (columns,)), names


def _put_ranking(node: Ranked, rename: Rename) -> tuple[Derivation, Mapping[str, str]]:
    """Columns that rows of equal rank agree on come first, sorted; the others break ties, so row_number keeps their
    order."""
    columns = {column.name: rename(column.expr) for column in node.columns}
    partition = {key_of(expr): expr for expr in map(rename, node.partition)}
    order = [replace(one, expr=rename(one.expr)) for one in node.order]
    agreed = {**partition, **{key_of(one.expr): one.expr for one in order}}
    others = {key_of(expr): expr for expr in columns.values() if key_of(expr) not in agreed}
    keys = (*sorted(agreed), *(others if node.ranking is Ranking.ROW_NUMBER else sorted(others)))
    exprs = {**agreed, **others}
    named = dict(zip(keys, unique_names((stem_of(exprs[key]) for key in keys), (RANK,)), strict=True))

    def at(expr: Expr) -> Column:
        return Column(named[key_of(expr)], expr.type)

    top = Derivation(
        DerivationKind.TOPK,
        (tuple(Output(named[key], exprs[key]) for key in keys),),
        partition=tuple(at(partition[key]) for key in sorted(partition)),
        order=tuple(replace(one, expr=at(one.expr)) for one in order),
        limit=node.limit,
        offset=node.offset,
        ranking=node.ranking,
        rank_name=None if node.rank_name is None else RANK,
    )
    names = {name: named[key_of(expr)] for name, expr in columns.items()}
    return top, names if node.rank_name is None else {**names, node.rank_name: RANK}


def _put_sessions(node: Sessioned, rename: Rename) -> tuple[Derivation, Mapping[str, str]]:
    columns = {column.name: rename(column.expr) for column in node.columns}
    partition = {key_of(expr): expr for expr in map(rename, node.partition)}
    time = rename(node.time)
    exprs = {**partition, key_of(time): time, **{key_of(expr): expr for expr in columns.values()}}
    keys = sorted(exprs)
    bounds = (WINDOW_START, WINDOW_END)
    named = dict(zip(keys, unique_names((stem_of(exprs[key]) for key in keys), bounds), strict=True))

    def at(expr: Expr) -> Column:
        return Column(named[key_of(expr)], expr.type)

    top = Derivation(
        DerivationKind.SESSIONS,
        (tuple(Output(named[key], exprs[key]) for key in keys),),
        partition=tuple(at(partition[key]) for key in sorted(partition)),
        session=SessionGap(at(time), node.gap_ms, *bounds),
    )
    names = {name: named[key_of(expr)] for name, expr in columns.items()}
    return top, {**names, node.start: WINDOW_START, node.end: WINDOW_END}


def _put_windows(node: Framed, rename: Rename) -> tuple[Derivation, Mapping[str, str]]:
    """Columns in the order of `_put_ranking`, and all that calls read; calls are sorted by what they compute."""
    columns = {column.name: rename(column.expr) for column in node.columns}
    partition = {key_of(expr): expr for expr in map(rename, node.partition)}
    order = [replace(one, expr=rename(one.expr)) for one in node.order]
    agreed = {**partition, **{key_of(one.expr): one.expr for one in order}}
    others = {key_of(expr): expr for expr in columns.values() if key_of(expr) not in agreed}
    keys = [*sorted(agreed), *(others if node.breaks_ties else sorted(others))]
    calls = {call.name: call.over(rename) for call in node.calls}
    read = {key_of(expr): expr for call in calls.values() for expr in call.inputs if not isinstance(expr, Literal)}
    exprs = {**agreed, **others, **read}
    # Rows that agree on all columns before them agree on these, which are computed from the same row or break no tie.
    keys += sorted(key for key in read if key not in agreed and key not in others)
    named = dict(zip(keys, unique_names(stem_of(exprs[key]) for key in keys), strict=True))

    def at(expr: Expr) -> Expr:
        return expr if isinstance(expr, Literal) else Column(named[key_of(expr)], expr.type)

    by_key: dict[str, WindowCall] = {}
    asked: dict[str, str] = {}
    for name, call in calls.items():
        asked[name] = compact(window_json(call))
        by_key[asked[name]] = call.over(at)
    sorted_keys = sorted(by_key)
    stems = (_stem_of_window(by_key[key]) for key in sorted_keys)
    call_names = dict(zip(sorted_keys, unique_names(stems, named.values()), strict=True))
    top = Derivation(
        DerivationKind.WINDOW,
        (tuple(Output(named[key], exprs[key]) for key in keys),),
        partition=tuple(at(partition[key]) for key in sorted(partition)),
        order=tuple(replace(one, expr=at(one.expr)) for one in order),
        calls=tuple(replace(by_key[key], name=call_names[key]) for key in sorted_keys),
    )
    names = {name: named[key_of(expr)] for name, expr in columns.items()}
    return top, {**names, **{name: call_names[key] for name, key in asked.items()}}


def _stem_of_window(call: WindowCall) -> str:
    if isinstance(call.compute, AggregateCall):
        return stem_of(call.compute)
    function, arguments = call.compute.function.value, call.compute.arguments
    return f"{function}_{stem_of(arguments[0])}" if arguments else function
