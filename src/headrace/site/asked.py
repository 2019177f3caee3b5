"""Reads which rows of a view a reader asks for, and in what order, as SQL over the view's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.meaning.scalar import Surroundings
from headrace.meaning.scalar_time import from_micros
from headrace.model.errors import EvaluationError, UsageError
from headrace.model.expr import Column, Expr
from headrace.model.relation import Field, Order, Output
from headrace.run.rows.chosen_rows import choose_rows


@dataclass(frozen=True, slots=True)
class RowsAsked:
    """What a reader asks for, as written after `--where` and `--order`."""

    where: str | None = None
    order: str | None = None


@dataclass(frozen=True, slots=True)
class RowChoice:
    """Conditions and sort keys over columns of a view, each named with `prefix` before it."""

    where: Expr | None
    order: tuple[Order, ...]
    prefix: str = ""

    def apply(self, rows: pa.Table, as_of: int) -> pa.Table:
        """Rows as of a time in microseconds, which is what `now()` means here."""
        names = rows.column_names
        inside = rows.rename_columns([self.prefix + name for name in names])
        try:
            chosen = choose_rows(inside, self.where, self.order, Surroundings(now=from_micros(as_of)))
        except EvaluationError as error:
            hint = "change the condition or the order so that it has a value for every row"
            raise UsageError(f"the condition or order cannot be computed for some row: {error}", hint) from error
        return chosen.rename_columns(names)


def read_choice(asked: RowsAsked, view: str, outputs: Sequence[Output], own: tuple[Order, ...]) -> RowChoice:
    """`own` is the order if none is asked for. Raises InputError for what is not understood."""
    # Reading SQL takes a while to import; most readers ask for all rows.
    from headrace.declare.ask import read_order, read_where

    fields = [Field(output.name, output.expr.type) for output in outputs]
    prefix = f"{view}."
    where = None if asked.where is None else read_where(asked.where, view, fields)
    if asked.order is None:
        return RowChoice(where, tuple(_with_prefix(key, prefix) for key in own), prefix)
    return RowChoice(where, read_order(asked.order, view, fields), prefix)


def _with_prefix(key: Order, prefix: str) -> Order:
    assert isinstance(key.expr, Column), "a view is sorted by columns of its result"
    return replace(key, expr=replace(key.expr, name=prefix + key.expr.name))


def read_age_s(text: str) -> float | None:
    """Seconds, of `10s` or `5 min`; None if it is no duration."""
    from headrace.declare.units import DURATION, Unreadable, read_amount

    try:
        return read_amount(text, DURATION)
    except Unreadable:
        return None
