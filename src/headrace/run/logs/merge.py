"""Which indexes to merge, and merging them: a log-structured merge tree for each key and shard.

    newest ... oldest    10k 10k | 30k 30k | 90k | 300k | 2M      three of a size become one of the next

Indexes next to each other in time are merged when together they are at least GROWTH times as large as the largest of
them. So each time a row is written it comes into an index that much larger, which bounds how often it is written by the
logarithm of the contents over what a push brings, whatever sizes pushes have. The oldest index waits only until what
came after it is as large as itself. What no such group holds is few indexes, unless sizes are unlucky; a limit sees to
that.

Merging forgets times up to `since`: no reader asks for contents before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.log import NEVER, Piece, PieceKind
from headrace.run.logs.key_index import HASH, sort_by_hash
from headrace.run.rows.changes import (
    ORDER,
    TIME,
    WEIGHT,
    Positions,
    columns_of,
    contents,
    find_alike,
    interval,
    mark_hashes,
    stamp_rows,
    totals,
)
from headrace.run.rows.hashes import find_shared

SHARD_ROWS = 2_000_000
GROWTH = 3.0
GROWTH_OF_OLDEST = 2.0
MOST_RUNS = 12
SMALL = 64 * 1024
"""Bytes; smaller files count as this size, so that tiny ones are merged early."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Indexes of one key and shard, oldest first, that become one index, or several if `shards` grew."""

    indexes: tuple[Piece, ...]
    shards: int


def shards_wanted(pieces: Sequence[Piece], key: tuple[str, ...], more_rows: int = 0) -> int:
    """How many shards new indexes of a key are cut into: a power of two that only grows."""
    indexes = [piece for piece in pieces if piece.kind is PieceKind.INDEX and piece.key == key]
    rows = sum(index.rows for index in indexes) + more_rows
    needed = 1 << max(0, -(-rows // SHARD_ROWS) - 1).bit_length()
    return max(needed, *(index.shards for index in indexes), 1)


def merges_due(pieces: Sequence[Piece]) -> tuple[Merge, ...]:
    """Finds at most one merge for each key and shard, those with the most indexes first."""
    indexes = sorted((p for p in pieces if p.kind is PieceKind.INDEX), key=lambda p: (p.key, p.shards, p.shard))
    due = [
        (len(group), merge)
        for key, of_key in itertools.groupby(indexes, key=lambda piece: piece.key)
        for group in _by_shard(list(of_key))
        if (merge := _merge_due(group, shards_wanted(indexes, key)))
    ]
    return tuple(merge for _, merge in sorted(due, key=lambda pair: -pair[0]))


def merge_all(pieces: Sequence[Piece], key: tuple[str, ...]) -> Merge | None:
    """All indexes of a key as one; None if there are none, or several shards."""
    indexes = tuple(p for p in pieces if p.kind is PieceKind.INDEX and p.key == key)
    if not indexes or shards_wanted(indexes, key) > 1:
        return None
    return Merge(tuple(sorted(indexes, key=lambda piece: (piece.after, piece.upto))), 1)


def _by_shard(indexes: list[Piece]) -> Iterator[tuple[Piece, ...]]:
    for _, group in itertools.groupby(indexes, key=lambda piece: (piece.shards, piece.shard)):
        yield tuple(sorted(group, key=lambda piece: (piece.after, piece.upto)))


def _merge_due(indexes: tuple[Piece, ...], shards: int) -> Merge | None:
    """Indexes of one shard, oldest first. If there are more shards by now, all of them are merged and cut."""
    if indexes[0].shards < shards:
        return Merge(indexes, shards)
    sizes = [max(index.bytes, SMALL) for index in indexes]
    window = _growing(sizes) or (_cheapest(sizes) if len(sizes) > MOST_RUNS else None)
    return Merge(indexes[window[0] : window[1]], shards) if window else None


def _growing(sizes: Sequence[int]) -> tuple[int, int] | None:
    """The longest window that is enough larger than its largest; of several the newest."""
    for length in range(len(sizes), 1, -1):
        for start in range(len(sizes) - length, -1, -1):
            window = sizes[start : start + length]
            if sum(window) >= (GROWTH if start else GROWTH_OF_OLDEST) * max(window):
                return start, start + length
    return None


def _cheapest(sizes: Sequence[int]) -> tuple[int, int]:
    """The window that writes least for each index that it removes."""
    windows = itertools.combinations(range(len(sizes) + 1), 2)
    return min((w for w in windows if w[1] - w[0] > 1), key=lambda w: sum(sizes[w[0] : w[1]]) / (w[1] - w[0] - 1))


def merge(indexes: Sequence[pa.Table], since: int) -> pa.Table:
    """Indexes of one key as one run. Rows up to `since` are stamped (since, 0), equal ones summed; later ones stay."""
    rows = pa.concat_tables(indexes)
    order = sort_by_hash(rows, rows.column(HASH).to_numpy())
    old = rows.column(TIME).to_numpy() <= since
    positions, weights = _choose_rows(rows, order, old)
    kept = rows.take(pa.array(positions))
    stamps = {
        TIME: np.where(old[positions], since, kept.column(TIME).to_numpy()),
        ORDER: np.where(old[positions], 0, kept.column(ORDER).to_numpy()).astype(np.int32),
        WEIGHT: weights,
    }
    for name, values in stamps.items():
        kept = kept.set_column(kept.column_names.index(name), rows.schema.field(name), pa.array(values))
    return kept


def _choose_rows(
    rows: pa.Table, order: Positions, old: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Positions, Positions]:
    """Positions, in order of the hash, of one of each class of equal old rows and of all later rows; their weights.

    Only rows that share their hash with another can be equal, which are few where the key is that of the relation. Of
    these only those are copied and compared that numbers and dates do not tell apart.
    """
    weights = rows.column(WEIGHT).to_numpy()
    places = np.flatnonzero(find_shared(rows.column(HASH).to_numpy()[order]) & old[order])
    names = [name for name in columns_of(rows) if name != HASH]
    places = places[find_alike(rows, names, order[places])]
    first, sums = totals(rows.select([*names, WEIGHT]).take(pa.array(order[places])), names)
    alone = np.delete(np.arange(len(order)), places)
    kept = np.concatenate([alone, places[first]])
    by_hash = np.argsort(kept, kind="stable")
    return order[kept[by_hash]], np.concatenate([weights[order[alone]], sums])[by_hash]


def compact(base: Sequence[pa.Table], changes: Sequence[pa.Table], since: int) -> pa.Table:
    """A new base: the contents as of `since`, stamped (since, 0).

    Of the old base only rows that may equal a change are added up with them. The others, mostly nearly all, stay as
    they are.
    """
    schema = [*base, *changes][0].schema
    base = [interval(part, NEVER, since) for part in base]
    touched = mark_hashes(pa.concat_tables([schema.empty_table(), *changes]))
    may_change = [touched.find_marked(part) for part in base]
    stays = [part.filter(pa.array(~found)) for part, found in zip(base, may_change, strict=True)]
    moves = [part.filter(pa.array(found)) for part, found in zip(base, may_change, strict=True)]
    moved = contents([schema.empty_table(), *moves, *changes], since)
    rows = pa.concat_tables([part.select(moved.column_names) for part in (*stays, moved)])
    return stamp_rows(rows, since).select(schema.names).cast(schema)
