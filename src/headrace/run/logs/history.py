"""Gathers old changes into few files.

Every push leaves a file of changes in each log, and every capture one in its spool, several a second. They are kept for
readers of changes and for views that are behind, so there would be tens of thousands of files. Files that every reader
has read are gathered in order: many small files become one, and many of these become one again.

    oldest   60M | 3M 3M 3M ... | 20k 20k 20k ...   newest | not gathered: after the base, or still to be read

Nothing changes for readers: a file may hold more than was asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from headrace.model.log import Log, Piece, PieceKind
from headrace.run.logs.key_index import HASH
from headrace.run.logs.upkeep_work import ReplacedPieces
from headrace.run.ports import Store

FILES = 32
"""This many small ones next to each other become one, and twice as many that are not large."""
SMALL, LARGE, MOST = 256_000, 16_000_000, 64_000_000
"""Bytes below which files are small, and from which on they are large and left alone; none becomes larger than that."""
SPAN = 0.25
"""Share of the time that changes are kept which a file may span: it is forgotten as a whole."""


@dataclass(frozen=True, slots=True)
class Gather:
    """Files of changes, oldest first, that become one in all logs that name them."""

    logs: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.pieces)


def gathers_due(logs: Sequence[tuple[Log, int]], keep: int, files: int = FILES) -> tuple[Gather, ...]:
    """Logs of a site, each with the time up to which its changes may be gathered. Those with the most files first.

    `keep` are the microseconds for which changes are kept.

    Several logs may name the same files: these wait for each other, or the same rows would be stored twice.
    """
    limits = {log.name: upto for log, upto in logs}
    held = {log.name: log for log, _ in logs}
    sharing = _sharing(held.values())
    found: dict[tuple[Piece, ...], list[str]] = {}
    for name, log in held.items():
        upto = min(limits[other] for other in sharing[name])
        for window in _windows(_old_changes(log, upto), round(SPAN * keep), files):
            found.setdefault(window, []).append(name)
    due = [Gather(tuple(names), pieces) for pieces, names in found.items()]
    return tuple(sorted(due, key=lambda one: (-len(one.pieces), one.logs)))


def _sharing(logs: Collection[Log]) -> Mapping[str, set[str]]:
    """The logs that name the same files of changes as each does, itself included."""
    by_file: dict[str, set[str]] = {}
    for log in logs:
        for piece in log.of_kind(PieceKind.CHANGE):
            by_file.setdefault(piece.file, set()).add(log.name)
    found: dict[str, set[str]] = {log.name: {log.name} for log in logs}
    for names in set(map(frozenset, by_file.values())):
        for name in names:
            found[name] |= names
    return found


def _old_changes(log: Log, upto: int) -> list[Piece]:
    """Oldest first. A file that stands for something else in the log as well stays as it is."""
    uses = Counter(piece.file for piece in log.pieces)
    old = [piece for piece in log.of_kind(PieceKind.CHANGE) if piece.upto <= upto and uses[piece.file] == 1]
    return sorted(old, key=lambda piece: (piece.after, piece.upto, piece.file))


def _windows(pieces: list[Piece], span: int, files: int) -> list[tuple[Piece, ...]]:
    """Pieces next to each other, and enough of them; small ones first, so that a row is written twice at most."""
    small = list(_group_small_pieces(pieces, SMALL, span, files))
    return small or list(_group_small_pieces(pieces, LARGE, span, 2 * files))


def _group_small_pieces(pieces: list[Piece], below: int, span: int, files: int) -> Iterator[tuple[Piece, ...]]:
    for fits, group in groupby(pieces, key=lambda piece: piece.bytes < below):
        if fits:
            yield from (tuple(part) for part in _split_pieces(group, span) if len(part) >= files)


def _split_pieces(pieces: Iterable[Piece], span: int) -> Iterator[list[Piece]]:
    """Splits pieces into as much as one file may hold, and span."""
    part, size = list[Piece](), 0
    for piece in pieces:
        if part and (piece.upto - part[0].after > span or size + piece.bytes > MOST):
            yield part
            part, size = [], 0
        part.append(piece)
        size += piece.bytes
    if part:
        yield part


# As a work item


@dataclass(frozen=True, slots=True)
class GatherItem:
    site: str
    store: Store
    gather: Gather
    weight: float = 1.0

    @property
    def name(self) -> str:
        return f"history of {self.gather.logs[0]}"

    @property
    def bytes(self) -> int:
        """The size of all that is read."""
        return self.gather.bytes


def perform_gather(item: GatherItem) -> ReplacedPieces:
    """One file, or one for each set of columns if these changed meanwhile."""
    read = [(piece, _without_hash(item.store.read(item.site, piece.stored))) for piece in item.gather.pieces]
    made = []
    for _, group in groupby(read, key=lambda one: one[1].schema.names):
        pieces, tables = zip(*group, strict=True)
        table = pa.concat_tables(tables, promote_options="permissive")
        span = min(piece.after for piece in pieces), max(piece.upto for piece in pieces)
        stored = item.store.write(item.site, table, f"{item.gather.logs[0]}-{span[1]}")
        made.append(stored.as_piece(PieceKind.CHANGE, *span, table.num_rows))
    return ReplacedPieces(tuple(made), tuple(piece.file for piece in item.gather.pieces))


def _without_hash(table: pa.Table) -> pa.Table:
    """Rows that were an index as well when they came."""
    return table.drop_columns([HASH]) if HASH in table.column_names else table
