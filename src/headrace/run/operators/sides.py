"""What a derivation looks at: for every key that changes, the rows of its inputs before, and their changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.expr import Expr
from headrace.run.operators.expressions import column_of
from headrace.run.operators.lookup import Integers, Lookup
from headrace.run.operators.numbering import number_rows
from headrace.run.rows.changes import ORDER, TIME, WEIGHT, consolidate, stamp_rows

GROUP = "__g"
"""The position of a row's key among those sought."""


@dataclass(frozen=True, slots=True)
class Side:
    """Rows of one input: those before all changes, added up and stamped `after`, then the changes.

    `group` is the number of each row's key among those touched.
    """

    rows: pa.Table
    group: Integers
    time: Integers
    weight: Integers
    after: int

    @property
    def is_new(self) -> npt.NDArray[np.bool_]:
        return self.time > self.after


@dataclass(frozen=True, slots=True)
class TouchedKeys:
    """The keys that changes have, one row each, and every input's rows with them. Columns are numbered."""

    keys: pa.Table
    names: tuple[str, ...]
    sides: tuple[Side, ...]


def find_touched_keys(
    keys: tuple[tuple[Expr, ...], ...],
    changes: tuple[pa.Table, ...],
    contents: Sequence[Lookup],
    after: int,
    around: Surroundings = NOTHING,
) -> TouchedKeys:
    """`contents` may hold later rows, too: only those up to `after` are looked at."""
    columns = [
        [column_of(expr, table, around) for expr, table in zip(exprs, changes, strict=True)]
        for exprs in zip(*keys, strict=True)
    ]
    names = tuple(map(str, range(len(columns))))
    sizes = [table.num_rows for table in changes]
    rows = pa.table(
        {
            **{name: pa.chunked_array(parts) for name, parts in zip(names, columns, strict=True)},
            "": np.arange(sum(sizes)),
        }
    )
    groups = number_rows((rows.column(name) for name in names), sum(sizes))
    found = rows.take(pa.array(groups.first_rows))
    numbers = np.split(groups.of_row, np.cumsum(sizes)[:-1])
    sides = (
        _side(table, number, found, names, lookup, after)
        for table, number, lookup in zip(changes, numbers, contents, strict=True)
    )
    return TouchedKeys(found, names, tuple(sides))


def _side(
    changes: pa.Table, numbers: Integers, keys: pa.Table, names: tuple[str, ...], contents: Lookup, after: int
) -> Side:
    before = read_rows_before(keys, names, contents, changes.column_names, after)
    rows = pa.concat_tables([before.select(changes.column_names).cast(changes.schema), changes])
    group = np.concatenate((before.column(GROUP).to_numpy(), numbers))
    return Side(
        rows.drop_columns([TIME, ORDER, WEIGHT]),
        group,
        rows.column(TIME).to_numpy(),
        rows.column(WEIGHT).to_numpy(),
        after,
    )


def read_rows_before(
    keys: pa.Table, names: Sequence[str], contents: Lookup, columns: Sequence[str], after: int
) -> pa.Table:
    """Rows with some keys before all changes, added up and stamped `after`; `GROUP` says which key each has."""
    positions, met = contents.meet(keys, names, True)
    before = met.select(list(columns)).append_column(GROUP, pa.array(positions))
    return consolidate(stamp_rows(before.filter(pc.less_equal(before.column(TIME), after)), after))


def make_changes(columns: Mapping[str, pa.Array], time: Integers, weight: Integers) -> pa.Table:
    """Changes made of columns; a derivation's have the order 0."""
    order = pa.array(np.zeros(len(time), np.int32))
    return pa.table({**columns, TIME: pa.array(time), ORDER: order, WEIGHT: pa.array(weight)})
