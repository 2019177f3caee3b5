"""What a PostgreSQL server says about its tables. Plain values; `inspect` asks for them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.table_name import TableName
from headrace.model.type_names import type_named
from headrace.model.types import STRING, Type


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column. `type_name` is PostgreSQL's, of the base type for a domain. Statistics are None before ANALYZE.

    `distinct` is PostgreSQL's n_distinct: a count, or when negative a share of the rows. `sorted_by` is the collation
    of texts that are sorted otherwise than by their bytes; one that is not `deterministic` takes some for equal.
    """

    name: str
    type_name: str
    is_enum: bool
    nullable: bool
    generated: bool
    width: float | None
    distinct: float | None
    sorted_by: str | None = None
    deterministic: bool = True

    @property
    def type(self) -> Type | None:
        """Our type; None for types that we do not handle."""
        return STRING if self.is_enum else type_named(self.type_name)

    @property
    def why_left_out(self) -> str | None:
        """Why it cannot be captured; None if it can."""
        if self.generated:
            return "is generated: its changes are not in the log"
        return f"has type {self.type_name}, which is not handled" if self.type is None else None

    @property
    def is_padded(self) -> bool:
        """Whether spaces at the end of its values mean nothing: char(n)."""
        return self.type_name.startswith(("character(", "bpchar"))


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
