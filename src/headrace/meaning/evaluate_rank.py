"""Rows of TopK: the first rows of each partition, by row number, rank or dense rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from headrace.meaning.row_functions import Names, bag, names_of, row_of, value_of
from headrace.meaning.scalar import Surroundings
from headrace.meaning.scalar_compare import sort_key
from headrace.meaning.zset import ZSet
from headrace.model.relation import Order, Ranking, TopK, fields_of
from headrace.model.types import Row, Type, Value

Weighted = tuple[Row, int]
RowKey = Callable[[Row], Any]


def top_k(relation: TopK, input_: ZSet, around: Surroundings) -> Iterator[Weighted]:
    names = names_of(relation.input)
    partition_of = row_of(relation.partition, names, around)
    partitions: dict[Row, list[Weighted]] = defaultdict(list)
    for row, weight in bag(input_, relation):
        partitions[partition_of(row)].append((row, weight))
    keys = tuple(order_key(order, names, around) for order in relation.order)
    types = tuple(field.type for field in fields_of(relation.input))
    for rows in partitions.values():
        sort_rows(rows, relation.order, keys, types)
        yield from first_rows(relation, rows, lambda item: tuple(key(item[0]) for key in keys))


def first_rows(relation: TopK, rows: Iterable[Weighted], tie: Callable[[Weighted], Any]) -> Iterator[Weighted]:
    """Takes, from rows in order, those whose rank lies in (offset, offset + limit]. Rows of equal rank have equal
    `tie`.
    """
    for row, weight, rank in _rank_rows(relation, rows, tie):
        if rank > relation.offset + relation.limit:
            return
        if rank > relation.offset:
            yield (row if relation.rank_name is None else (*row, rank)), weight


def sort_rows(
    rows: list[Weighted], orders: tuple[Order, ...], keys: tuple[RowKey, ...], types: tuple[Type, ...]
) -> None:
    """Sorts rows by their `order_key`s, then by the whole row, whose fields have these types."""
    columns = tuple(map(column_key, types))
    rows.sort(key=lambda item: tuple(key(value) for key, value in zip(columns, item[0], strict=True)))
    for order, key in reversed(tuple(zip(orders, keys, strict=True))):
        rows.sort(key=lambda item, key=key: key(item[0]), reverse=order.descending)  # type: ignore[misc]


def _rank_rows(
    relation: TopK, rows: Iterable[Weighted], tie: Callable[[Weighted], Any]
) -> Iterator[tuple[Row, int, int]]:
    """(row, weight, rank) in order; under `row_number` each copy of a row has its own rank."""
    if relation.ranking == Ranking.ROW_NUMBER:
        copies = (row for row, weight in rows for _ in range(weight))
        return ((row, 1, number) for number, row in enumerate(copies, start=1))
    return _with_ties(relation, rows, tie)


def _with_ties(
    relation: TopK, rows: Iterable[Weighted], tie: Callable[[Weighted], Any]
) -> Iterator[tuple[Row, int, int]]:
    before = 0
    for _, group in groupby(rows, key=tie):
        equal = list(group)
        yield from ((row, weight, before + 1) for row, weight in equal)
        before += 1 if relation.ranking == Ranking.DENSE_RANK else sum(weight for _, weight in equal)


def order_key(order: Order, names: Names, around: Surroundings) -> RowKey:
    """A key for sorting in the order's own direction: NULLs come first exactly when it says so."""
    value = value_of(order.expr, names, around)
    key = column_key(order.expr.type, nulls_low=order.nulls_first != order.descending)
    return lambda row: key(value(row))


def column_key(type_: Type, *, nulls_low: bool = True) -> Callable[[Value], tuple[bool, Any]]:
    """NULL below (or above) every value."""
    key = sort_key(type_)
    return lambda value: (not nulls_low, 0) if value is None else (nulls_low, key(value))
