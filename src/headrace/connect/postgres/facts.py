"""What a PostgreSQL server says about its tables. Plain values; `inspect` asks for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import LiteralString

from headrace.model.origin_types import ColumnOrigin, Enumeration, origin_type_named
from headrace.model.table_name import TableName
from headrace.model.type_names import type_named
from headrace.model.types import STRING, Array, Decimal, Type

HAS_TEXTS: LiteralString = """(
    SELECT bool_or(y.typtype IN ('e', 'c', 'r', 'm')) FROM pg_type y
    WHERE y.oid IN (t.oid, t.typbasetype, t.typelem, (SELECT d.typelem FROM pg_type d WHERE d.oid = t.typbasetype)))"""
"""Asks of the row `t` of pg_type for `ColumnFacts.as_text`."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column. `type_name` is PostgreSQL's, of the base type for a domain. Statistics are None before ANALYZE.

    `depth` is how many `[]` an array was declared with: its `type_name` has one. `labels` are the values of an enum, in
    their order.

    `as_text` is whether the type, or that of an array's elements, has no counterpart of ours but one text for each
    value: enums, composite types and ranges.

    `distinct` is PostgreSQL's n_distinct: a count, or when negative a share of the rows. `sorted_by` is the collation
    of texts that are sorted otherwise than by their bytes; one that is not `deterministic` takes some for equal.
    """

    name: str
    type_name: str
    as_text: bool
    nullable: bool
    generated: bool
    width: float | None
    distinct: float | None
    sorted_by: str | None = None
    deterministic: bool = True
    depth: int = 0
    labels: tuple[str, ...] = ()

    @property
    def type(self) -> Type | None:
        """Our type; None for types that we do not handle."""
        return _our_type(self.type_name + "[]" * (self.depth - 1), self.as_text)

    @property
    def origin_type(self) -> ColumnOrigin | None:
        """Which of PostgreSQL's types it is, where ours does not tell."""
        if self.labels:
            return Enumeration(self.labels)
        return None if self.as_text else origin_type_named(self.type_name)

    @property
    def why_left_out(self) -> str | None:
        """Why it cannot be captured; None if it can."""
        if self.generated:
            return "is generated: its changes are not in the log"
        return f"has type {self.type_name}, which is not handled" if self.type is None else None

    @property
    def is_written(self) -> bool:
        """Whether its values are held as the texts that PostgreSQL writes for another type; enums are texts anyway."""
        return self.type in (STRING, Array(STRING)) and not self.as_text and type_named(self.type_name) is None

    @property
    def is_padded(self) -> bool:
        """Whether spaces at the end of its values mean nothing: char(n)."""
        return self.type_name.startswith(("character(", "bpchar"))


_TEXTS = frozenset(
    """time timetz interval inet cidr macaddr macaddr8 xml bit varbit tsvector tsquery name citext ltree hstore point
    line lseg box path polygon circle pg_lsn txid_snapshot""".split()
)
"""Types whose values are held as the text that PostgreSQL writes: it does not depend on settings other than ours."""
_LONGER = {"time without time zone": "time", "time with time zone": "timetz", "bit varying": "varbit"}
_PARAMETERS = re.compile(r"\((\d+)(?:,(-?\d+))?\)")


def _our_type(name: str, as_text: bool) -> Type | None:
    if name.endswith("[]"):
        element = _our_type(name.removesuffix("[]"), as_text)
        return None if element is None else Array(element)
    if as_text:
        return STRING
    known = type_named(name)
    plain = _PARAMETERS.sub("", name).removeprefix("public.")
    if known is None and plain == "numeric":
        return _wide_decimal(name)
    is_text = plain.startswith("interval") or _LONGER.get(plain, plain) in _TEXTS
    return STRING if known is None and is_text else known


def _wide_decimal(name: str) -> Type | None:
    """The type of numbers of more digits than ours have. A value that does not fit stops the source."""
    found = _PARAMETERS.search(name)
    if found is None:
        return None
    precision, scale = int(found[1]), int(found[2] or 0)
    if scale < 0:
        return Decimal(min(precision - scale, 38), 0)
    return Decimal(38, min(scale, 38) if scale >= precision else min(scale, 18))


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """Columns without NULLs that an index keeps unique."""

    index: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TablePart:
    """A table whose rows are read with those of another: a partition that holds rows, or one that inherits.

    `name` is as SQL writes it. Letters are as those of `TableFacts`.
    """

    name: str
    kind: str
    persistence: str
    identity: str


@dataclass(frozen=True, slots=True)
class TableForm:
    """What a table is, whatever its columns are. `sql_name` can be pasted into SQL; letters are PostgreSQL's.

    `parts` are partitions of a partitioned table, and tables that inherit from any other.
    """

    sql_name: str
    kind: str
    persistence: str
    parts: tuple[TablePart, ...]


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table. `kind`, `persistence` and `identity` are the letters of PostgreSQL's catalogue.

    `identity_key` are the columns that name a row in the change log, empty when there are none. `parts` are as those of
    `TableForm`.
    """

    schema: str
    name: str
    kind: str
    persistence: str
    identity: str
    identity_key: tuple[str, ...]
    primary_key: tuple[str, ...]
    unique_keys: tuple[UniqueKey, ...]
    may_select: bool
    rows: float | None
    columns: tuple[ColumnFacts, ...]
    parts: tuple[TablePart, ...] = ()

    @property
    def sql_name(self) -> str:
        """The name to paste into SQL."""
        return str(TableName(self.schema, self.name))

    @property
    def form(self) -> TableForm:
        return TableForm(self.sql_name, self.kind, self.persistence, self.parts)


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What keeps a table from being captured, and how to fix it."""

    what: str
    hint: str
