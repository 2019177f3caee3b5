"""Filters on time: rows that come when a time is reached, and leave when another is.

A condition compares a time with now() plus or minus an interval, so each row passes from one instant on and until
another. What a row will do later is kept as events: at that time, so many of this row. A row that is deleted cancels
its events. Events are found by the part of the hour in which they fall.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.meaning.scalar import compile_expr
from headrace.meaning.scalar_time import from_micros, micros
from headrace.model.expr import Call, Column, Expr, Literal, conjunction, transform, walk
from headrace.model.relation import Field
from headrace.model.types import BIGINT, TIMESTAMP, YEAR_MONTH
from headrace.run.operators.expressions import column_of
from headrace.run.operators.lookup import Lookup
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.changes import ORDER, TIME, WEIGHT, consolidate, contents

AT, BUCKET = "__at", "__bucket"
BUCKET_US = 10_000_000
DAY_US = 86_400_000_000
EARLIEST, LATEST = -(2**62), 2**62
NOW = Call("now", (), TIMESTAMP)

Micros = npt.NDArray[np.int64]


def event_fields(columns: Sequence[Field]) -> tuple[Field, ...]:
    """The state of a filter on time: rows, when they come or go, and the part of the hour."""
    return (*columns, Field(AT, BIGINT), Field(BUCKET, BIGINT))


def apply_timed_conditions(
    conditions: Sequence[Expr], changes: pa.Table, events: Lookup | None, after: int, upto: int
) -> tuple[pa.Table, pa.Table]:
    """Changes of the rows that pass, and of the events, in (after, upto]."""
    new = _events(conditions, changes)
    old = _due_events(events, new.schema, after, upto)
    due = pa.concat_tables([new, *old])
    happens = due.column(TIME).to_numpy()
    state = [_as_state(due.filter(pa.array(happens > upto)), upto, 1), *(_as_state(one, upto, -1) for one in old)]
    return consolidate(due.filter(pa.array(happens <= upto))), consolidate(pa.concat_tables(state))


def _events(conditions: Sequence[Expr], changes: pa.Table) -> pa.Table:
    """What changed rows do, now and later: rows with the time at which they come (or go)."""
    if any(_by_month(condition) for condition in conditions):
        positions, at, signs = _flips(conditions, changes)
    else:
        positions, at, signs = _two_events(conditions, changes)
    names = [name for name in changes.column_names if name not in (TIME, ORDER, WEIGHT)]
    rows = changes.take(pa.array(positions))
    at_once = at == rows.column(TIME).to_numpy()
    orders = np.where(at_once, rows.column(ORDER).to_numpy(), 0).astype(np.int32)
    weights = rows.column(WEIGHT).to_numpy() * signs
    stamped = rows.select(names).append_column(TIME, pa.array(at, pa.int64())).append_column(ORDER, pa.array(orders))
    return stamped.append_column(WEIGHT, pa.array(weights, pa.int64()))


def _two_events(conditions: Sequence[Expr], changes: pa.Table) -> tuple[Micros, Micros, Micros]:
    """Each row comes once and goes once: positions, times and signs."""
    start, end = spans(conditions, changes)
    comes = np.maximum(changes.column(TIME).to_numpy(), start)
    come = np.flatnonzero(comes < end)
    go = np.flatnonzero((comes < end) & (end < LATEST))
    signs = np.r_[np.ones(len(come), np.int64), np.full(len(go), -1, np.int64)]
    return np.r_[come, go], np.r_[comes[come], end[go]], signs


def _by_month(condition: Expr) -> bool:
    """Whether the interval is of months, which differ in length: a row may come and go more than once."""
    return any(isinstance(node, Literal) and node.type == YEAR_MONTH for node in walk(condition))


def _flips(conditions: Sequence[Expr], changes: pa.Table) -> tuple[Micros, Micros, Micros]:
    """All times at which the conditions change for a row, by trying those at which they can."""
    names = tuple(name for name in changes.column_names if name not in (TIME, ORDER, WEIGHT))
    passes = compile_expr(conjunction(tuple(map(substitute_now, conditions))), (*names, "now"))
    times = [compile_expr(condition.arguments[0], names) for condition in conditions if isinstance(condition, Call)]
    shifts = [_months_and_micros(condition) for condition in conditions]
    found: list[tuple[int, int, int]] = []
    at = changes.column(TIME).to_pylist()
    for position, row in enumerate(rows_of_arrow(changes.select(list(names)))):
        instants = {at[position]}
        for time_of, (months, shift) in zip(times, shifts, strict=True):
            time = time_of(row)
            if isinstance(time, dt.datetime):
                instants |= set(_candidates(micros(time) - shift, months))
        holds = False
        for instant in sorted(one for one in instants if one >= at[position]):
            now_holds = passes((*row, from_micros(instant))) is True
            if now_holds != holds:
                found.append((position, instant, 1 if now_holds else -1))
            holds = now_holds
    table = np.array(found, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _months_and_micros(condition: Expr) -> tuple[int, int]:
    """What a condition adds to now()."""
    months = shift = 0
    for node in walk(condition):
        if isinstance(node, Call) and node.function in ("+", "-") and NOW in node.arguments:
            amount, sign = node.arguments[1], 1 if node.function == "+" else -1
            assert isinstance(amount, Literal), f"not a constant: {amount}"
            if isinstance(amount.value, dt.timedelta):
                shift = sign * round(amount.value.total_seconds() * 1_000_000)
            elif isinstance(amount.value, int):
                months = sign * amount.value
    return months, shift


def _candidates(instant: int, months: int) -> Iterator[int]:
    """Instants at which now() plus months may pass an instant: that time of day, or midnight, on days around."""
    if not months:
        yield from (instant, instant + 1)
        return
    whole = months * 30 * DAY_US + months * DAY_US * 4374 // 10_000  # a month has 30.4374 days on average
    around = (instant - whole) // DAY_US
    time_of_day = instant % DAY_US
    for day in range(around - 5, around + 6):
        yield from (day * DAY_US, day * DAY_US + time_of_day, day * DAY_US + time_of_day + 1)


def _due_events(events: Lookup | None, schema: pa.Schema, after: int, upto: int) -> list[pa.Table]:
    """What was to happen by now, of earlier rows: at its time, once."""
    if events is None:
        return []
    buckets = np.arange(after // BUCKET_US, upto // BUCKET_US + 1, dtype=np.int64)
    _, found = events.meet(pa.table({BUCKET: pa.array(buckets)}), [BUCKET], True)
    left = contents([found], LATEST)
    at = left.column(AT).to_numpy()
    due = left.filter(pa.array((at > after) & (at <= upto)))
    orders = pa.array(np.zeros(due.num_rows, np.int32))
    stamped = due.append_column(TIME, due.column(AT)).append_column(ORDER, orders)
    return [stamped.select(schema.names).cast(schema)]


def _as_state(events: pa.Table, stamp: int, sign: int) -> pa.Table:
    """Events as the state holds them, written at a time."""
    at = events.column(TIME).to_numpy()
    rest = events.drop_columns([TIME, ORDER, WEIGHT])
    weights = events.column(WEIGHT).to_numpy() * sign
    return (
        rest.append_column(AT, pa.array(at))
        .append_column(BUCKET, pa.array(at // BUCKET_US))
        .append_column(TIME, pa.array(np.full(len(at), stamp, np.int64)))
        .append_column(ORDER, pa.array(np.zeros(len(at), np.int32)))
        .append_column(WEIGHT, pa.array(weights))
    )


def spans(conditions: Sequence[Expr], table: pa.Table) -> tuple[Micros, Micros]:
    """Finds from when (inclusive) until when (exclusive) each row passes."""
    start = np.full(table.num_rows, EARLIEST, np.int64)
    end = np.full(table.num_rows, LATEST, np.int64)
    for condition in conditions:
        assert isinstance(condition, Call), f"not a condition on time: {condition}"
        left, right = condition.arguments
        time = column_of(left, table).cast(pa.timestamp("us", "UTC"))
        known = time.is_valid().to_numpy(zero_copy_only=False)
        instants = time.cast(pa.int64()).fill_null(0).to_numpy()
        first = _find_times(right, instants)
        match condition.function:
            case "<":  # time < now + c: from just after
                start = np.maximum(start, first + 1)
            case "<=":
                start = np.maximum(start, first)
            case ">":
                end = np.minimum(end, first)
            case ">=":
                end = np.minimum(end, first + 1)
            case _:
                start, end = np.maximum(start, first), np.minimum(end, first + 1)
        end = np.where(known, end, EARLIEST)
    return start, end


def _find_times(moving: Expr, instants: Micros) -> Micros:
    """When now() plus or minus the interval is each instant."""
    return instants - _months_and_micros(moving)[1]


def substitute_now(expr: Expr) -> Expr:
    """An expression with now() as a column."""
    return transform(expr, lambda node: Column("now", TIMESTAMP) if node == NOW else node)
