"""Changes of rows with window functions. The state is all rows of the partitions, in order, of which a push reads those
around the changes, or from them on, as far as functions look (`run.operators.window_parts`).

At every time at which the values of a row change it goes and comes again, so that the log does not depend on how
changes were cut into batches. With running functions a row of the state has their tallies, too: what they have made of
the rows up to it (`run.operators.window_calls`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.bad_row import BadRow
from headrace.model.block import Derivation
from headrace.model.errors import EvaluationError
from headrace.model.expr import Column, Expr
from headrace.model.relation import Field
from headrace.model.types import BIGINT, BINARY, INT, Row, Value
from headrace.run.logs.key_index import SORTED, KeyIndex
from headrace.run.operators.expressions import column_of
from headrace.run.operators.lookup import Integers
from headrace.run.operators.numbering import number_rows
from headrace.run.operators.window_calls import FollowedWindow
from headrace.run.operators.window_list import WindowList
from headrace.run.operators.window_parts import GROUPS, MARGIN, ROWS, NewRows, PartReader, WindowPartRows
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import ORDER, TIME, WEIGHT


def state_fields(derivation: Derivation, keys: tuple[Expr, ...]) -> tuple[Field, ...]:
    """The columns of the state; the first ones, by which it is looked up, are those of `state_key`."""
    window = FollowedWindow.of(derivation)
    partition = (Field(name, key.type) for name, key in zip(state_key(keys), keys, strict=True))
    rows = (Field(f"r:{field.name}", field.type) for field in window.fields)
    return (*partition, Field(SORTED, BINARY), *rows, *_tally_fields(window))


def state_key(keys: tuple[Expr, ...]) -> tuple[str, ...]:
    return tuple(f"k:{number}" for number in range(len(keys)))


def _tally_fields(window: FollowedWindow) -> tuple[Field, ...]:
    rows = (Field(ROWS, BIGINT),) if window.numbers_rows else ()
    groups = (Field(GROUPS, BIGINT),) if window.counts_groups else ()
    return (*rows, *groups, *(field for call in window.tallied for field in call.tally_fields))


@dataclass(frozen=True, slots=True)
class OverChanges:
    """Changes of rows with their values and of the state, and how many rows of the state were read."""

    shown: pa.Table
    state: pa.Table
    read: int


def follow_windows(
    derivation: Derivation,
    keys: tuple[Expr, ...],
    changes: pa.Table,
    states: KeyIndex | None,
    around: Surroundings = NOTHING,
    margin: int = MARGIN,
) -> OverChanges:
    """`states` holds all that was returned for earlier rows; None is nothing. At first, `margin` rows are read around
    changes.
    """
    window, names = FollowedWindow.of(derivation), state_key(keys)
    key_rows = pa.table({name: column_of(key, changes, around) for name, key in zip(names, keys, strict=True)})
    numbers = number_rows((key_rows.column(name) for name in names), changes.num_rows)
    found = key_rows.take(pa.array(numbers.first_rows)) if names else pa.table({"": np.arange(numbers.count)})
    new = _read_changes(derivation, changes, numbers.of_row, around)
    parts = PartReader(window, states, found, names, _tally_fields(window), margin).read(new)
    shown, state = list[Row](), list[Row]()
    for number, key in enumerate(rows_of_arrow(found.select(list(names)))):
        for part in parts.of_partition[number]:
            followed = _FollowedPart(window, part)
            try:
                shown += followed.follow()
            except EvaluationError as error:
                error.bad_row = error.bad_row or _say_partition(derivation, key, error)
                raise
            state += ((*key, *row) for row in followed.change_state())
    columns = {field.name: field.type for field in window.fields} | {call.name: call.type for call in derivation.calls}
    stamps = {TIME: BIGINT, ORDER: INT, WEIGHT: BIGINT}
    fields = {field.name: field.type for field in state_fields(derivation, keys)}
    made = arrow_table({**columns, **stamps}, shown)
    return OverChanges(made, arrow_table({**fields, **stamps}, state), parts.rows_read)


def _say_partition(derivation: Derivation, key: Row, error: EvaluationError) -> BadRow:
    names = (expr.name if isinstance(expr, Column) else str(expr) for expr in derivation.partition)
    calls = ", ".join(call.name for call in derivation.calls)
    return BadRow(str(error), calls, dict(zip(names, key, strict=True)), is_group=True)


def _read_changes(
    derivation: Derivation, changes: pa.Table, partition: Integers, around: Surroundings
) -> Mapping[int, NewRows]:
    """How often rows come, or go if negative, by partition and time."""
    columns = [column_of(column.expr, changes, around) for column in derivation.columns[0]]
    table = pa.table(columns, names=[str(number) for number in range(len(columns))])
    # A table without columns, as of constants alone, does not know how many rows it has.
    rows = rows_of_arrow(table) if columns else [()] * changes.num_rows
    stamps = (changes.column(TIME).to_pylist(), changes.column(WEIGHT).to_pylist())
    found: dict[int, dict[int, Counter[Row]]] = defaultdict(lambda: defaultdict(Counter))
    for number, row, time, weight in zip(partition.tolist(), rows, *stamps, strict=True):
        found[number][time][row] += weight
    return found


class _FollowedPart:
    """A part of a partition that a push looks at."""

    def __init__(self, window: FollowedWindow, part: WindowPartRows) -> None:
        self._window, self._part, self._new = window, part, part.new
        width = len(window.fields)
        rows = [(row[:width], weight) for row, weight in part.kept.items()]
        self._list = WindowList(window, rows, part.before)

    def follow(self) -> Iterator[Row]:
        """Rows with their values, and stamps."""
        for time in sorted(self._new):
            made = self._list.change(self._new[time])
            yield from ((*row, time, 0, weight) for row, weight in made.items() if weight)

    def change_state(self) -> Iterator[Row]:
        """The change of the state from before all changes to after the last, written at the time of that."""
        change = Counter(self._make_state())
        change.subtract(self._part.kept)
        time, place = max(self._new), self._window.sortable
        width = len(self._window.fields)
        return ((place(row[:width]), *row, time, 0, weight) for row, weight in change.items() if weight)

    def _make_state(self) -> dict[Row, int]:
        """Rows with their tallies, and how often each is there. Of equal rows, the last one's tallies count."""
        entries, window, made = self._list.entries, self._window, dict[Row, int]()
        numbers, groups, copies = window.numbers_rows, window.counts_groups, 0
        tallied = [(call, entries.tallies[call.call.name]) for call in window.tallied]
        for place, row in enumerate(entries.rows):
            copies += 1
            if place + 1 < len(entries.rows) and entries.keys[place + 1] == entries.keys[place]:
                continue
            tallies: list[Value] = [self._list.rows_with(place)] if numbers else []
            tallies += [entries.groups[place]] if groups else []
            for call, tallies_of in tallied:
                tallies += call.write_tally(tallies_of[place])
            made[(*row, *tallies)] = copies
            copies = 0
        return made
