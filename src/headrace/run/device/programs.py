"""Programs of a device: relations that came in a document, made ready to follow changes of their sources.

A program is read within limits of size and depth, so that no document can stop a device. It runs as compiled joins
(`run.device.joins`) where it is joins, filters and projections, else on the evaluator of `meaning`; both give the same.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Protocol

from headrace.meaning.deltas import delta, reads_time
from headrace.meaning.evaluate import Batch, Python, evaluate, evaluate_change
from headrace.meaning.functions import PYTHON_PREFIX, is_allowed
from headrace.meaning.scalar import Surroundings
from headrace.meaning.zset import ZSet
from headrace.model.errors import WireError
from headrace.model.expr import Call, Expr
from headrace.model.relation import Matching, Negate, Relation, Scan, Version, inputs_of, scans_of
from headrace.model.rewrite import expressions_of
from headrace.model.types import Row
from headrace.model.wire import read_wire
from headrace.run.device.joins import JoinedRows, Weighted, flatten

PAIRS = "pairs"
"""The source that says which pairs a program runs for."""

LARGEST_PROGRAM = 200_000
"""Characters of its text."""
DEEPEST = 60
"""Operators inside each other, and calls inside each other."""
MOST_NODES = 3_000

Rows = Mapping[Row, int]


def read_program(text: str, functions: Python) -> Relation:
    """The relation that a text holds, if this device can run it; raises WireError if not."""
    if len(text) > LARGEST_PROGRAM:
        raise WireError(f"a program of {len(text):,} characters; {LARGEST_PROGRAM:,} are read")
    relation: Relation = read_wire(text, Relation)  # type: ignore[arg-type]  # a union is what isinstance takes
    nodes = _measure([relation])
    for node in nodes:
        if isinstance(node, Negate | Matching) or (isinstance(node, Scan) and node.version is not Version.NOW):
            raise WireError(f"{type(node).__name__} is part of changes, not of programs")
        for expr in expressions_of(node):
            _check_calls(expr, functions)
    if PAIRS not in {scan.source for scan in scans_of(relation)}:
        raise WireError(f'it does not read "{PAIRS}"')
    return relation


def _measure(level: list[Relation]) -> list[Relation]:
    """All operators, found level by level: a relation that is too deep must not be recursed into."""
    found, depth = list(level), 0
    while level:
        level = [input_ for node in level for input_ in inputs_of(node)]
        found += level
        depth += 1
        if depth > DEEPEST or len(found) > MOST_NODES:
            raise WireError(f"it is deeper than {DEEPEST} operators, or has more than {MOST_NODES}")
    return found


def _check_calls(expr: Expr, functions: Python) -> None:
    level, count, depth = [expr], 1, 0
    while level:
        for node in level:
            if isinstance(node, Call):
                _check_function(node.function, functions)
        level = [inside for node in level if isinstance(node, Call) for inside in node.arguments]
        count, depth = count + len(level), depth + 1
        if depth > DEEPEST or count > MOST_NODES:
            raise WireError(f"an expression is deeper than {DEEPEST} calls, or has more than {MOST_NODES}")


def _check_function(name: str, functions: Python) -> None:
    if not is_allowed(name):
        raise WireError(f'there is no function "{name}"')
    if name.startswith(PYTHON_PREFIX) and name.removeprefix(PYTHON_PREFIX) not in functions:
        raise WireError(f"this device does not have the function {name.removeprefix(PYTHON_PREFIX)}")


class RunningProgram(Protocol):
    """Follows the changes of its sources. What it returns are changes of its answer; equal rows may occur twice."""

    @property
    def reads_time(self) -> bool: ...

    def change(self, source: str, changes: Iterable[Weighted], now: dt.datetime) -> Iterable[Weighted]: ...

    def advance(self, now: dt.datetime) -> Iterable[Weighted]:
        """What the passing of time alone changes."""


def start_program(
    relation: Relation, tables: Mapping[str, Rows], now: dt.datetime, functions: Python
) -> tuple[RunningProgram, Iterable[Weighted]]:
    """A program over tables as they are, and its answer."""
    flat = flatten(relation, frozenset({PAIRS}))
    if flat is None or not JoinedRows.can_run(flat):
        evaluated = Evaluated(relation, tables, now, functions)
        return evaluated, evaluated.answer()
    joined, found = JoinedRows(flat, Surroundings(python=functions)), list[Weighted]()
    for source in sorted(tables):
        found += joined.change(source, tables[source].items(), now)
    return joined, found


class Evaluated:
    """A program on the evaluator: what a change costs grows with the size of the tables."""

    def __init__(self, relation: Relation, tables: Mapping[str, Rows], now: dt.datetime, functions: Python) -> None:
        self._relation, self._functions, self._now = relation, functions, now
        self._tables = {source: ZSet(rows.items()) for source, rows in tables.items()}
        sources = frozenset(scan.source for scan in scans_of(relation))
        self._deltas = {source: delta(relation, sources - {source}) for source in sources}
        self._in_time = delta(relation, sources) if _reads_time(relation) else None

    @property
    def reads_time(self) -> bool:
        return self._in_time is not None

    def answer(self) -> Iterable[Weighted]:
        return evaluate(self._relation, self._tables, self._now, self._functions).items()

    def change(self, source: str, changes: Iterable[Weighted], now: dt.datetime) -> Iterable[Weighted]:
        change = ZSet(changes)
        derived = self._deltas.get(source)
        found = self._step(derived, {source: change}, now) if derived is not None else ()
        self._tables[source] = self._tables[source] + change
        return found

    def advance(self, now: dt.datetime) -> Iterable[Weighted]:
        return () if self._in_time is None else self._step(self._in_time, {}, now)

    def _step(self, derived: Relation, changes: Mapping[str, ZSet], now: dt.datetime) -> Iterable[Weighted]:
        found = evaluate_change(derived, Batch(self._tables, changes, self._now, now), self._functions)
        self._now = now
        return found.items()


def _reads_time(relation: Relation) -> bool:
    return reads_time(relation) or any(map(_reads_time, inputs_of(relation)))
