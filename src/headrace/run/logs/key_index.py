"""Rows sorted by a key, for lookups that cost what they find.

An index is a table sorted by `__h`, the hash of its key columns, and where that is equal by `__s`, if rows have such a
column. Indexes are cut into shards by the top bits of the hash: shard s of n (a power of two) holds the hashes from s/n
to (s+1)/n of the range, so that an index of one shard is a contiguous part of what an index of all would be. A
`KeyIndex` is any number of them by one key; what it holds is their sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.run.rows.changes import ORDER, TIME, Positions
from headrace.run.rows.equal import Mask, same
from headrace.run.rows.hashes import Hasher, Hashes, hash_of

HASH, HASH_BYTES = "__h", 8
SORTED = "__s"
"""A column of some rows: bytes by which an index sorts those of one hash."""


def make_indexes(table: pa.Table, key: Sequence[str], shards: int, hasher: Hasher = hash_of) -> list[pa.Table]:
    """Rows as indexes, one for each shard, empty ones included."""
    hashes = hasher(table, key)
    order = sort_by_hash(table, hashes)
    index = table.take(pa.array(order)).append_column(HASH, pa.array(hashes[order]))
    return cut_index(index, shards)


def sort_by_hash(rows: pa.Table, hashes: Hashes) -> Positions:
    """The order of rows in an index."""
    order = np.argsort(hashes, kind="stable")
    if SORTED not in rows.column_names:
        return order
    within: Positions = pc.sort_indices(rows.column(SORTED)).to_numpy().astype(np.int64)
    return np.asarray(within[np.argsort(hashes[within], kind="stable")])


def cut_index(index: pa.Table, shards: int) -> list[pa.Table]:
    """An index as one for each of `shards` shards, empty ones included; copies nothing."""
    assert shards > 0 and shards & (shards - 1) == 0, f"not a power of two: {shards} shards"
    hashes = index.column(HASH).to_numpy()
    inner = [np.uint64((shard << 64) // shards) for shard in range(1, shards)]
    bounds = [0, *np.searchsorted(hashes, np.array(inner, dtype=np.uint64)).tolist(), index.num_rows]
    return [index.slice(start, end - start) for start, end in itertools.pairwise(bounds)]


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Indexes of one key, of any shards.

    `schema` is that of the rows without the hash; without indexes it is needed.
    """

    key: tuple[str, ...]
    indexes: tuple[pa.Table, ...]
    schema: pa.Schema | None = None
    hasher: Hasher = hash_of

    def meet(self, probe: pa.Table, probe_key: Sequence[str], null_safe: bool = False) -> tuple[Positions, pa.Table]:
        """All pairs of a row of `probe` and a row of the indexes with equal keys, in no particular order.

        They come as positions in `probe` and the rows met, one for each position, without the hash. NULL meets nothing
        unless `null_safe`, where it meets NULL. Costs log(rows) for each probe row and index, and what is found; of
        mapped files only that is read.
        """
        found = list(self._candidates(probe, probe_key, null_safe))
        positions = np.concatenate([np.zeros(0, dtype=np.int64), *(where for where, _ in found)])
        rows = pa.concat_tables([self.no_rows(), *(rows for _, rows in found)])
        keep = same_keys(probe.select(list(probe_key)).take(pa.array(positions)), rows.select(list(self.key)))
        return (positions, rows) if keep.all() else (positions[keep], rows.filter(pa.array(keep)))

    def _candidates(
        self, probe: pa.Table, probe_key: Sequence[str], null_safe: bool
    ) -> Iterator[tuple[Positions, pa.Table]]:
        """Pairs with equal hashes, for every index that has any."""
        hashes = self.hasher(probe, probe_key)
        order = np.argsort(hashes)
        if not null_safe:
            order = order[_complete(probe, probe_key)[order]]
        hashes = hashes[order]
        for batch in (batch for index in self.indexes for batch in index.to_batches() if batch.num_rows):
            where, rows = _equal_hashes(hashes, batch.column(HASH).to_numpy(zero_copy_only=True))
            if len(where):
                yield order[where], pa.Table.from_batches([batch.drop_columns([HASH]).take(pa.array(rows))])

    def no_rows(self) -> pa.Table:
        """A table of the rows' schema."""
        if self.schema is not None:
            return self.schema.empty_table()
        assert self.indexes, f"no indexes by {self.key} and no schema"
        return self.indexes[0].slice(0, 0).drop_columns([HASH])


def _equal_hashes(probe: Hashes, index: Hashes) -> tuple[Positions, Positions]:
    """All pairs of positions with equal hashes; both sides are sorted.

    Looks at log(len(index)) places for each probe.
    """
    start, end = np.searchsorted(probe, index[0]), np.searchsorted(probe, index[-1], "right")
    inside = probe[start:end]
    lows = np.searchsorted(index, inside)
    hit = np.flatnonzero(index[lows] == inside)
    lows = lows[hit]
    counts = np.searchsorted(index, inside[hit], "right") - lows
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return start + np.repeat(hit, counts), np.repeat(lows, counts) + within


def _complete(table: pa.Table, key: Sequence[str]) -> Mask:
    """Rows without a NULL in the key."""
    complete = np.ones(table.num_rows, dtype=np.bool_)
    for name in key:
        if table.column(name).null_count:
            complete &= table.column(name).is_valid().to_numpy()
    return complete


def same_keys(left: pa.Table, right: pa.Table) -> Mask:
    """Where keys are equal, NULL to NULL."""
    equal = np.ones(left.num_rows, dtype=np.bool_)
    for mine, other in zip(left.columns, right.columns, strict=True):
        equal &= same(mine, other)
    return equal


def earlier(met: pa.Table, probe: pa.Table, positions: Positions) -> npt.NDArray[np.bool_]:
    """The as-of rule: which rows met have a smaller (t, o) than the probe row at their position."""
    times, orders = probe.column(TIME).to_numpy()[positions], probe.column(ORDER).to_numpy()[positions]
    met_times, met_orders = met.column(TIME).to_numpy(), met.column(ORDER).to_numpy()
    return np.asarray((met_times < times) | ((met_times == times) & (met_orders < orders)))
