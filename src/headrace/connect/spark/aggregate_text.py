"""Aggregates as Spark SQL text. Where Spark leaves the order of values open, they are sorted first."""

from __future__ import annotations

from headrace.connect.spark.sql_text import spark_text
from headrace.meaning.ordered_values import counts_where, sorted_by
from headrace.model.expr import Literal
from headrace.model.relation import AggregateCall, AggregateFunction, Order
from headrace.model.types import DOUBLE, STRING


def aggregate_text(call: AggregateCall, position: int, over: str = "") -> str:
    """A call whose inputs are the columns from `c<position>` on. `over` is what follows a window function."""
    if call.argument is None:
        return f"count(*){over}"
    columns = [f"c{position + place}" for place in range(len(call.inputs))]
    listed, distinct = ", ".join(columns), "DISTINCT " if call.distinct else ""
    match call.function:
        case AggregateFunction.STRING_AGG:
            separator = spark_text(call.option or Literal("", STRING))
            text = f"array_join({_sort_values(call, columns, over)}, {separator})"
            return f"IF(count({columns[0]}){over} = 0, NULL, {text})"
        case AggregateFunction.ARRAY_AGG:
            return _sort_values(call, columns, over)
        case AggregateFunction.FIRST:
            return f"get({_sort_values(call, columns, over)}, 0)"
        case AggregateFunction.PERCENTILE_CONT:
            fraction = _fraction(call)
            if call.distinct or over:
                return f"percentile({distinct}{columns[0]}, {fraction}){over}"
            return f"percentile_cont({fraction}) WITHIN GROUP (ORDER BY {columns[0]}{_direction(call)})"
        case AggregateFunction.PERCENTILE_DISC:
            place = f"CAST(greatest(ceil({_fraction(call)} * count({distinct}{columns[0]}){over}), 1) AS INT) - 1"
            return f"CAST(get({_sort_values(call, columns, over)}, {place}) AS {call.type})"
        case AggregateFunction.MODE:
            if over:
                return f"mode({columns[0]}, true){over}"
            return f"mode() WITHIN GROUP (ORDER BY {columns[0]}{_direction(call)})"
        case AggregateFunction.COUNT if call.distinct and (over or call.others):
            # count(DISTINCT a, b) would leave out rows with a NULL in them.
            rows = ", ".join(f"'f{place}', {column}" for place, column in enumerate(columns))
            row = f"CASE WHEN {columns[0]} IS NOT NULL THEN named_struct({rows}) END"
            if over:
                return f"CAST(size(array_distinct(collect_list({row}){over})) AS BIGINT)"
            return f"count(DISTINCT {row})"
        case _:
            return f"{call.function}({distinct}{listed}){over}"


def _direction(call: AggregateCall) -> str:
    return " DESC" if call.order and call.order[0].descending else ""


def _fraction(call: AggregateCall) -> str:
    assert call.option is not None, f'call "{call.name}" has no fraction'
    return spark_text(Literal(call.option.value, DOUBLE))


def _sort_values(call: AggregateCall, columns: list[str], over: str) -> str:
    """An array of the values that count, in the order of the call."""
    keys = list(sorted_by(call))
    row = ", ".join(f"'f{place}', {column}" for place, column in enumerate(columns))
    counts = f"{columns[counts_where(call)]} IS NOT NULL"
    if over:  # where Spark knows neither DISTINCT nor FILTER
        rows = f"collect_list(CASE WHEN {counts} THEN named_struct({row}) END){over}"
        rows = f"array_distinct({rows})" if call.distinct else rows
    else:
        distinct = "DISTINCT " if call.distinct else ""
        rows = f"collect_list({distinct}named_struct({row})) FILTER (WHERE {counts})"
    compare = "0"
    for place, key in reversed(keys):
        compare = _compare(f"l.f{place}", f"r.f{place}", key, compare)
    return f"transform(array_sort({rows}, (l, r) -> {compare}), v -> v.f0)"


def _compare(left: str, right: str, key: Order, then: str) -> str:
    less, null_less = (1 if key.descending else -1), (-1 if key.nulls_first else 1)
    return (
        f"CASE WHEN {left} <=> {right} THEN {then} WHEN {left} IS NULL THEN {null_less} "
        f"WHEN {right} IS NULL THEN {-null_less} WHEN {left} < {right} THEN {less} ELSE {-less} END"
    )
