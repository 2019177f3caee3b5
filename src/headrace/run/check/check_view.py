"""Compares a view with its query over the rows that we hold of its sources, both at one time, a part at a time.

The query is evaluated by the reference (`meaning.evaluate`), from contents alone: no index, no state of an operator
and no earlier result is used. What logs hold at a time does not change any more, so a difference is a fault of ours,
however much is written meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.meaning.python_functions import Functions
from headrace.model.log import Log
from headrace.model.relation import Field, Output, Relation, fields_of, scans_of
from headrace.run.check.read_log import is_known_at, read_contents_at, repeat_by_weight
from headrace.run.check.view_parts import ViewDivision, count_parts, divide_view
from headrace.run.ports import Store
from headrace.run.push.evaluate_here import rows_here
from headrace.run.rows.arrow import arrow_table
from headrace.run.rows.compare import RowDifference, add_weights, compare
from headrace.run.rows.hashes import hash_of
from headrace.run.views.view import parts_at

ROWS_AT_ONCE = 20_000
"""Rows of sources that a part reads, about: a few tenths of a second of one core."""


@dataclass(frozen=True, slots=True)
class HeldLog:
    """A log as one look at the ledger found it, and its columns."""

    log: Log
    columns: tuple[Field, ...]


@dataclass(slots=True)
class CheckedView:
    """A view at one time. `bytes` counts what was read."""

    query: Relation
    outputs: tuple[Output, ...]
    view: HeldLog
    sources: Mapping[str, HeldLog]
    functions: Functions
    store: Store
    rows_at_once: int = ROWS_AT_ONCE
    given: dict[str, pa.Table] = field(default_factory=dict)
    """Rows of sources that another site holds, as of the view's time."""
    bytes: int = field(default=0, init=False)

    @property
    def t(self) -> int:
        """The latest time that all of it has reached."""
        return min(held.log.t for held in (self.view, *self.sources.values()))

    @property
    def is_known(self) -> bool:
        """Whether the logs say what was at that time. A view in full is known at the times of its pushes."""
        base_t = self.view.log.base_t
        known = all(is_known_at(held.log, self.t) for held in self.sources.values())
        return known and self.t == self.view.log.t and (base_t is None or base_t <= self.t)

    @property
    def rows(self) -> dict[str, int]:
        """How many rows sources have, at most."""
        held = {source: sum(piece.rows for piece in one.log.contents) for source, one in self.sources.items()}
        return {**held, **{source: rows.num_rows for source, rows in self.given.items()}}

    @property
    def division(self) -> ViewDivision | None:
        return divide_view(self.query, self.rows)

    @property
    def parts(self) -> int | None:
        """How many parts it is compared in; None if it is too large for this."""
        return count_parts(self.rows, self.division, self.rows_at_once)

    def add_given(self, source: str, rows: pa.Table) -> None:
        """Takes the rows of a source that another site holds, as of the view's time."""
        self.given[source] = rows

    def compare_part(self, number: int, count: int) -> RowDifference:
        """Raises EvaluationError if the query has no answer, ConnectError if a file is gone meanwhile."""
        division = None if count == 1 else self.division
        expected = self._evaluate(division, number, count)
        actual = [self._choose_rows(part, division, number, count) for part in self._view_parts()]
        self.bytes += sum(part.nbytes for part in actual)
        return compare(lambda: [expected], lambda: actual)

    def _evaluate(self, division: ViewDivision | None, number: int, count: int) -> pa.Table:
        divided = {} if division is None else division.by_source
        tables = {
            source: self._read_source(source, divided.get(source), number, count)
            for source in {scan.source for scan in scans_of(self.query)}
        }
        types = {f"c{position}": one.type for position, one in enumerate(fields_of(self.query))}
        rows = list(rows_here(self.query, tables, self.t, self.functions))
        return self._choose_rows(add_weights(arrow_table(types, rows)), division, number, count)

    def _read_source(self, source: str, column: str | None, number: int, count: int) -> pa.Table:
        def choose(table: pa.Table) -> pa.Table:
            chosen = table if column is None else _choose(table, f"{source}.{column}", number, count)
            self.bytes += chosen.nbytes + (0 if column is None else table.column(f"{source}.{column}").nbytes)
            return chosen

        if source in self.given:
            return choose(self.given[source])
        held = self.sources[source]
        return repeat_by_weight(read_contents_at(self.store, held.log, held.columns, self.t, choose))

    def _view_parts(self) -> Iterator[pa.Table]:
        log, columns = self.view.log, self.view.columns
        for part in parts_at(self.store, log, columns, self.outputs, self.t, self.functions):
            names = [f"c{position}" for position in range(len(self.outputs))]
            yield part.rename_columns([*names, part.column_names[-1]])

    def _choose_rows(self, table: pa.Table, division: ViewDivision | None, number: int, count: int) -> pa.Table:
        return table if division is None else _choose(table, f"c{division.column}", number, count)


def _choose(table: pa.Table, column: str, number: int, count: int) -> pa.Table:
    """Rows of one part: their value has a hash that says so."""
    chosen = hash_of(table, [column]) % np.uint64(count) == np.uint64(number)
    return table.filter(pa.array(chosen))
