"""Changes of the first rows of partitions: touched ones are held in order while their changes are replayed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import total_ordering
from operator import itemgetter
from typing import Any

import pyarrow as pa

from headrace.meaning.evaluate_rank import column_key, first_rows, order_key
from headrace.meaning.row_functions import names_of
from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.meaning.zset import EMPTY, ZSet
from headrace.model.block import Derivation
from headrace.model.relation import Projection, Scan, TopK, fields_of
from headrace.model.types import BIGINT, INT, Row
from headrace.run.operators.expressions import column_of
from headrace.run.operators.sides import Side
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import ORDER, TIME, WEIGHT

Stamped = tuple[int, Row, int]


def first_of_partitions(derivation: Derivation, side: Side, around: Surroundings = NOTHING) -> pa.Table:
    """The changes of the rows that are first; each touched partition is one group of the side."""
    assert derivation.limit is not None, "rows are ranked without a limit"
    input_ = Projection(Scan("", "", (), ()), derivation.columns[0])
    rank = (derivation.offset, derivation.ranking, derivation.rank_name)
    top = TopK(input_, derivation.partition, derivation.order, derivation.limit, *rank)
    columns = {field.name: field.type for field in fields_of(top)}
    key = _make_key(top, around)
    rows = [
        (*row, time, 0, weight)
        for partition in _partitions(derivation, side, around)
        for time, row, weight in _replay_times(_Ordered(top, key), partition, side.after)
    ]
    return arrow_table({**columns, TIME: BIGINT, ORDER: INT, WEIGHT: BIGINT}, rows)


def _partitions(derivation: Derivation, side: Side, around: Surroundings) -> Iterable[list[Stamped]]:
    """Rows of every partition, in order of time."""
    values = {column.name: column_of(column.expr, side.rows, around) for column in derivation.columns[0]}
    found: dict[int, list[Stamped]] = {}
    stamps = zip(side.group.tolist(), side.time.tolist(), side.weight.tolist(), strict=True)
    rows_seen = rows_of_arrow(pa.table(values)) if values else [()] * len(side.group)  # a table needs columns
    for row, (group, time, weight) in zip(rows_seen, stamps, strict=True):
        found.setdefault(group, []).append((time, row, weight))
    for rows in found.values():
        rows.sort(key=itemgetter(0))
    return found.values()


def _replay_times(kept: _Ordered, rows: list[Stamped], after: int) -> Iterator[Stamped]:
    """The difference that each time makes to the first rows, from no rows on."""
    was, at = EMPTY, 0
    while at < len(rows):
        time = rows[at][0]
        end = next((i for i in range(at, len(rows)) if rows[i][0] != time), len(rows))
        kept.add((row, weight) for _, row, weight in rows[at:end])
        now, at = kept.first(), end
        if time > after:
            yield from ((time, row, weight) for row, weight in (now - was).items())
        was = now


class _Ordered:
    """The rows of a partition in order, and how often each occurs."""

    def __init__(self, top: TopK, key: Callable[[Row], tuple[Any, Any]]) -> None:
        self._top = top
        self._key = key
        self._rows: list[tuple[tuple[Any, Any], Row]] = []
        self._weights: dict[Row, int] = {}

    def add(self, changes: Iterable[tuple[Row, int]]) -> None:
        """Rows that come are sorted in together: what is in order already costs little to sort again."""
        come = []
        for row, weight in ZSet(changes).items():
            known = self._weights.get(row, 0)
            assert known + weight >= 0, f"{row} occurs {known + weight} times"
            self._weights[row] = known + weight
            if not known:
                come.append((self._key(row), row))
            elif not self._weights[row]:
                del self._weights[row]
                del self._rows[bisect_left(self._rows, self._key(row), key=itemgetter(0))]
        if come:
            self._rows.extend(come)
            self._rows.sort(key=itemgetter(0))

    def first(self) -> ZSet:
        in_order = ((row, self._weights[row]) for _, row in self._rows)
        return ZSet(first_rows(self._top, in_order, lambda item: self._key(item[0])[0]))


def _make_key(top: TopK, around: Surroundings) -> Callable[[Row], tuple[Any, Any]]:
    """What the order of rows is decided by: the order asked for, then the whole row."""
    orders = tuple((order_key(order, names_of(top.input), around), order.descending) for order in top.order)
    columns = tuple(column_key(field.type) for field in fields_of(top.input))

    def key(row: Row) -> tuple[Any, Any]:
        asked = tuple(_Descending(of(row)) if descending else of(row) for of, descending in orders)
        return asked, tuple(of(value) for of, value in zip(columns, row, strict=True))

    return key


@total_ordering
class _Descending:
    """A key whose order is turned round."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.key == other.key)

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.key < self.key)

    def __hash__(self) -> int:
        return hash(self.key)
