"""Upkeep as work items: merges indexes, writes bases from changes, rebuilds indexes. None of this changes a log's
content.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from headrace.meaning.python_functions import Functions, surroundings_of
from headrace.model.log import NEVER, Piece, PieceKind
from headrace.run.logs.key_index import cut_index
from headrace.run.logs.merge import Merge, compact, merge
from headrace.run.logs.write import write_indexes
from headrace.run.operators.reading import schema_of
from headrace.run.ports import Store
from headrace.run.program import LogSpec, LookupKey


@dataclass(frozen=True, slots=True)
class UpkeepItem:
    """One of: `merge` indexes, `base` from pieces up to `since`, or `keys` whose indexes are built from pieces.

    A merge of all rows up to `since` is a base as well if it `makes_base`, in place of the bases among `pieces`.
    """

    spec: LogSpec
    store: Store
    since: int
    merge: Merge | None = None
    pieces: tuple[Piece, ...] = ()
    keys: tuple[LookupKey, ...] = ()
    shards: int = 1
    functions: Functions = ()
    weight: float = 1.0
    makes_base: bool = False

    @property
    def bases(self) -> frozenset[str]:
        """The files of bases that a new one replaces."""
        return frozenset(piece.file for piece in self.pieces if piece.kind is PieceKind.BASE)

    @property
    def name(self) -> str:
        return f"upkeep of {self.spec.name}"

    @property
    def bytes(self) -> int:
        """The size of all that is read."""
        return sum(piece.bytes for piece in (self.pieces if self.merge is None else self.merge.indexes))


@dataclass(frozen=True, slots=True)
class ReplacedPieces:
    """New pieces of a log, and the files that they stand for."""

    add: tuple[Piece, ...]
    drop: tuple[str, ...]


def perform_upkeep(item: UpkeepItem) -> ReplacedPieces:
    if item.merge is not None:
        made = tuple(_merge_indexes(item, item.merge))
        base = (_name_base(item, made),) if item.makes_base else ()
        merged = tuple(piece.file for piece in item.merge.indexes)
        return ReplacedPieces((*made, *base), (*merged, *sorted(item.bases)))
    if item.keys:
        return ReplacedPieces(tuple(_make_indexes(item)), ())
    return _base(item)


def _tables(item: UpkeepItem, pieces: tuple[Piece, ...]) -> list[pa.Table]:
    """Base and changes."""
    names = schema_of(item.spec.columns).names
    return [item.store.read(item.spec.site, piece.stored, names) for piece in pieces]


def _merge_indexes(item: UpkeepItem, wanted: Merge) -> Iterator[Piece]:
    indexes = wanted.indexes
    table = merge([item.store.read(item.spec.site, piece.stored) for piece in indexes], item.since)
    span = indexes[0].after, max(piece.upto for piece in indexes)
    for shard, part in enumerate(cut_index(table, wanted.shards)):
        if part.num_rows:
            stored = item.store.write(item.spec.site, part, f"index-{item.spec.name}-{span[1]}", item.makes_base)
            yield stored.as_piece(PieceKind.INDEX, *span, part.num_rows, indexes[0].key, shard, wanted.shards)


def _name_base(item: UpkeepItem, merged: tuple[Piece, ...]) -> Piece:
    """The merged index as a base: it holds all rows, once, as of `since`. There is none if nothing is left."""
    hint, site = f"base-{item.spec.name}-{item.since}", item.spec.site
    if not merged:
        stored, rows = item.store.write(site, schema_of(item.spec.columns).empty_table(), hint), 0
    else:
        (index,) = merged
        stored, rows = item.store.link(site, index.stored, hint), index.rows
    return stored.as_piece(PieceKind.BASE, NEVER, item.since, rows)


def _make_indexes(item: UpkeepItem) -> Iterator[Piece]:
    tables = _tables(item, item.pieces)
    rows = pa.concat_tables([schema_of(item.spec.columns).empty_table(), *tables])
    if rows.num_rows:
        span = NEVER, max(piece.upto for piece in item.pieces)
        shards = {(item.spec.name, key.columns): item.shards for key in item.keys}
        yield from write_indexes(item.store, item.spec, rows, span, shards, item.keys, surroundings_of(item.functions))


def _base(item: UpkeepItem) -> ReplacedPieces:
    old = tuple(piece for piece in item.pieces if piece.kind is PieceKind.BASE)
    changes = tuple(piece for piece in item.pieces if piece.kind is PieceKind.CHANGE)
    table = compact(
        [schema_of(item.spec.columns).empty_table(), *_tables(item, old)], _tables(item, changes), item.since
    )
    stored = item.store.write(item.spec.site, table, f"base-{item.spec.name}-{item.since}")
    base = stored.as_piece(PieceKind.BASE, NEVER, item.since, table.num_rows)
    return ReplacedPieces((base,), tuple(sorted(item.bases)))
