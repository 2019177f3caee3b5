"""What the ledger asks of a database: transactions that run its statements."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

Value = str | int | float | None
Row = tuple[Value, ...]


class Transaction(Protocol):
    def rows(self, statement: str, values: Sequence[Value] = ()) -> list[Row]: ...

    def change(self, statement: str, many: Sequence[Row] = ((),)) -> int:
        """Runs the statement for each row of values, in order; how many rows of the table it changed in all."""


class LedgerDatabase(Protocol):
    """May be used by several threads. Whatever the database itself reports is raised as `ConnectError`."""

    name: str

    def read(self) -> AbstractContextManager[Transaction]:
        """All statements see the same instant."""

    def write(self) -> AbstractContextManager[Transaction]:
        """Commits, durably, unless an exception leaves it."""

    def alone(self) -> AbstractContextManager[Transaction]:
        """A transaction like `write`, and nobody else adds pieces of logs meanwhile."""

    def migrate(self) -> AbstractContextManager[Transaction]:
        """A transaction like `write`, and nobody else migrates meanwhile."""

    def now(self) -> float:
        """Seconds, by the one clock that all users of this database share."""

    def close(self) -> None: ...
