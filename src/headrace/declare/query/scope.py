"""Which columns a name can mean: the tables of a FROM clause, in order, and the columns that USING merged.

Names are compared without case, as Spark does, and keep the spelling of their declaration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.model.expr import Expr
from headrace.model.origin_types import ColumnOrigin


@dataclass(frozen=True, slots=True)
class Visible:
    """A column that can be named, and its value over the rows at hand. `origin_type` is PostgreSQL's, if known."""

    name: str
    value: Expr
    origin_type: ColumnOrigin | None = None


@dataclass(frozen=True, slots=True)
class FromTable:
    """What one item of FROM shows. `complete` is False when its columns are not known because of a mistake reported
    elsewhere. `left_out` are columns that it has and does not show, each with why. `itself` is what its name means as
    a value, where no column is called so.
    """

    alias: str
    columns: tuple[Visible, ...]
    complete: bool = True
    left_out: tuple[tuple[str, str], ...] = ()
    itself: Expr | None = None

    def named(self, name: str) -> tuple[Expr, ...]:
        return tuple(column.value for column in self.columns if same_name(column.name, name))

    def origin_type(self, name: str) -> ColumnOrigin | None:
        return next((one.origin_type for one in self.columns if same_name(one.name, name)), None)


@dataclass(frozen=True, slots=True)
class Scope:
    """All tables in sight. `merged` are columns made by USING: they stand first in `*`, where the columns they came
    from are `hidden`.
    """

    tables: tuple[FromTable, ...] = ()
    merged: tuple[Visible, ...] = ()
    hidden: frozenset[tuple[str, str]] = frozenset()

    @property
    def complete(self) -> bool:
        return all(table.complete for table in self.tables)

    def table(self, alias: str) -> FromTable | None:
        return next((table for table in self.tables if same_name(table.alias, alias)), None)

    def find(self, name: str, qualifier: str | None) -> tuple[Expr, ...]:
        """All values that a column's name can mean: none is a mistake, and so is more than one."""
        if qualifier is not None:
            table = self.table(qualifier)
            return () if table is None else table.named(name)
        found = tuple(column.value for column in self.all() if same_name(column.name, name))
        return found or tuple(t.itself for t in self.tables if t.itself is not None and same_name(t.alias, name))

    def find_origin_type(self, name: str, qualifier: str | None) -> ColumnOrigin | None:
        """PostgreSQL's type of the column that `find` finds, if there is one such column and its type is known."""
        if qualifier is not None:
            table = self.table(qualifier)
            return None if table is None else table.origin_type(name)
        found = [column.origin_type for column in self.all() if same_name(column.name, name)]
        return found[0] if len(found) == 1 else None

    def why_left_out(self, name: str, qualifier: str | None) -> str | None:
        """Why a column that cannot be named is left out of its table; None if no table has it."""
        tables = self.tables if qualifier is None else filter(None, (self.table(qualifier),))
        return next((why for table in tables for column, why in table.left_out if same_name(column, name)), None)

    def all(self) -> Iterator[Visible]:
        """What `*` means."""
        yield from self.merged
        for table in self.tables:
            yield from (column for column in table.columns if not self._is_hidden(table, column))

    def all_of(self, table: FromTable) -> tuple[Visible, ...]:
        """What `t.*` means: columns that USING named stand first."""
        first = [
            c
            for merged in self.merged
            for c in table.columns
            if self._is_hidden(table, c) and same_name(c.name, merged.name)
        ]
        return (*first, *(c for c in table.columns if c not in first))

    def _is_hidden(self, table: FromTable, column: Visible) -> bool:
        return (fold(table.alias), fold(column.name)) in self.hidden

    def names(self) -> tuple[str, ...]:
        """Every way to name a column, for hints."""
        return (
            *(column.name for column in self.all()),
            *(f"{table.alias}.{column.name}" for table in self.tables for column in table.columns),
        )


def fold(name: str) -> str:
    return name.casefold()


def same_name(left: str, right: str) -> bool:
    return fold(left) == fold(right)
