"""Changes of a derivation from the changes of its inputs: distinct, top-k, sessions, outer, semi and anti joins, union.

Only keys that change are looked at. At every time at which what they make changes, the difference is written with that
time, so that the log does not depend on how changes were cut into batches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.meaning.derive_keys import condition_of
from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.meaning.scalar_time import micros
from headrace.model.block import DerivationKind, Stamp
from headrace.model.relation import BEGINNING
from headrace.model.types import TIMESTAMP
from headrace.run.logs.key_index import KeyIndex
from headrace.run.operators.expressions import column_of, with_outputs
from headrace.run.operators.lookup import Lookup
from headrace.run.operators.match import match_sides
from headrace.run.operators.numbering import GroupTimes, sums_by
from headrace.run.operators.over import OverChanges, follow_windows
from headrace.run.operators.sessions import derive_sessions
from headrace.run.operators.sides import TouchedKeys, find_touched_keys, make_changes
from headrace.run.operators.top import Partitions, TopChanges, first_of_partitions
from headrace.run.operators.unfold import unfold_rows
from headrace.run.operators.window_parts import MARGIN
from headrace.run.program import DeriveStep
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.changes import TIME, WEIGHT


def derive(
    step: DeriveStep,
    changes: tuple[pa.Table, ...],
    contents: tuple[Lookup, ...],
    after: int,
    around: Surroundings = NOTHING,
    *,
    loads: bool = False,
) -> pa.Table:
    """Changes of the output, all later than `after`. Top-k and window functions have a state, and are derived below.

    `changes` are those of each input since then; `contents` (none for union all) find their rows by `step.keys`, with
    their history. With `loads`, changes are all that the inputs hold when it is computed first.
    """
    if step.derivation.kind is DerivationKind.UNION_ALL:
        return with_outputs(step.outputs, _unite_rows(step, changes, around, loads=loads), around)
    if step.derivation.kind is DerivationKind.SESSIONS:
        return with_outputs(step.outputs, derive_sessions(step, changes[0], contents[0], after, around), around)
    found = find_touched_keys(step.keys, changes, contents, after, around)
    match step.derivation.kind:
        case DerivationKind.DISTINCT:
            made = _derive_distinct(step, found)
        case DerivationKind.TOPK | DerivationKind.WINDOW | DerivationKind.PYTHON | DerivationKind.SESSIONS:
            raise AssertionError(f'"{step.derivation.kind}" is not derived from the contents of its inputs')
        case kind:
            fields = tuple(input_.fields for input_ in step.inputs)
            made = match_sides(kind, condition_of(step.derivation, fields), found, around)
    return with_outputs(step.outputs, made, around)


def derive_top(
    step: DeriveStep,
    changes: pa.Table,
    partitions: Partitions,
    after: int,
    around: Surroundings = NOTHING,
    reserve: int | None = None,
) -> TopChanges:
    """Changes of the output of a top-k and of its state, all later than `after`."""
    (keys,) = step.keys
    found = first_of_partitions(step.derivation, keys, changes, partitions, after, around, reserve)
    return replace(found, shown=with_outputs(step.outputs, found.shown, around))


def derive_over(
    step: DeriveStep,
    changes: pa.Table,
    states: KeyIndex | None,
    around: Surroundings = NOTHING,
    margin: int = MARGIN,
) -> OverChanges:
    """Changes of the output of window functions and of their state."""
    (keys,) = step.keys
    found = follow_windows(step.derivation, keys, changes, states, around, margin)
    return replace(found, shown=with_outputs(step.outputs, found.shown, around))


def _unite_rows(step: DeriveStep, changes: tuple[pa.Table, ...], around: Surroundings, *, loads: bool) -> pa.Table:
    """Rows of all inputs by position, under the names of the first."""
    names = [column.name for column in step.derivation.columns[0]]
    tables = []
    for columns, table in zip(step.derivation.columns, changes, strict=True):
        values = {name: column_of(column.expr, table, around) for name, column in zip(names, columns, strict=True)}
        tables.append(make_changes(values, table.column(TIME).to_numpy(), table.column(WEIGHT).to_numpy()))
    united = pa.concat_tables(tables)
    if step.derivation.stamp is not None:
        return _stamp_rows(step.derivation.stamp, united, loads=loads)
    return united if step.derivation.unfold is None else unfold_rows(step.derivation.unfold, united)


def _stamp_rows(stamp: Stamp, changes: pa.Table, *, loads: bool) -> pa.Table:
    """Changes with their times as a column. What is loaded may have been there since the beginning."""
    if loads and stamp.from_beginning:
        times = pa.array(np.full(changes.num_rows, micros(BEGINNING)))
    else:
        times = changes.column(TIME)
    return changes.append_column(stamp.time, times.cast(arrow_type(TIMESTAMP)))


def _derive_distinct(step: DeriveStep, found: TouchedKeys) -> pa.Table:
    """A row comes when it occurs first and goes when it occurs no more."""
    (side,) = found.sides
    new = side.is_new
    initial = sums_by(side.weight[~new], side.group[~new], found.keys.num_rows)
    steps = GroupTimes.of(side.group[new], side.time[new])
    occurs = steps.running(side.weight[new], initial)
    change = (occurs > 0).astype(np.int64) - (steps.before(occurs, initial) > 0)
    at = np.flatnonzero(change)
    rows = found.keys.take(pa.array(steps.group[at]))
    names = (column.name for column in step.derivation.columns[0])
    columns = {name: rows.column(key) for name, key in zip(names, found.names, strict=True)}
    return make_changes(columns, steps.time[at], change[at])
