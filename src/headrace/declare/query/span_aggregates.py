"""Sums and means of intervals: sums of one number for each, which is an interval again in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.model.expr import Call, Expr
from headrace.model.relation import AggregateCall, AggregateFunction
from headrace.model.types import BIGINT, STRING, Decimal


def is_of_spans(call: AggregateCall) -> bool:
    return call.argument is not None and _is_packed(call.argument)


def _is_packed(expr: Expr) -> bool:
    """Also under FILTER, which makes it a CASE."""
    if not isinstance(expr, Call):
        return False
    return expr.function == "interval_packed" or (expr.function == "case" and any(map(_is_packed, expr.arguments)))


def split_call(call: AggregateCall) -> tuple[AggregateCall, ...]:
    """What to compute of a group: a mean is a sum and a count."""
    if not is_of_spans(call):
        return (call,)
    total = replace(call, function=AggregateFunction.SUM, type=Decimal(38, 0))
    if call.function is AggregateFunction.SUM:
        return (total,)
    return (total, replace(call, function=AggregateFunction.COUNT, type=BIGINT))


def join_results(call: AggregateCall, results: Sequence[Expr]) -> Expr:
    if not is_of_spans(call):
        return results[0]
    return Call("interval_total" if len(results) == 1 else "interval_mean", tuple(results), STRING)
