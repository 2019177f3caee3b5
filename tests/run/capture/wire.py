"""Messages of the log as PostgreSQL would send them, for tests without a server."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headrace.run.capture.pgoutput import KEPT, POSTGRES_EPOCH_US, Text


def begin(lsn: int, xid: int, time: int = 0) -> bytes:
    return b"B" + struct.pack("!QqI", lsn, time - POSTGRES_EPOCH_US, xid)


def commit(lsn: int, time: int = 0) -> bytes:
    return b"C" + struct.pack("!BQQq", 0, lsn, lsn + 8, time - POSTGRES_EPOCH_US)


def relation(oid: int, name: str, columns: Sequence[tuple[str, bool, int]], xid: int | None = None) -> bytes:
    head = b"R" + part(xid) + struct.pack("!I", oid) + b"public\0" + name.encode() + b"\0d"
    body = b"".join(
        struct.pack("!B", key) + column.encode() + b"\0" + struct.pack("!Ii", type_, -1)
        for column, key, type_ in columns
    )
    return head + struct.pack("!H", len(columns)) + body


def insert(oid: int, row: Sequence[Text], xid: int | None = None) -> bytes:
    return b"I" + part(xid) + struct.pack("!I", oid) + b"N" + values(row)


def update(
    oid: int, new: Sequence[Text], old: Sequence[Text] | None = None, kind: bytes = b"K", xid: int | None = None
) -> bytes:
    before = b"" if old is None else kind + values(old)
    return b"U" + part(xid) + struct.pack("!I", oid) + before + b"N" + values(new)


def delete(oid: int, old: Sequence[Text], kind: bytes = b"K", xid: int | None = None) -> bytes:
    return b"D" + part(xid) + struct.pack("!I", oid) + kind + values(old)


def truncate(*oids: int, xid: int | None = None) -> bytes:
    return b"T" + part(xid) + struct.pack(f"!IB{len(oids)}I", len(oids), 0, *oids)


def message(prefix: str, content: bytes, xid: int | None = None) -> bytes:
    return (
        b"M"
        + part(xid)
        + struct.pack("!BQ", 1, 0)
        + prefix.encode()
        + b"\0"
        + struct.pack("!I", len(content))
        + content
    )


def stream_start(xid: int) -> bytes:
    return b"S" + struct.pack("!IB", xid, 1)


def stream_commit(xid: int, lsn: int) -> bytes:
    return b"c" + struct.pack("!IBQQq", xid, 0, lsn, lsn + 8, 0)


def stream_abort(xid: int, part_: int) -> bytes:
    return b"A" + struct.pack("!II", xid, part_)


STREAM_STOP = b"E"


def part(xid: int | None) -> bytes:
    return b"" if xid is None else struct.pack("!I", xid)


def values(row: Sequence[Text]) -> bytes:
    return struct.pack("!H", len(row)) + b"".join(map(value, row))


def value(text: Text) -> bytes:
    if text is None:
        return b"n"
    return b"u" if text is KEPT else b"t" + struct.pack("!I", len(text)) + text  # type: ignore[arg-type, operator]
