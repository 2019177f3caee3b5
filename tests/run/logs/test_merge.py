"""Merged indexes answer lookups as before, and merging is seldom and keeps indexes few."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.meaning.zset import ZSet, normal_row
from headrace.model.log import NEVER, Piece, PieceKind
from headrace.run.logs.key_index import HASH, KeyIndex, earlier, make_indexes
from headrace.run.logs.merge import MOST_RUNS, Merge, merge, merges_due, shards_wanted
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.changes import ORDER, TIME, WEIGHT
from headrace.run.rows.hashes import hash_of
from tests.run.stamped_rows import Change, as_table, changes, column_types, names, rows, weak_hash, weight

MILLION = 1_000_000


@given(st.data())
def test_lookups_after_since_find_the_same_before_and_after_any_merges(data: st.DataObject):
    types = data.draw(column_types)
    key = names(types)[: data.draw(st.integers(0, len(types)))]
    hasher, null_safe = data.draw(st.sampled_from([hash_of, weak_hash])), data.draw(st.booleans())
    pushes = [data.draw(changes(types)) for _ in range(data.draw(st.integers(1, 4)))]
    indexes = [make_indexes(as_table(types, push), key, 1, hasher)[0] for push in pushes]
    probes: list[Change] = [(row, 0, 0, 1) for row in data.draw(st.lists(rows(types), max_size=4, unique_by=repr))]
    since = 0
    for _ in range(data.draw(st.integers(0, 3))):
        since = data.draw(st.integers(since, 9))
        start = data.draw(st.integers(0, len(indexes) - 1))
        end = data.draw(st.integers(start + 1, len(indexes)))
        indexes[start:end] = [merge(indexes[start:end], since)]
        assert all(np.all(np.diff(index.column(HASH).to_numpy().astype(object)) >= 0) for index in indexes)
    t, o = data.draw(st.integers(since + 1, 10)), data.draw(st.integers(0, 2))
    probe = as_table(types, [(row, t, o, 1) for row, _, _, _ in probes])
    positions, met = KeyIndex(tuple(key), tuple(indexes), hasher=hasher).meet(probe, key, null_safe)
    met, positions = met.filter(pa.array(mask := earlier(met, probe, positions))), positions[mask]
    asked = [normal_row(row) for row, _, _, _ in probes]
    found = ZSet(((asked[at], row[:-3]), weight(row)) for at, row in zip(positions, rows_of_arrow(met), strict=True))
    assert found == ZSet(
        ((mine, normal_row(row)), w)
        for mine in asked
        for push in pushes
        for row, row_t, row_o, w in push
        if mine[: len(key)] == normal_row(row)[: len(key)]
        and (null_safe or None not in mine[: len(key)])
        and (row_t, row_o) < (t, o)
    )


@given(st.data())
def test_a_merge_sums_what_is_old_and_keeps_what_is_later(data: st.DataObject):
    types = data.draw(column_types)
    pushes, since = [data.draw(changes(types)) for _ in range(2)], data.draw(st.integers(0, 10))
    indexes = [make_indexes(as_table(types, push), names(types)[:1], 1, weak_hash)[0] for push in pushes]
    merged = merge(indexes, since)
    assert merged.schema == indexes[0].schema
    expected = Counter((*normal_row(row), t, o, w) for push in pushes for row, t, o, w in push if t > since)
    old = ZSet((normal_row(row), w) for push in pushes for row, t, _, w in push if t <= since)
    expected.update((*row, since, 0, w) for row, w in old.items())
    assert Counter(rows_of_arrow(merged.drop_columns([HASH]))) == expected
    assert merged.column_names[-4:] == [TIME, ORDER, WEIGHT, HASH]


@dataclass(slots=True)
class Tree:
    """Indexes of one key as sizes only: pushes add, merges that are due replace."""

    row_bytes: int = 70
    pieces: list[Piece] = field(default_factory=list)
    written: int = 0
    named: int = 0

    def push(self, rows: int, t: int) -> None:
        shards = shards_wanted(self.pieces, ("k",), rows)
        self.add(rows // shards, shards, range(shards), NEVER if t == 0 else t - 1, t)

    def add(self, rows: int, shards: int, of: range, after: int, upto: int) -> None:
        self.written += rows * len(of)
        for shard in of:
            self.named += 1
            size = rows * self.row_bytes
            self.pieces.append(Piece(PieceKind.INDEX, str(self.named), after, upto, rows, size, ("k",), shard, shards))

    def settle(self) -> None:
        while due := merges_due(self.pieces):
            self.perform(due[0])

    def perform(self, due: Merge) -> None:
        self.pieces = [piece for piece in self.pieces if piece not in due.indexes]
        first, last = due.indexes[0], due.indexes[-1]
        parts = due.shards // first.shards
        rows = sum(index.rows for index in due.indexes) // parts
        shards = range(first.shard * parts, (first.shard + 1) * parts)
        self.add(rows, due.shards, shards, first.after, last.upto)

    def runs_of_a_shard(self) -> int:
        return max(Counter(piece.shard for piece in self.pieces).values())


def test_a_steady_stream_into_a_large_relation_is_written_less_than_eight_times():
    tree = Tree()
    tree.push(7 * MILLION, 0)
    tree.written = 0
    for t in range(1, 701):
        tree.push(10_000, t)
        tree.settle()
        assert tree.runs_of_a_shard() <= MOST_RUNS
    assert tree.written < 8 * 700 * 10_000


@given(st.lists(st.sampled_from([1, 100, 10_000, 300_000, 5 * MILLION]), min_size=1, max_size=60))
def test_whatever_sizes_pushes_have_runs_stay_few_and_tile_time(sizes: list[int]):
    tree = Tree()
    for t, size in enumerate(sizes):
        tree.push(size, t)
        tree.settle()
        assert tree.runs_of_a_shard() <= MOST_RUNS
    assert len({piece.shards for piece in tree.pieces}) == 1
    for shard in {piece.shard for piece in tree.pieces}:
        indexes = sorted((p for p in tree.pieces if p.shard == shard), key=lambda piece: piece.after)
        assert [index.after for index in indexes] == [NEVER, *(index.upto for index in indexes[:-1])]


def test_runs_of_a_shard_that_grew_are_cut_into_more():
    tree = Tree()
    tree.push(2 * MILLION, 0)
    assert shards_wanted(tree.pieces, ("k",)) == 1
    tree.push(1, 1)
    assert merges_due(tree.pieces) == (Merge(tuple(tree.pieces[:1]), 2),)
    assert shards_wanted(tree.pieces, ("k",)) == 2


def test_keys_are_merged_apart_and_other_pieces_never():
    index = Piece(PieceKind.INDEX, "a", 0, 1, 10, 100, ("k",))
    others = [replace(index, file=f"b{n}", key=(f"k{n}",)) for n in range(5)]
    changes_too = [replace(index, file=f"c{n}", kind=PieceKind.CHANGE, after=n, upto=n + 1) for n in range(5)]
    assert merges_due([index, *others, *changes_too]) == ()
    newer = replace(index, file="d", after=1, upto=2)
    assert merges_due([newer, *others, index]) == (Merge((index, newer), 1),)
