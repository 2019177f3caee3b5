"""Rows of the ledger's tables to and from the nouns of `model.log`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from headrace.connect.ledger.database import Row
from headrace.model.log import Edit, Log, Piece, PieceKind

REMEMBERED = 20_000
"""Pieces of several hundred logs: most are read again and again, and none ever changes."""

_order = attrgetter("after", "upto", "file")


def logs_of(logs: Iterable[Row], pieces: Iterable[Row]) -> dict[str, Log]:
    """Logs by name, pieces in the order of their times."""
    of_log: dict[str, list[Piece]] = {}
    for log, *fields in pieces:
        of_log.setdefault(str(log), []).append(_piece(*fields))
    found = sorted((_log(*row) for row in logs), key=lambda log: log.name)
    return {log.name: replace(log, pieces=tuple(sorted(of_log.get(log.name, ()), key=_order))) for log in found}


# The columns have the types of the fields: the tables were filled by the functions below.
def _log(name: Any, site: Any, t: Any, start: Any) -> Log:
    return Log(name, site, t, start)


@lru_cache(REMEMBERED)
def _piece(
    kind: Any, file: Any, after: Any, upto: Any, rows: Any, size: Any, key: Any, shard: Any, shards: Any, root: Any
) -> Piece:
    return Piece(PieceKind(kind), file, after, upto, rows, size, tuple(json.loads(key)), shard, shards, root)


def row_to_create(edit: Edit) -> Row:
    """A new log starts where its first changes do, at its t if it has none."""
    first = min((piece.after for piece in edit.add if piece.kind is PieceKind.CHANGE), default=edit.t)
    return edit.log, edit.site, edit.t, first if edit.start is None else edit.start


def row_to_move(edit: Edit) -> Row:
    return edit.t, edit.start, edit.log, edit.expected


def row_to_add(log: str, p: Piece) -> Row:
    return log, p.kind.value, p.file, p.after, p.upto, p.rows, p.bytes, json.dumps(p.key), p.shard, p.shards, p.root
