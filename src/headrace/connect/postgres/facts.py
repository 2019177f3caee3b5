"""What a PostgreSQL server says about its tables. Plain values; `inspect` asks for them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.table_name import TableName
from headrace.model.type_names import type_named
from headrace.model.types import STRING, Type


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column. `type_name` is PostgreSQL's, of the base type for a domain. Statistics are None before ANALYZE.

    `distinct` is PostgreSQL's n_distinct: a count, or when negative a share of the rows.
    """

    name: str
    type_name: str
    is_enum: bool
    nullable: bool
    generated: bool
    width: float | None
    distinct: float | None

    @property
    def type(self) -> Type | None:
        """Our type; None for types that we do not handle."""
        return STRING if self.is_enum else type_named(self.type_name)

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
class TableFacts:
    """One table. `kind`, `persistence` and `identity` are the letters of PostgreSQL's catalogue.

    `identity_key` are the columns that name a row in the change log, empty when there are none.
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

    @property
    def sql_name(self) -> str:
        """The name to paste into SQL."""
        return str(TableName(self.schema, self.name))
