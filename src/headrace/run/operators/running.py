"""Groups from running totals: rows, and per call with an argument the values that are not NULL and their exact sum.

The state has one row per group that lives: "k:NAME" keys, "n" rows, "c:NAME" values, "s:NAME" their sum as text, since
sums may be larger than any type of Arrow. Variance and its kin have sums of powers instead, "m:NAME:20" that of squares
(`meaning.moments`). Between two batches only the last totals are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.meaning.moments import POWERS
from headrace.model.bad_row import BadRow, say_call
from headrace.model.block import Aggregation
from headrace.model.errors import EvaluationError
from headrace.model.relation import AggregateCall, AggregateFunction, Field
from headrace.model.types import BIGINT, STRING
from headrace.run.operators.lookup import Integers, Lookup
from headrace.run.operators.numbering import Amounts, GroupTimes, Numbering, number_rows, sums_by
from headrace.run.operators.prepare import input_columns, key_column, key_fields
from headrace.run.operators.totals import (
    counts_of,
    power_amounts,
    result_of,
    sum_amounts,
    sum_columns,
    total_amounts,
    write_totals,
)
from headrace.run.rows.changes import ORDER, TIME, WEIGHT

TOTALS = frozenset((AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG, *POWERS))


def state_fields(aggregation: Aggregation) -> tuple[Field, ...]:
    keys = tuple(Field(key_column(field), field.type) for field in key_fields(aggregation))
    counts = tuple(Field(f"c:{call.name}", BIGINT) for call in _with_argument(aggregation))
    sums = tuple(Field(name, STRING) for call in _summed_calls(aggregation) for name in sum_columns(call))
    return (*keys, Field("n", BIGINT), *counts, *sums)


def _with_argument(aggregation: Aggregation) -> tuple[AggregateCall, ...]:
    totals = (call for call in aggregation.calls if call.function in TOTALS)
    return tuple(call for call in totals if call.argument is not None)


def _summed_calls(aggregation: Aggregation) -> tuple[AggregateCall, ...]:
    return tuple(call for call in _with_argument(aggregation) if call.function is not AggregateFunction.COUNT)


def accumulate(aggregation: Aggregation, prepared: pa.Table, state: Lookup | None) -> tuple[pa.Table, pa.Table]:
    names = [key_column(field) for field in key_fields(aggregation)]
    groups = number_rows((prepared.column(name) for name in names), prepared.num_rows)
    keys = prepared.take(pa.array(groups.first_rows))
    steps = GroupTimes.of(groups.of_row, prepared.column(TIME).to_numpy())
    measures = _measures(aggregation, prepared, _read_totals(aggregation, keys, names, state), groups, steps)
    change = GroupChange(steps, measures["n"] > 0)
    key_arrays = {name: keys.column(name) for name in names}
    return (
        change.of_groups(aggregation, key_arrays, measures),
        change.of_state(aggregation, key_arrays, measures),
    )


def _read_totals(
    aggregation: Aggregation, keys: pa.Table, names: list[str], state: Lookup | None
) -> Mapping[str, Amounts]:
    """The totals of each group before all changes; zero for groups that are new."""
    fields = [field for field in state_fields(aggregation) if field.name not in names]
    values: dict[str, Amounts] = {field.name: np.zeros(keys.num_rows, np.int64) for field in fields}
    if state is None or not keys.num_rows:
        return values
    positions, rows = state.meet(keys, names, True)
    versions = number_rows((pa.array(positions), *(rows.column(field.name) for field in fields)), rows.num_rows)
    weights = sums_by(rows.column(WEIGHT).to_numpy(), versions.of_row, versions.count)
    current = versions.first_rows[weights != 0]
    where = positions[current]
    assert (weights[weights != 0] == 1).all() and len(set(where)) == len(where), "a group has several states"
    for field in fields:
        found = total_amounts(rows.column(field.name).take(pa.array(current)), _call(aggregation, field.name))
        values[field.name] = values[field.name].astype(found.dtype)
        values[field.name][where] = found
    return values


def _call(aggregation: Aggregation, column: str) -> AggregateCall | None:
    """The call whose sum a column of the state holds."""
    return next((call for call in _summed_calls(aggregation) if column in sum_columns(call)), None)


def _measures(
    aggregation: Aggregation, prepared: pa.Table, kept: Mapping[str, Amounts], groups: Numbering, steps: GroupTimes
) -> Mapping[str, Amounts]:
    """Every total after each step, then every total of each group before all steps."""
    weights: Integers = prepared.column(WEIGHT).to_numpy()
    amounts = find_amounts(aggregation, prepared, lambda _: weights, kept)
    assert set(amounts) == set(kept), f"totals {sorted(amounts)} and state {sorted(kept)} differ"
    after = {name: steps.running(amounts[name], kept[name]) for name in amounts}
    return {name: np.concatenate((after[name], kept[name])) for name in amounts}


def find_amounts(
    aggregation: Aggregation,
    prepared: pa.Table,
    weights_of: Callable[[AggregateCall], Integers],
    kept: Mapping[str, Amounts],
) -> dict[str, Amounts]:
    """What each row adds to every total. `kept` are totals that it is added to, which have to have room for it."""
    amounts: dict[str, Amounts] = {"n": prepared.column(WEIGHT).to_numpy()}
    for call in _with_argument(aggregation):
        amounts[f"c:{call.name}"] = counts_of(prepared.column(f"a:{call.name}"), weights_of(call))
    for call in _summed_calls(aggregation):
        if call.function in POWERS:
            inputs = [prepared.column(name) for name in input_columns(call)]
            amounts |= power_amounts(call, inputs[0], inputs[-1], weights_of(call))
        else:
            argument, already = prepared.column(f"a:{call.name}"), kept.get(f"s:{call.name}", np.zeros(0, np.int64))
            amounts[f"s:{call.name}"] = sum_amounts(call, argument, weights_of(call), already)
    return amounts


class GroupChange:
    """Which totals were and are at each step, by their positions among `measures`."""

    def __init__(self, steps: GroupTimes, lives: npt.NDArray[np.bool_]) -> None:
        self._steps = steps
        self._lives = lives
        self._after = np.arange(len(steps))
        self._before = steps.before(self._after, len(steps) + np.arange(len(lives) - len(steps)))

    def of_groups(
        self,
        aggregation: Aggregation,
        keys: Mapping[str, pa.ChunkedArray],
        measures: Mapping[str, Amounts],
        extremes: Mapping[str, pa.Array] | None = None,
    ) -> pa.Table:
        """`extremes` are values of calls that no total tells."""
        lives = self._lives if keys else np.ones_like(self._lives)
        known = extremes or {}
        try:
            columns = {
                call.name: known[call.name] if call.name in known else result_of(call, measures)
                for call in aggregation.calls
            }
        except EvaluationError as error:
            error.bad_row = self._bad_group(aggregation, keys, measures)
            raise
        same = _same(columns.values(), lives, self._before, self._after)
        renamed = {field.name: keys[key_column(field)] for field in key_fields(aggregation)}
        return self._table(renamed, columns, lives, np.flatnonzero(~same), self._before)

    def _bad_group(
        self, aggregation: Aggregation, keys: Mapping[str, pa.ChunkedArray], measures: Mapping[str, Amounts]
    ) -> BadRow | None:
        """The first group with a total that has no answer."""
        groups = np.concatenate((self._steps.group, np.arange(len(self._lives) - len(self._steps))))
        for call in (call for call in aggregation.calls if call.function in TOTALS):
            for position, group in enumerate(groups.tolist()):
                try:
                    result_of(call, {name: amounts[position : position + 1] for name, amounts in measures.items()})
                except EvaluationError as error:
                    row = {field.name: keys[key_column(field)][group].as_py() for field in key_fields(aggregation)}
                    return BadRow(str(error), say_call(call), row, is_group=True)
        return None

    def of_state(
        self, aggregation: Aggregation, keys: Mapping[str, pa.ChunkedArray], measures: Mapping[str, Amounts]
    ) -> pa.Table:
        """The change from before all steps to after the last one."""
        last = np.flatnonzero(self._steps.is_last)
        before = np.full(len(self._steps), -1)
        before[last] = len(self._steps) + self._steps.group[last]
        columns = {name: write_totals(amounts, _call(aggregation, name)) for name, amounts in measures.items()}
        same = _same(columns.values(), self._lives, before[last], last)
        named = {field.name: columns[field.name] for field in state_fields(aggregation) if field.name in columns}
        return self._table(keys, named, self._lives, last[~same], before)

    def _table(
        self,
        keys: Mapping[str, pa.ChunkedArray],
        columns: Mapping[str, pa.Array],
        lives: npt.NDArray[np.bool_],
        steps: Integers,
        before: Integers,
    ) -> pa.Table:
        """What was goes and what is comes, where it lives."""
        gone, come = steps[lives[before[steps]]], steps[lives[steps]]
        chosen = np.concatenate((gone, come))
        values = pa.array(np.concatenate((before[gone], come)))
        groups = pa.array(self._steps.group[chosen])
        return pa.table(
            {
                **{name: column.take(groups) for name, column in keys.items()},
                **{name: column.take(values) for name, column in columns.items()},
                TIME: pa.array(self._steps.time[chosen]),
                ORDER: pa.array(np.zeros(len(chosen), np.int32)),
                WEIGHT: pa.array(np.repeat(np.array([-1, 1]), (len(gone), len(come)))),
            }
        )


def _same(
    columns: Iterable[pa.Array], lives: npt.NDArray[np.bool_], before: Integers, after: Integers
) -> npt.NDArray[np.bool_]:
    """Whether a row is as it was: both or neither live, with equal values."""
    same: npt.NDArray[np.bool_] = lives[before] == lives[after]
    for column in columns:
        numbers = number_rows((column,), len(column)).of_row
        same &= numbers[before] == numbers[after]
    return same
