"""Reads what we hold of a source, for a check: rows by key from its index, and from the files that it is made of.

Joins look rows up in the index of a source, and new views are loaded from its contents. Both say the same, so a check
compares them with each other as well as with the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.log import Log
from headrace.model.relation import Field
from headrace.model.types import Row
from headrace.run.capture.spool import spool_log
from headrace.run.check.judge_rows import RowChange
from headrace.run.check.read_log import Choose, in_window, read_contents_at
from headrace.run.logs.key_index import HASH, KeyIndex
from headrace.run.operators.reading import schema_of
from headrace.run.ports import Store
from headrace.run.program import Ingest, Program
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.changes import TIME, WEIGHT, contents, interval, totals, with_weights
from headrace.run.rows.compare import add_weights
from headrace.run.rows.hashes import hash_of


@dataclass(frozen=True, slots=True)
class HeldSource:
    """A source's log as one look at the ledger found it. `key` are columns of the log; without one, all are."""

    store: Store
    log: Log
    columns: tuple[Field, ...]
    key: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def identity(self) -> list[str]:
        """The columns that tell rows apart."""
        return list(self.key) or self.names

    @property
    def rows(self) -> int:
        """How many rows there are, at most."""
        return sum(piece.rows for piece in self.log.contents)

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.log.contents)

    # By key

    def look_up(self, keys: pa.Table) -> pa.Table:
        """The rows of some keys, as the index has them: columns and `__w`."""
        index = KeyIndex(self.key, tuple(self._index_tables()), schema_of(self.columns))
        _, rows = index.meet(keys, self.identity, null_safe=True)
        return self._sum(rows)

    def read_index(self, number: int, count: int) -> pa.Table:
        """The rows of one of `count` stretches of the index."""
        found = [
            table.take(pa.array(in_window(table.column(HASH).to_numpy(), number, count)))
            for table in self._index_tables()
        ]
        return self._sum(pa.concat_tables([schema_of(self.columns).empty_table(), *self._without_hash(found)]))

    def _index_tables(self) -> Iterator[pa.Table]:
        return (self.store.read(self.log.site, piece.stored, whole=False) for piece in self.log.indexes(self.key))

    def _without_hash(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        return [table.select(schema_of(self.columns).names) for table in tables]

    def _sum(self, rows: pa.Table) -> pa.Table:
        return contents([rows.select(schema_of(self.columns).names)], self.log.t)

    # From contents

    def read_contents(self, number: int = 0, count: int = 1) -> pa.Table:
        """The rows whose keys lie in one of `count` stretches: columns and `__w`."""

        def choose(table: pa.Table) -> pa.Table:
            return table.take(pa.array(in_window(hash_of(table, self.identity), number, count)))

        whole = count == 1
        return read_contents_at(
            self.store, self.log, self.columns, self.log.t, (lambda table: table) if whole else choose
        )

    def read_keys(self, keys: pa.Table) -> list[tuple[Row, int]]:
        """The rows of some keys and how often each occurs; and perhaps others whose keys have the same hash."""
        rows = read_contents_at(self.store, self.log, self.columns, self.log.t, self._chooser(keys))
        return list(zip(rows_of_arrow(rows.select(self.names)), rows.column(WEIGHT).to_pylist(), strict=True))

    def read_history(self, keys: pa.Table, after: int) -> list[RowChange]:
        """What came and went of some keys after a time, as far as changes are kept."""
        choose, found, after = self._chooser(keys), list[RowChange](), max(after, self.log.start)
        for piece in self.log.changes(after, self.log.t):
            table = self.store.read(self.log.site, piece.stored, schema_of(self.columns).names)
            rows = choose(interval(table, after, self.log.t))
            stamps = (
                rows.column(TIME).to_pylist(),
                rows_of_arrow(rows.select(self.names)),
                rows.column(WEIGHT).to_pylist(),
            )
            found += zip(*stamps, strict=True)
        return found

    def _chooser(self, keys: pa.Table) -> Choose:
        wanted = np.unique(hash_of(keys, self.identity))
        return lambda table: table.filter(pa.array(np.isin(hash_of(table, self.identity), wanted)))


def find_differing_keys(theirs: pa.Table, ours: pa.Table, identity: Sequence[str]) -> pa.Table:
    """The keys whose rows are not the same on both sides, each once. Both have columns and `__w`."""
    names = [name for name in ours.column_names if name != WEIGHT]
    theirs = theirs.select([*names, WEIGHT]).cast(ours.schema)
    negative = with_weights(ours, -ours.column(WEIGHT).to_numpy())
    both = pa.concat_tables([theirs, negative])
    positions, _ = totals(both, names)
    keys = add_weights(both.take(pa.array(positions)).select(list(identity)))
    first, _ = totals(keys, list(identity))
    return keys.take(pa.array(first)).select(list(identity))


def find_base(program: Program, source: str) -> str:
    """The log that holds the rows of a source."""
    tasks, spool = program.tasks.items(), spool_log(source)
    return next(name for name, task in tasks if isinstance(task.step, Ingest) and task.step.spool == spool)


def count_windows(rows: int, at_once: int) -> int:
    """How many stretches of the range of hashes hold about `at_once` rows each."""
    return max(1, -(-rows // at_once))
