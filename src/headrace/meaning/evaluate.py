"""What a relation means: its rows, computed from the rows of its sources in plain Python.

This is the reference. Engines may compute the same by other means and are tested against it; small views on devices run
on it. Rows are tuples in Z-sets (`meaning.zset`). Operators that are linear in an input (filter, project, windows,
union, inner join, the kept side of a semi or outer join) accept any weights there; the others look at how often a row
occurs, so they need bags, and a negative weight is an error.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.meaning.evaluate_aggregate import aggregate
from headrace.meaning.evaluate_join import join, matching
from headrace.meaning.evaluate_over import over
from headrace.meaning.evaluate_rank import top_k
from headrace.meaning.evaluate_sessions import find_sessions
from headrace.meaning.row_functions import bag, names_of, predicate_of, row_of, say_failure, value_of
from headrace.meaning.scalar import Surroundings
from headrace.meaning.scalar_time import from_micros, micros
from headrace.meaning.zset import ZSet, apply
from headrace.model.bad_row import BadRow
from headrace.model.errors import EvaluationError
from headrace.model.expr import Expr
from headrace.model.relation import (
    BEGINNING,
    Aggregate,
    Distinct,
    Filter,
    Join,
    Matching,
    Negate,
    Over,
    Projection,
    Relation,
    Scan,
    Sessions,
    Stamped,
    TopK,
    Unfold,
    UnionAll,
    Version,
    Windows,
    inputs_of,
)
from headrace.model.types import Row, Value

Tables = Mapping[str, ZSet]
"""Rows of each source; their fields are the source's columns in order."""

Python = Mapping[str, Callable[..., Value]]
"""Functions declared in Python, by `NAME@VERSION`."""


def evaluate(relation: Relation, tables: Tables, now: dt.datetime | None = None, python: Python | None = None) -> ZSet:
    """The rows of a query over tables as they are now. `now` is needed only where the query reads the time."""
    around = Surroundings(now=now, python=python or {})
    return _Evaluation({Version.NOW: tables}, around).rows(relation)


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: the tables before it, what it changes, and the instants of the answer before and after it."""

    before: Tables
    changes: Tables
    now_before: dt.datetime | None = None
    now: dt.datetime | None = None


def evaluate_change(change: Relation, step: Batch, python: Python | None = None) -> ZSet:
    """The rows of a relation that `meaning.deltas` made, which reads tables before, after and across a step."""
    tables = {Version.BEFORE: step.before, Version.CHANGE: step.changes, Version.NOW: apply(step.before, step.changes)}
    around = Surroundings(now=step.now, before=step.now_before, python=python or {})
    return _Evaluation(tables, around).rows(change)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """One evaluation. A relation that occurs twice as the same object, as changes do in deltas, is computed once."""

    tables: Mapping[Version, Tables]
    around: Surroundings
    known: dict[int, ZSet] = field(default_factory=dict)

    def rows(self, relation: Relation) -> ZSet:
        if id(relation) not in self.known:
            self.known[id(relation)] = self._compute(relation)
        return self.known[id(relation)]

    def _compute(self, relation: Relation) -> ZSet:
        if isinstance(relation, Scan):
            return self._scan(relation)
        inputs = tuple(map(self.rows, inputs_of(relation)))
        try:
            return ZSet(_weigh_rows(relation, inputs, self.around))
        except EvaluationError as error:
            error.bad_row = error.bad_row or _find_bad_row(relation, inputs, self.around)
            raise

    def _scan(self, scan: Scan) -> ZSet:
        tables = self.tables.get(scan.version, {})
        assert scan.source in tables, f'source "{scan.source}" has no rows of version "{scan.version}"'
        return tables[scan.source]


def _weigh_rows(relation: Relation, inputs: tuple[ZSet, ...], around: Surroundings) -> Iterator[tuple[Row, int]]:
    """Rows of an operator with weights; equal rows may occur several times."""
    match relation:
        case Filter():
            return _filter(relation, inputs[0], around)
        case Projection():
            return _project(relation, inputs[0], around)
        case Join():
            return join(relation, inputs[0], inputs[1], around)
        case UnionAll():
            return (item for input_ in inputs for item in input_.items())
        case Distinct():
            return ((row, 1) for row, _ in bag(inputs[0], relation))
        case Aggregate():
            return aggregate(relation, inputs[0], around)
        case Windows() | Unfold() | Stamped():
            return _repeat(relation, inputs[0], around)
        case Sessions():
            return find_sessions(relation, inputs[0], around)
        case TopK():
            return top_k(relation, inputs[0], around)
        case Over():
            return over(relation, inputs[0], around)
        case Negate():
            return ((row, -weight) for row, weight in inputs[0].items())
        case Matching():
            return matching(relation, inputs[0], inputs[1], around)
        case Scan():
            raise AssertionError("a scan has no inputs")


def _find_bad_row(relation: Relation, inputs: tuple[ZSet, ...], around: Surroundings) -> BadRow | None:
    """The first row that an expression of a filter or projection fails for: looked for only once something failed."""
    match relation:
        case Filter(input_, predicate):
            exprs: tuple[Expr, ...] = (predicate,)
        case Projection(input_, outputs):
            exprs = tuple(output.expr for output in outputs)
        case _:
            return None
    names = names_of(input_)
    values = [(expr, value_of(expr, names, around)) for expr in exprs]
    for row, _ in inputs[0].items():
        for expr, value in values:
            try:
                value(row)
            except EvaluationError as error:
                return say_failure(error, expr, dict(zip(names, row, strict=True)), around)
    return None


def _filter(relation: Filter, input_: ZSet, around: Surroundings) -> Iterator[tuple[Row, int]]:
    holds = predicate_of(relation.predicate, names_of(relation.input), around)
    return ((row, weight) for row, weight in input_.items() if holds(row))


def _project(relation: Projection, input_: ZSet, around: Surroundings) -> Iterator[tuple[Row, int]]:
    make = row_of(tuple(output.expr for output in relation.outputs), names_of(relation.input), around)
    return ((make(row), weight) for row, weight in input_.items())


def _repeat(relation: Windows | Unfold | Stamped, input_: ZSet, around: Surroundings) -> Iterator[tuple[Row, int]]:
    match relation:
        case Windows():
            return _windows(relation, input_, around)
        case Unfold():
            return _unfold(relation, input_)
        case Stamped():
            return _stamp(relation, input_, around)


def _windows(relation: Windows, input_: ZSet, around: Surroundings) -> Iterator[tuple[Row, int]]:
    time_of = value_of(relation.time, names_of(relation.input), around)
    for row, weight in input_.items():
        time = time_of(row)
        if time is not None:
            assert isinstance(time, dt.datetime), f"a window of {time!r}"
            for start, end in windows_holding(time, relation):
                yield (*row, start, end), weight


def _unfold(relation: Unfold, input_: ZSet) -> Iterator[tuple[Row, int]]:
    names = names_of(relation.input)
    positions = {names.index(name) for name in relation.columns}
    for row, weight in input_.items():
        arrays: dict[int, Any] = {position: row[position] or () for position in positions}
        longest = max(map(len, arrays.values()))
        for place in range(longest):
            made = tuple(
                _element(arrays[position], place) if position in arrays else value for position, value in enumerate(row)
            )
            yield (made if relation.place is None else (*made, place + 1)), weight
        if relation.outer and longest == 0:
            made = tuple(None if position in arrays else value for position, value in enumerate(row))
            yield (made if relation.place is None else (*made, None)), weight


def _stamp(relation: Stamped, input_: ZSet, around: Surroundings) -> Iterator[tuple[Row, int]]:
    """Changes of a table that was never looked at before: all of its rows."""
    time = BEGINNING if relation.from_beginning else around.now
    return (((*row, time), weight) for row, weight in input_.items())


def _element(array: tuple[Value, ...], place: int) -> Value:
    return array[place] if place < len(array) else None


def windows_holding(time: dt.datetime, windows: Windows) -> Iterator[tuple[dt.datetime, dt.datetime]]:
    """Start and end of every window that holds an instant, latest first."""
    instant, size, slide = micros(time), windows.size_ms * 1000, windows.slide_ms * 1000
    start = instant - (instant - windows.offset_ms * 1000) % slide
    while start + size > instant:
        yield from_micros(start), from_micros(start + size)
        start -= slide
