"""Groups from all their rows: the state is the prepared rows, and those of groups that change are looked at again.

All groups at once. DISTINCT counts a value when it comes to a group that does not have it, and when the last one goes;
the rest is as with running totals. The smallest and the largest value are the first ones of a list that is followed
over time (`run.operators.first_rows`). What depends on all values in order (`meaning.ordered_values`) is computed anew
for each group and time at which one of them comes or goes, from values that are sorted once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.meaning.ordered_values import OF_ORDERED_VALUES, counts_where, sorted_by
from headrace.model.block import Aggregation
from headrace.model.relation import AggregateCall, AggregateFunction, Ranking
from headrace.run.operators.first_rows import ListChanges, ListRows, Ranks, follow_first_rows
from headrace.run.operators.lookup import Integers, Lookup
from headrace.run.operators.numbering import Amounts, GroupTimes, number_rows, sums_by
from headrace.run.operators.ordered_lists import OrderedLists
from headrace.run.operators.prepare import input_columns, key_column, key_fields
from headrace.run.operators.running import TOTALS, GroupChange, find_amounts
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.changes import TIME, WEIGHT
from headrace.run.rows.places import part_by_column, part_by_number

_FIRST = Ranks(Ranking.ROW_NUMBER, 0, 1, named=False)
_UNCHANGED, _NONE = -2, -1


def accumulate(aggregation: Aggregation, prepared: pa.Table, state: Lookup | None) -> tuple[pa.Table, pa.Table]:
    names = [key_column(field) for field in key_fields(aggregation)]
    groups = number_rows((prepared.column(name) for name in names), prepared.num_rows)
    keys = prepared.take(pa.array(groups.first_rows))
    positions, kept = (np.zeros(0, np.int64), prepared.slice(0, 0)) if state is None else state.meet(keys, names, True)
    rows = pa.concat_tables([kept.select(prepared.column_names).cast(prepared.schema), prepared])
    steps = GroupTimes.of(groups.of_row, prepared.column(TIME).to_numpy())
    touched = _Touched(rows, np.concatenate((positions, groups.of_row)), len(positions), groups.count, steps)
    amounts = find_amounts(aggregation, rows, touched.weights_of, {})
    measures = {name: touched.follow_total(of_rows) for name, of_rows in amounts.items()}
    assert (measures["n"] >= 0).all(), f"a group of {measures['n'].min()} rows"
    extremes = {call.name: touched.follow(call) for call in aggregation.calls if call.function not in TOTALS}
    key_arrays = {name: keys.column(name) for name in names}
    change = GroupChange(steps, measures["n"] > 0)
    return change.of_groups(aggregation, key_arrays, measures, extremes), prepared


@dataclass(frozen=True, slots=True)
class _Touched:
    """All rows of groups that change: first those that were `kept` before, then the changes, which are the `steps`.

    `group` is the number of each row's group, of which there are `count`.
    """

    rows: pa.Table
    group: Integers
    kept: int
    count: int
    steps: GroupTimes

    @property
    def weight(self) -> Integers:
        return np.asarray(self.rows.column(WEIGHT).to_numpy())

    def follow_total(self, amounts: Amounts) -> Amounts:
        """The total of each group after each step, then that of each group before all steps."""
        before = np.zeros(self.count, amounts.dtype)
        np.add.at(before, self.group[: self.kept], amounts[: self.kept])
        return np.concatenate((self.steps.running(amounts[self.kept :], before), before))

    def weights_of(self, call: AggregateCall) -> Integers:
        """How often each row counts. With DISTINCT one row stands for all that a group has of a value."""
        if not call.distinct:
            return self.weight
        inputs = (self.rows.column(name) for name in input_columns(call))
        values = number_rows((pa.array(self.group), *inputs), len(self.group))
        old, new = values.of_row[: self.kept], values.of_row[self.kept :]
        before = sums_by(self.weight[: self.kept], old, values.count)
        steps = GroupTimes.of(new, self.rows.column(TIME).to_numpy()[self.kept :])
        after = steps.running(self.weight[self.kept :], before)
        weights = np.zeros(len(self.group), np.int64)
        # Whichever row of a value is written last: one of them.
        chosen = np.full(values.count, _NONE)
        chosen[old] = np.arange(self.kept)
        weights[chosen[chosen >= 0]] = before[chosen >= 0] > 0
        row_of_step = np.zeros(len(steps), np.int64)
        row_of_step[steps.of_row] = np.arange(self.kept, len(self.group))
        weights[row_of_step] = (after > 0).astype(np.int64) - (steps.before(after, before) > 0)
        return weights

    def follow(self, call: AggregateCall) -> pa.Array:
        """The value of a call for each group after each step, then for each group before all steps."""
        return self._follow_values(call) if call.function in OF_ORDERED_VALUES else self._follow_extreme(call)

    def _follow_values(self, call: AggregateCall) -> pa.Array:
        columns = [self.rows.column(name).combine_chunks() for name in input_columns(call)]
        places = part_by_number(np.zeros(len(self.group), np.int64), self.group)
        for column, key in sorted_by(call):
            values, directions = columns[column], {"descending": key.descending, "nulls_first": key.nulls_first}
            places = part_by_column(places, values, key.expr.type, **directions)
        counts = np.where(columns[counts_where(call)].is_valid().to_numpy(zero_copy_only=False), self.weight, 0)
        lists = OrderedLists.of(call, columns[0], places, self.group, self.count)
        return lists.follow(counts[: self.kept], counts[self.kept :], self.steps)

    def _follow_extreme(self, call: AggregateCall) -> pa.Array:
        """The smallest or largest value of each group after each step, then that of each group before all steps."""
        assert call.argument is not None, f'call "{call.name}" has no argument'
        values = self.rows.column(f"a:{call.name}").combine_chunks()
        is_largest = call.function is AggregateFunction.MAX
        places = part_by_number(np.zeros(len(values), np.int64), self.group)
        places = part_by_column(places, values, call.argument.type, descending=is_largest)
        row, group = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
        row[places], group[places] = np.arange(len(values)), self.group
        counts = np.where(values.is_valid().to_numpy(zero_copy_only=False), self.weight, 0)
        held = sums_by(counts[: self.kept], places[: self.kept], len(values))
        there = np.flatnonzero(held)
        new = np.flatnonzero(counts[self.kept :])
        changed = places[self.kept + new]
        changes = ListRows(group[changed], changed, counts[self.kept + new])
        made = follow_first_rows(
            _FIRST,
            np.arange(len(values)),
            ListRows(group[there], there, held[there]),
            ListChanges(changes, self.steps.of_row[new]),
        )
        first = np.full(self.count, len(values))
        np.minimum.at(first, group[there], there)
        before = np.append(row, _NONE)[first]
        after = np.full(len(self.steps), _UNCHANGED)
        after[made.times] = _NONE
        comes = made.weights > 0
        after[made.times[comes]] = row[made.places[comes]]
        chosen = np.concatenate((_fill_unchanged(after, self.steps, before), before))
        return values.take(pa.array(chosen, mask=chosen < 0)).cast(arrow_type(call.type))


def _fill_unchanged(after: Integers, steps: GroupTimes, before: Integers) -> Integers:
    """What each group has after each step, if it is told only where it changes."""
    first = np.flatnonzero(steps.is_first & (after == _UNCHANGED))
    after[first] = before[steps.group[first]]
    told = np.where(after == _UNCHANGED, 0, np.arange(len(after)))
    return np.asarray(after[np.maximum.accumulate(told)])
