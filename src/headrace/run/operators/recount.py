"""Groups from all their rows: the state is the prepared rows, and groups that change are counted again.

For every call the values of a touched group are held as a bag while its changes are replayed; smallest and largest are
only sought again when the one at hand is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.meaning.evaluate_aggregate import aggregate_values
from headrace.meaning.scalar_compare import sort_key
from headrace.model.bad_row import BadRow, say_call
from headrace.model.block import Aggregation
from headrace.model.errors import EvaluationError
from headrace.model.relation import AggregateCall, AggregateFunction, Field
from headrace.model.types import BIGINT, INT, Row, Value
from headrace.run.operators.lookup import Integers, Lookup
from headrace.run.operators.numbering import number_rows
from headrace.run.operators.prepare import key_column, key_fields
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import ORDER, TIME, WEIGHT

_Stamped = tuple[int, Row, int]
"""Time, arguments and weight of a prepared row."""


def accumulate(aggregation: Aggregation, prepared: pa.Table, state: Lookup | None) -> tuple[pa.Table, pa.Table]:
    fields = key_fields(aggregation)
    names = [key_column(field) for field in fields]
    groups = number_rows((prepared.column(name) for name in names), prepared.num_rows)
    keys = prepared.take(pa.array(groups.first_rows))
    positions, kept = (np.zeros(0, np.int64), prepared.slice(0, 0)) if state is None else state.meet(keys, names, True)
    before, changes = _by_group(positions, kept, groups.count), _by_group(groups.of_row, prepared, groups.count)
    key_rows = rows_of_arrow(keys.select(names)) if names else [()] * groups.count
    rows = [
        (*key, *values, time, 0, weight)
        for key, was, new in zip(key_rows, before, changes, strict=True)
        for time, values, weight in _replay_and_name(aggregation, fields, key, was, new)
    ]
    columns = {field.name: field.type for field in fields} | {call.name: call.type for call in aggregation.calls}
    return arrow_table({**columns, TIME: BIGINT, ORDER: INT, WEIGHT: BIGINT}, rows), prepared


def _replay_and_name(
    aggregation: Aggregation, fields: tuple[Field, ...], key: Row, was: list[_Stamped], new: list[_Stamped]
) -> list[_Stamped]:
    """What `_replay_group` yields; a group that has no answer is named."""
    try:
        return list(_replay_group(aggregation, bool(fields), was, new))
    except EvaluationError as error:
        row = {field.name: value for field, value in zip(fields, key, strict=True)}
        error.bad_row = BadRow(str(error), ", ".join(map(say_call, aggregation.calls)), row, is_group=True)
        raise


def _by_group(numbers: Integers, table: pa.Table, count: int) -> list[list[_Stamped]]:
    """The arguments of prepared rows by group, in order of time."""
    found: list[list[_Stamped]] = [[] for _ in range(count)]
    names = [name for name in table.column_names if name.startswith("a:")]
    arguments = rows_of_arrow(table.select(names)) if names else [()] * table.num_rows
    times, weights = table.column(TIME).to_pylist(), table.column(WEIGHT).to_pylist()
    for number, time, row, weight in zip(numbers.tolist(), times, arguments, weights, strict=True):
        found[number].append((time, row, weight))
    for rows in found:
        rows.sort(key=lambda item: item[0])
    return found


def _replay_group(
    aggregation: Aggregation, keyed: bool, before: list[_Stamped], changes: list[_Stamped]
) -> Iterator[_Stamped]:
    """Yields, at every time, the group's old row that goes and its new one that comes."""
    group = _Group(aggregation, keyed)
    for _, row, weight in before:
        group.add(row, weight)
    was, at = group.row(), 0
    while at < len(changes):
        time = changes[at][0]
        while at < len(changes) and changes[at][0] == time:
            group.add(*changes[at][1:])
            at += 1
        now = group.row()
        if now != was:
            yield from ((time, row, weight) for row, weight in ((was, -1), (now, 1)) if row is not None)
        was = now


class _Group:
    """The rows of a group, as bags of values of each call."""

    def __init__(self, aggregation: Aggregation, keyed: bool) -> None:
        self._keyed = keyed
        self._rows = 0
        self._calls = tuple(_CallValues(call) for call in aggregation.calls if call.argument is not None)
        by_name = {values.call.name: values for values in self._calls}
        self._values: tuple[Callable[[], Value], ...] = tuple(
            by_name[call.name].value if call.argument is not None else self._count_rows for call in aggregation.calls
        )

    def _count_rows(self) -> int:
        return self._rows

    def add(self, arguments: Row, weight: int) -> None:
        self._rows += weight
        for call, argument in zip(self._calls, arguments, strict=True):
            if argument is not None:
                call.add(argument, weight)

    def row(self) -> Row | None:
        """The values of all calls; None when the group is dead."""
        assert self._rows >= 0, f"a group of {self._rows} rows"
        return tuple(value() for value in self._values) if self._rows or not self._keyed else None


class _CallValues:
    """The values of one call's argument, and what the call makes of them."""

    def __init__(self, call: AggregateCall) -> None:
        assert call.argument is not None, f'call "{call.name}" has no argument'
        self.call = call
        self._weights: dict[Any, int] = {}
        self._known: Value = None
        self._stale = True
        self._key = sort_key(call.argument.type)
        self._chosen = {AggregateFunction.MIN: min, AggregateFunction.MAX: max}.get(call.function)

    def add(self, value: Value, weight: int) -> None:
        total = self._weights.get(value, 0) + weight
        if total:
            self._weights[value] = total
        else:
            del self._weights[value]
        if self._chosen is None or (total <= 0 and (value == self._known or value is self._known)):
            self._stale = True
        elif total > 0 and not self._stale:
            self._known = value if self._known is None else self._chosen(self._known, value, key=self._key)

    def value(self) -> Value:
        if self._stale:
            self._known = aggregate_values(self.call, list(self._weights.items()))
            self._stale = False
        return self._known
