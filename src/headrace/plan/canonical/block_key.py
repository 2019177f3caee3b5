"""Blocks as canonical JSON, and the hash of that.

What is hashed is a block under canonical names: without its id, without the names and the order of its outputs, with
inner blocks by their own fingerprints. Equal fingerprints then mean equal blocks, up to a rename.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from headrace.model.block import Aggregation, Block, Derivation, DerivationKind
from headrace.model.expr import Expr, is_deterministic
from headrace.model.relation import AggregateCall, FrameEdge, Order, Output, RangeEdge, RowEdge, WindowCall
from headrace.plan.canonical.expression_key import Json, compact, expr_json


def fingerprint_of_block(block: Block, salt: str = "") -> str:
    """The fingerprint of a block in canonical form (`build`). What depends on the time of evaluation is salted: shared
    within one view only.
    """
    text = compact(block_json(block))
    if not all(map(is_deterministic, expressions_of(block))):
        text += salt
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def block_json(block: Block) -> Json:
    return {
        "inputs": [input_.alias for input_ in block.inputs],
        "classes": [[f"{alias}.{column}" for alias, column in members] for members in block.classes],
        "filters": {filter_.alias: [expr_json(part) for part in filter_.conjuncts] for filter_ in block.filters},
        "residuals": [expr_json(residual.predicate) for residual in block.residuals],
        "outputs": [expr_json(output.expr) for output in block.outputs],
        "top": _top_json(block.top),
    }


def _top_json(top: Aggregation | Derivation | None) -> Json:
    match top:
        case None:
            return None
        case Aggregation(keys, calls, window, having):
            return {
                "keys": [expr_json(key.expr) for key in keys],
                "calls": [call_json(call) for call in calls],
                "window": None
                if window is None
                else [expr_json(window.time), window.size_ms, window.slide_ms, window.offset_ms],
                "having": None if having is None else expr_json(having),
            }
        case Derivation():
            return {
                "kind": top.kind.value,
                "columns": [[expr_json(column.expr) for column in columns] for columns in top.columns],
                "on": None if top.on is None else expr_json(top.on),
                "partition": [expr_json(expr) for expr in top.partition],
                "order": _order_json(top.order),
                "limit": top.limit,
                "offset": top.offset,
                "ranking": top.ranking.value if top.kind is DerivationKind.TOPK else None,
                **({} if top.session is None else {"session": [expr_json(top.session.time), top.session.gap_ms]}),
                **_unfold_json(top),
                **({} if top.stamp is None else {"stamp": top.stamp.from_beginning}),
                **({"calls": [window_json(call) for call in top.calls]} if top.calls else {}),
            }


def _unfold_json(top: Derivation) -> dict[str, Json]:
    """Nothing for other operators, whose fingerprints stay what they are."""
    if top.unfold is None:
        return {}
    return {"unfold": [len(top.unfold.columns), top.unfold.place is not None, top.unfold.outer]}


def call_json(call: AggregateCall) -> Json:
    argument = None if call.argument is None else expr_json(call.argument)
    plain: list[Json] = [call.function.value, argument, call.distinct, str(call.type)]
    if not (call.others or call.order or call.option):
        return plain
    option = None if call.option is None else expr_json(call.option)
    return [*plain, [*map(expr_json, call.others)], _order_json(call.order), option]


def window_json(call: WindowCall) -> Json:
    """A window function without its name."""
    compute = call.compute
    own: Json
    if isinstance(compute, AggregateCall):
        own = call_json(compute)
    else:
        own = [compute.function.value, [*map(expr_json, compute.arguments)], compute.count, compute.skips_nulls]
    frame = call.frame
    key = None if frame.key is None else expr_json(frame.key)
    return [own, str(call.type), frame.unit.value, _edge_json(frame.start), _edge_json(frame.end), key]


def _edge_json(edge: FrameEdge) -> Json:
    match edge:
        case None:
            return None
        case RowEdge(rows):
            return rows
        case RangeEdge(offset, precedes, value):
            return [expr_json(offset), precedes, expr_json(value)]


def _order_json(order: tuple[Order, ...]) -> Json:
    return [[expr_json(one.expr), one.descending, one.nulls_first] for one in order]


def expressions_of(block: Block) -> tuple[Expr, ...]:
    """Every expression that counts."""
    own = (
        *(part for filter_ in block.filters for part in filter_.conjuncts),
        *(residual.predicate for residual in block.residuals),
        *(output.expr for output in block.outputs),
    )
    match block.top:
        case Aggregation(keys, calls, window, having):
            arguments = (expr for call in calls for expr in call.inputs)
            times = () if window is None else (window.time,)
            return (*own, *_values(keys), *arguments, *times, *(() if having is None else (having,)))
        case Derivation() as top:
            columns = (column for columns in top.columns for column in columns)
            on = () if top.on is None else (top.on,)
            times = () if top.session is None else (top.session.time,)
            inputs = (expr for call in top.calls for expr in call.inputs)
            return (*own, *_values(columns), *on, *top.partition, *times, *_list_order(top.order), *inputs)
    return own


def _values(outputs: Iterable[Output]) -> tuple[Expr, ...]:
    return tuple(output.expr for output in outputs)


def _list_order(order: tuple[Order, ...]) -> tuple[Expr, ...]:
    return tuple(one.expr for one in order)
