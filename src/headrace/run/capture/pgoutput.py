"""Messages of PostgreSQL's logical replication (plugin `pgoutput`, protocol versions 1 to 4), from bytes to values.

Values of columns stay as the bytes of their text. Inside a stream (a part of a transaction that is still open) messages
carry the id of the transaction or subtransaction they belong to; outside `xid` is 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

POSTGRES_EPOCH_US = 946_684_800_000_000
"""2000-01-01, from where PostgreSQL counts, in microseconds since 1970."""


class UntouchedValue:
    """The type of `KEPT`: a large value that a statement did not touch, and that the log does not have."""

    def __repr__(self) -> str:
        return "KEPT"


KEPT = UntouchedValue()

Text = bytes | None | UntouchedValue
"""A value: its text, NULL, or not in the log."""

Tuple = list[Text]


class RowChange(NamedTuple):
    """`kind` is I, U or D. `old` is what the log has of the row before: all of it, its key (`key_only`), or nothing."""

    kind: str
    xid: int
    relation: int
    old: Tuple | None
    key_only: bool
    new: Tuple | None


@dataclass(frozen=True, slots=True)
class RelationColumn:
    name: str
    in_key: bool
    type_oid: int
    modifier: int


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it is for the changes that follow."""

    xid: int
    oid: int
    schema: str
    name: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """`commit_lsn` is where the transaction's commit is in the log."""

    commit_lsn: int
    commit_time: int
    xid: int


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """`end_lsn` is where the log goes on after the commit. Times are microseconds since 1970, UTC."""

    commit_lsn: int
    end_lsn: int
    commit_time: int


@dataclass(frozen=True, slots=True)
class Truncate:
    xid: int
    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """What someone wrote into the log by `pg_logical_emit_message`."""

    xid: int
    transactional: bool
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class StreamStart:
    xid: int


@dataclass(frozen=True, slots=True)
class StreamStop:
    pass


@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    commit_lsn: int
    end_lsn: int
    commit_time: int


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """The subtransaction `part` of `xid` did not happen; both are the same for a transaction as a whole."""

    xid: int
    part: int


Decoded = (
    RowChange
    | Relation
    | Begin
    | CommitMessage
    | Truncate
    | Message
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
    | None
)
"""None stands for messages that mean nothing to us: names of types, origins."""

_LENGTH = struct.Struct("!I").unpack_from
_COUNT = struct.Struct("!H").unpack_from
_NULL, _KEPT, _TEXT = ord("n"), ord("u"), ord("t")


def decode(data: bytes, in_stream: bool) -> Decoded:
    """One message. `in_stream` is whether it comes between a StreamStart and its StreamStop."""
    kind = data[0:1]
    if kind == b"E":
        return StreamStop()
    start = 5 if in_stream else 1
    xid = _LENGTH(data, 1)[0] if in_stream else 0
    if kind == b"I":
        new, _ = _tuple(data, start + 5)
        return RowChange("I", xid, _LENGTH(data, start)[0], None, False, new)
    if kind == b"U":
        return _update(data, start, xid)
    if kind == b"D":
        old, _ = _tuple(data, start + 5)
        return RowChange("D", xid, _LENGTH(data, start)[0], old, data[start + 4 : start + 5] == b"K", None)
    return _decode_rare(kind, data, start, xid)


def _update(data: bytes, start: int, xid: int) -> RowChange:
    marker = data[start + 4 : start + 5]
    old: Tuple | None = None
    at = start + 5
    if marker != b"N":
        old, at = _tuple(data, at)
        at += 1
    new, _ = _tuple(data, at)
    return RowChange("U", xid, _LENGTH(data, start)[0], old, marker == b"K", new)


def _tuple(data: bytes, at: int) -> tuple[Tuple, int]:
    """The values from here on, and where they end."""
    values: Tuple = []
    add = values.append
    (count,) = _COUNT(data, at)
    at += 2
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            end = at + 5 + _LENGTH(data, at + 1)[0]
            add(data[at + 5 : end])
            at = end
        else:
            assert kind in (_NULL, _KEPT), f"a value of kind {chr(kind)!r}, only text was asked for"
            add(None if kind == _NULL else KEPT)
            at += 1
    return values, at


def _decode_rare(kind: bytes, data: bytes, start: int, xid: int) -> Decoded:
    match kind:
        case b"B":
            lsn, time, own = struct.unpack_from("!QqI", data, 1)
            return Begin(lsn, time + POSTGRES_EPOCH_US, own)
        case b"C":
            _, lsn, end, time = struct.unpack_from("!BQQq", data, 1)
            return CommitMessage(lsn, end, time + POSTGRES_EPOCH_US)
        case b"R":
            return _relation(data, start, xid)
        case b"T":
            count, _ = struct.unpack_from("!IB", data, start)
            return Truncate(xid, struct.unpack_from(f"!{count}I", data, start + 5))
        case b"M":
            return _message(data, start, xid)
        case b"S":
            return StreamStart(_LENGTH(data, 1)[0])
        case b"c":
            own, _, lsn, end, time = struct.unpack_from("!IBQQq", data, 1)
            return StreamCommit(own, lsn, end, time + POSTGRES_EPOCH_US)
        case b"A":
            return StreamAbort(*struct.unpack_from("!II", data, 1))
        case b"Y" | b"O":
            return None
        case _:
            raise AssertionError(f"a message of kind {kind!r}, which was not asked for")


def _relation(data: bytes, start: int, xid: int) -> Relation:
    (oid,) = _LENGTH(data, start)
    schema, at = _string(data, start + 4)
    name, at = _string(data, at)
    (count,) = _COUNT(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        in_key = bool(data[at] & 1)
        column, at = _string(data, at + 1)
        type_oid, modifier = struct.unpack_from("!Ii", data, at)
        at += 8
        columns.append(RelationColumn(column, in_key, type_oid, modifier))
    # The system's own tables are in no schema by name.
    return Relation(xid, oid, schema or "pg_catalog", name, tuple(columns))


def _message(data: bytes, start: int, xid: int) -> Message:
    flags, lsn = struct.unpack_from("!BQ", data, start)
    prefix, at = _string(data, start + 9)
    (length,) = _LENGTH(data, at)
    return Message(xid, bool(flags & 1), lsn, prefix, data[at + 4 : at + 4 + length])


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1
