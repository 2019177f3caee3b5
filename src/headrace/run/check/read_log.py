"""Reads what a log holds at a time, also at times before its base: changes since then are taken back.

Everything that is read comes from pieces that one look at the ledger has named, so it is of one instant, whoever pushes
or compacts meanwhile. A file may be gone by then: reading raises ConnectError, and the check is done another time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from headrace.model.log import NEVER, Log, Piece, PieceKind
from headrace.model.relation import Field
from headrace.run.operators.reading import schema_of
from headrace.run.ports import Store
from headrace.run.rows.changes import WEIGHT, Positions, contents, interval
from headrace.run.rows.hashes import Hashes

Choose = Callable[[pa.Table], pa.Table]
"""Leaves out rows that nobody asks for, of any part of a log."""

FOREVER = 2**62


def is_known_at(log: Log, t: int) -> bool:
    """Whether a log says what it held at a time."""
    return t <= log.t and (log.base_t is None or log.base_t <= t or log.start <= t)


def read_contents_at(
    store: Store, log: Log, columns: Sequence[Field], t: int, choose: Choose = lambda table: table
) -> pa.Table:
    """The rows of a log at a time at which it is known: columns and `__w`, each row once."""
    schema = schema_of(columns)

    def read(pieces: Sequence[Piece]) -> list[pa.Table]:
        return [choose(store.read(log.site, piece.stored, schema.names)) for piece in pieces]

    base_t = NEVER if log.base_t is None else log.base_t
    tables = [choose(schema.empty_table()), *read(log.of_kind(PieceKind.BASE))]
    if base_t <= t:
        later = [piece for piece in log.contents if piece.kind is PieceKind.CHANGE]
        tables += [interval(table, NEVER, t) for table in read(later)]
    else:
        tables += [_negate(interval(table, t, base_t)) for table in read(log.changes(t, base_t))]
    return contents(tables, FOREVER)


def _negate(changes: pa.Table) -> pa.Table:
    weights = -changes.column(WEIGHT).to_numpy()
    return changes.set_column(changes.column_names.index(WEIGHT), WEIGHT, pa.array(weights))


def repeat_by_weight(rows: pa.Table) -> pa.Table:
    """Each row as often as its weight says, without the weight; negative weights count as none."""
    times = np.maximum(rows.column(WEIGHT).to_numpy(), 0)
    rest = rows.drop_columns([WEIGHT])
    return rest if (times == 1).all() else rest.take(pa.array(np.repeat(np.arange(rows.num_rows), times)))


def in_window(hashes: Hashes, number: int, count: int) -> Positions:
    """Positions of hashes in one of `count` equal stretches of the range of all hashes."""
    first, end = (number << 64) // count, ((number + 1) << 64) // count
    inside = hashes >= np.uint64(first)
    return np.flatnonzero(inside if end == 1 << 64 else inside & (hashes < np.uint64(end)))
