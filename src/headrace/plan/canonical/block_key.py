"""Blocks as canonical JSON, and the hash of that.

What is hashed is a block under canonical names: without its id, without the names and the order of its outputs, with
inner blocks by their own fingerprints. Equal fingerprints then mean equal blocks, up to a rename.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from headrace.model.block import Aggregation, Block, Derivation, DerivationKind
from headrace.model.expr import Expr, is_deterministic
from headrace.model.relation import AggregateCall, Order, Output
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
                "order": [[expr_json(one.expr), one.descending, one.nulls_first] for one in top.order],
                "limit": top.limit,
                "offset": top.offset,
                "ranking": top.ranking.value if top.kind is DerivationKind.TOPK else None,
            }


def call_json(call: AggregateCall) -> Json:
    argument = None if call.argument is None else expr_json(call.argument)
    return [call.function.value, argument, call.distinct, str(call.type)]


def expressions_of(block: Block) -> tuple[Expr, ...]:
    """Every expression that counts."""
    own = (
        *(part for filter_ in block.filters for part in filter_.conjuncts),
        *(residual.predicate for residual in block.residuals),
        *(output.expr for output in block.outputs),
    )
    match block.top:
        case Aggregation(keys, calls, window, having):
            arguments = (call.argument for call in calls if call.argument is not None)
            times = () if window is None else (window.time,)
            return (*own, *_values(keys), *arguments, *times, *(() if having is None else (having,)))
        case Derivation() as top:
            columns = (column for columns in top.columns for column in columns)
            on = () if top.on is None else (top.on,)
            return (*own, *_values(columns), *on, *top.partition, *_list_order(top.order))
    return own


def _values(outputs: Iterable[Output]) -> tuple[Expr, ...]:
    return tuple(output.expr for output in outputs)


def _list_order(order: tuple[Order, ...]) -> tuple[Expr, ...]:
    return tuple(one.expr for one in order)
