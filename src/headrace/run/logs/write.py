"""Writes rows of logs: changes or bases, and the indexes by which rows are looked up.

An index holds all columns of its rows, so a file that is an index serves as the file of the rows as well: it is written
once and has two names, each of which is dropped by itself. Whoever reads rows of a log names the columns, and does not
depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.log import Piece, PieceKind
from headrace.run.logs.key_index import make_indexes
from headrace.run.operators.reading import with_key_if_any
from headrace.run.ports import Store
from headrace.run.program import LogSpec, LookupKey


@dataclass(frozen=True, slots=True)
class RowsToWrite:
    """What rows of a log are, apart from its indexes: changes or a base, of a span of time."""

    kind: PieceKind
    hint: str
    span: tuple[int, int]
    durable: bool


def write_log_rows(
    store: Store,
    spec: LogSpec,
    table: pa.Table,
    rows: RowsToWrite,
    shards: Mapping[tuple[str, tuple[str, ...]], int],
    around: Surroundings = NOTHING,
) -> Iterator[Piece]:
    """Rows of a log, and their indexes; the first index that holds all of them, in one file, is the rows as well."""
    both = next((key for key in spec.keys if not key.computed and shards.get((spec.name, key.columns), 1) == 1), None)
    if both is None or not table.num_rows:
        stored = store.write(spec.site, table, rows.hint, rows.durable)
    else:
        (index,) = make_indexes(table, both.columns, 1)
        found = store.write(spec.site, index, f"index-{rows.hint}", rows.durable)
        yield found.as_piece(PieceKind.INDEX, *rows.span, table.num_rows, both.columns)
        stored = store.link(spec.site, found, rows.hint, rows.durable)
    yield stored.as_piece(rows.kind, *rows.span, table.num_rows)
    others = [key for key in spec.keys if key is not both]
    yield from write_indexes(store, spec, table, rows.span, shards, others, around)


def write_indexes(
    store: Store,
    spec: LogSpec,
    table: pa.Table,
    span: tuple[int, int],
    shards: Mapping[tuple[str, tuple[str, ...]], int],
    keys: Sequence[LookupKey] | None = None,
    around: Surroundings = NOTHING,
) -> Iterator[Piece]:
    """Rows of a log as indexes, for each of its keys."""
    for key in spec.keys if keys is None else keys:
        count = shards.get((spec.name, key.columns), 1)
        for shard, index in enumerate(make_indexes(with_key_if_any(key, table, around), key.columns, count)):
            if index.num_rows:
                stored = store.write(spec.site, index, f"index-{spec.name}-{span[1]}", durable=False)
                yield stored.as_piece(PieceKind.INDEX, *span, index.num_rows, key.columns, shard, count)


def count_written(pieces: Iterable[Piece]) -> int:
    """Bytes of pieces that were written together: a file that has two names counts once."""
    return sum({(piece.root, piece.bytes): piece.bytes for piece in pieces}.values())
