"""Rows of TopK: the first rows of each partition, by row number, rank or dense rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from headrace.model.relation import Order, Ranking, TopK, fields_of
from headrace.model.scalar import Surroundings
from headrace.model.scalar_compare import sort_key
from headrace.model.types import Row, Type, Value
from headrace.model.zset import ZSet
from headrace.run.row_functions import Names, bag, names_of, row_of, value_of

Weighted = tuple[Row, int]


def top_k(relation: TopK, input_: ZSet, around: Surroundings) -> Iterator[Weighted]:
    names = names_of(relation.input)
    partition_of = row_of(relation.partition, names, around)
    partitions: dict[Row, list[Weighted]] = defaultdict(list)
    for row, weight in bag(input_, relation):
        partitions[partition_of(row)].append((row, weight))
    for rows in partitions.values():
        yield from _first(relation, _ranked(relation, rows, names, around))


def _first(relation: TopK, ranked: Iterator[tuple[Row, int, int]]) -> Iterator[Weighted]:
    """Rows whose rank lies in (offset, offset + limit]."""
    for row, weight, rank in ranked:
        if relation.offset < rank <= relation.offset + relation.limit:
            yield (row if relation.rank_name is None else (*row, rank)), weight


def _ranked(relation: TopK, rows: list[Weighted], names: Names, around: Surroundings) -> Iterator[tuple[Row, int, int]]:
    """(row, weight, rank) in order; under `row_number` each copy of a row has its own rank."""
    columns = tuple(_column_key(field.type) for field in fields_of(relation.input))
    rows.sort(key=lambda item: tuple(key(value) for key, value in zip(columns, item[0], strict=True)))
    for order in reversed(relation.order):
        rows.sort(key=_order_key(order, names, around), reverse=order.descending)
    if relation.ranking == Ranking.ROW_NUMBER:
        copies = (row for row, weight in rows for _ in range(weight))
        return ((row, 1, number) for number, row in enumerate(copies, start=1))
    return _with_ties(relation, rows, names, around)


def _with_ties(
    relation: TopK, rows: list[Weighted], names: Names, around: Surroundings
) -> Iterator[tuple[Row, int, int]]:
    keys = tuple(_order_key(order, names, around) for order in relation.order)
    before = 0
    for _, group in groupby(rows, key=lambda item: tuple(key(item) for key in keys)):
        equal = list(group)
        yield from ((row, weight, before + 1) for row, weight in equal)
        before += 1 if relation.ranking == Ranking.DENSE_RANK else sum(weight for _, weight in equal)


def _order_key(order: Order, names: Names, around: Surroundings) -> Callable[[Weighted], Any]:
    """For sorting in the order's own direction: NULLs come first exactly when it says so."""
    value = value_of(order.expr, names, around)
    key = _column_key(order.expr.type, nulls_low=order.nulls_first != order.descending)
    return lambda item: key(value(item[0]))


def _column_key(type_: Type, *, nulls_low: bool = True) -> Callable[[Value], tuple[bool, Any]]:
    """NULL below (or above) every value."""
    key = sort_key(type_)
    return lambda value: (not nulls_low, 0) if value is None else (nulls_low, key(value))
