"""What a capture relies on of a table, and which changes of it make what was read of the table worthless.

A fingerprint is taken in the snapshot in which a table is read, and is committed with the rows. As long as the table's
fingerprint differs in nothing that `find_changes` names, the log tells of everything that happens to the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, assert_never

from headrace.run.capture.pgoutput import Relation


@dataclass(frozen=True, slots=True)
class ColumnFingerprint:
    """A captured column: its number in the table, its type, the labels of an enum by their ids.

    `written_by` is the transaction that wrote its description last, `pg_attribute.xmin`.
    """

    name: str
    number: int
    type_oid: int
    modifier: int
    labels: Mapping[str, str]
    written_by: str


@dataclass(frozen=True, slots=True)
class PartFingerprint:
    """A table that holds rows: the captured one, or each partition of it. `file` is its `relfilenode`.

    `written_by` are the transactions that wrote the descriptions of its captured columns last, by the columns' names.
    """

    oid: int
    file: int
    written_by: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PublicationFingerprint:
    """How a publication publishes the table. `entry` is None where it publishes all tables, or all of a schema.

    `columns` are numbers, None for all; `operations` some of the letters i, u, d, t; `written_by` is the transaction
    that wrote the publication's settings last.
    """

    oid: int
    written_by: str
    entry: int | None
    filtered: bool
    columns: tuple[int, ...] | None
    operations: str


@dataclass(frozen=True, slots=True)
class TableFingerprint:
    """`system` names the server, for ever; `timeline` counts its failovers. `published` is None if the table is not.

    `identity`, `key_is_unique`, `row_security` and `children` say what the table is now: whether it can be captured is
    judged from these alone, not from how they were. All transactions with smaller numbers than `horizon` had ended
    when it was taken; None for one of an earlier version.
    """

    system: str
    timeline: str
    oid: int
    columns: tuple[ColumnFingerprint, ...]
    parts: tuple[PartFingerprint, ...]
    published: PublicationFingerprint | None
    identity: str
    key_is_unique: bool
    row_security: bool
    children: tuple[int, ...]
    horizon: int | None = field(default=None, compare=False)

    def to_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_text(text: str) -> TableFingerprint:
        """Raises KeyError, TypeError or ValueError for a text that is none of ours."""
        found = json.loads(text)
        return make_fingerprint(found)


def make_fingerprint(found: Mapping[str, Any]) -> TableFingerprint:
    """Makes a fingerprint from lists and objects, as JSON has them."""
    published = found["published"]
    return TableFingerprint(
        system=str(found["system"]),
        timeline=str(found["timeline"]),
        oid=int(found["oid"]),
        columns=tuple(ColumnFingerprint(**{**one, "labels": dict(one["labels"])}) for one in found["columns"]),
        parts=tuple(PartFingerprint(**{**one, "written_by": dict(one["written_by"])}) for one in found["parts"]),
        published=None if published is None else _make_publication(published),
        identity=str(found["identity"]),
        key_is_unique=bool(found["key_is_unique"]),
        row_security=bool(found["row_security"]),
        children=tuple(map(int, found["children"])),
        horizon=None if found.get("horizon") is None else int(found["horizon"]),
    )


def _make_publication(found: Mapping[str, Any]) -> PublicationFingerprint:
    columns = found["columns"]
    return PublicationFingerprint(**{**found, "columns": None if columns is None else tuple(columns)})


# What can change


@dataclass(frozen=True, slots=True)
class OtherServer:
    """The database is on another server: its log is another one."""


@dataclass(frozen=True, slots=True)
class OtherTable:
    """The name belongs to another table than the one that was read."""


@dataclass(frozen=True, slots=True)
class OtherColumn:
    """The name belongs to another column than the one that was read."""

    name: str


@dataclass(frozen=True, slots=True)
class OtherType:
    name: str


@dataclass(frozen=True, slots=True)
class RenamedLabel:
    """A value of an enum is called otherwise now, in all rows at once."""

    name: str
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class RewrittenRows:
    """A statement computed the values of captured columns anew, as ALTER TYPE ... USING does."""


@dataclass(frozen=True, slots=True)
class OtherPublication:
    """The table was not published for a while, or not with all rows, columns or operations."""


@dataclass(frozen=True, slots=True)
class OtherPartitions:
    """Partitions came or went, or were truncated: the log of their table does not tell."""


TableChange = (
    OtherServer
    | OtherTable
    | OtherColumn
    | OtherType
    | RenamedLabel
    | RewrittenRows
    | OtherPublication
    | OtherPartitions
)


def find_changes(
    was: TableFingerprint, now: TableFingerprint, kept: frozenset[int] = frozenset()
) -> tuple[TableChange, ...]:
    """What happened to a table that its log does not tell: each means that it has to be read again.

    A failover changes the timeline alone. VACUUM FULL, CLUSTER and TRUNCATE change the file alone, SET STATISTICS and
    SET DEFAULT the descriptions of columns alone. `kept` are partitions with other files that were not truncated.
    """
    return tuple(_compare(was, now, kept))


def find_replaced_parts(was: TableFingerprint, now: TableFingerprint) -> tuple[int, ...]:
    """Partitions that have another file and the same columns: it is for `find_changes` to know which were truncated,
    since the log of their table does not tell. An ordinary table is none: its truncation is in the log.
    """
    before = {} if _holds_rows_itself(now) else {part.oid: part for part in was.parts}
    return tuple(
        part.oid
        for part in now.parts
        if part.oid in before and before[part.oid].file != part.file
        if before[part.oid].written_by == part.written_by
    )


def _compare(was: TableFingerprint, now: TableFingerprint, kept: frozenset[int]) -> Iterator[TableChange]:
    if was.system != now.system:
        yield OtherServer()
        return
    if was.oid != now.oid:
        yield OtherTable()
        return
    before = {column.name: column for column in was.columns}
    for column in now.columns:
        if column.name in before:
            yield from _compare_columns(before[column.name], column)
    if _is_rewritten(was, now):
        yield RewrittenRows()
    if _has_other_partitions(was, now) or not kept.issuperset(find_replaced_parts(was, now)):
        yield OtherPartitions()
    if _left_publication(was.published, now.published):
        yield OtherPublication()


def _compare_columns(was: ColumnFingerprint, now: ColumnFingerprint) -> Iterator[TableChange]:
    if was.number != now.number:
        yield OtherColumn(now.name)
    elif was.type_oid != now.type_oid:
        yield OtherType(now.name)
    else:
        renamed = [(label, now.labels[key]) for key, label in was.labels.items() if now.labels.get(key, label) != label]
        yield from (RenamedLabel(now.name, *labels) for labels in renamed)


def _is_rewritten(was: TableFingerprint, now: TableFingerprint) -> bool:
    """Both the file and the description of a captured column have changed, of the same table or partition."""
    before = {part.oid: part for part in was.parts}
    return any(
        part.oid in before and before[part.oid].file != part.file and before[part.oid].written_by != part.written_by
        for part in now.parts
    )


def _has_other_partitions(was: TableFingerprint, now: TableFingerprint) -> bool:
    return not _holds_rows_itself(now) and {part.oid for part in now.parts} != {part.oid for part in was.parts}


def _holds_rows_itself(table: TableFingerprint) -> bool:
    """A partitioned table does not."""
    return any(part.oid == table.oid for part in table.parts)


def _left_publication(was: PublicationFingerprint | None, now: PublicationFingerprint | None) -> bool:
    """Whether the publication was changed since, or the table taken out of it; both leave traces when undone."""
    if was is None or now is None:
        return was != now
    return (was.oid, was.written_by, was.entry) != (now.oid, now.written_by, now.entry)


def find_relation_changes(was: TableFingerprint, relation: Relation) -> tuple[TableChange, ...]:
    """What the log itself tells of a table before its next change. It does not have the numbers of columns, but their
    order.
    """
    if was.oid != relation.oid:
        return (OtherTable(),)
    present = {column.name: column for column in relation.columns}
    known = [column for column in sorted(was.columns, key=lambda one: one.number) if column.name in present]
    order = [name for name in present if name in {column.name for column in known}]
    moved = [OtherColumn(column.name) for column, name in zip(known, order, strict=True) if column.name != name]
    types = [OtherType(column.name) for column in known if present[column.name].type_oid != column.type_oid]
    return (*moved[:1], *types)


def say_change(change: TableChange) -> str:
    match change:
        case OtherServer():
            return "its database is on another server now"
        case OtherTable():
            return "its table was created again, or another table took its name"
        case OtherColumn(name):
            return f'its column "{name}" was added again, or another column took its name'
        case OtherType(name):
            return f'its column "{name}" has another type now'
        case RenamedLabel(name, was, now):
            return f'the value "{was}" of its column "{name}" is called "{now}" now'
        case RewrittenRows():
            return "a statement rewrote the values of its table"
        case OtherPublication():
            return "its table was not published, or not completely, for a while"
        case OtherPartitions():
            return "partitions of its table were attached, detached or truncated"
        case _:
            assert_never(change)
