"""The session of a delivery: connects when needed, never waits long for a lock, and says what is wrong in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.connect.postgres import delivery_notes as notes
from headrace.connect.postgres.lock_holders import find_holder, say_holder
from headrace.connect.postgres.sessions import Connection, connect_session, reason
from headrace.model.errors import ConnectError, CopyLocked
from headrace.model.table_name import TableName, read_table_name, show_table

LOCK_WITHIN = "5s"
"""How long a delivery waits for somebody else's lock."""


class CopyAccess:
    """One table, as it is named in the project. `place` is its schema and name, once it was connected to."""

    def __init__(self, dsn: str, table: str) -> None:
        self._dsn = dsn
        self._table = table
        self._session: Connection | None = None
        self._prepared = False
        self.place = ("", "")

    @property
    def key(self) -> str:
        """The name of the table in our notes."""
        return str(TableName(*self.place))

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All or nothing. What the driver raises is raised as ours."""
        try:
            session = self.connect()
            with session.transaction():
                session.execute(f"SET LOCAL lock_timeout = '{LOCK_WITHIN}'")
                yield session
        except psycopg.Error as error:
            self._prepared = self._prepared and not notes.is_lost(error)
            if isinstance(error, errors.LockNotAvailable):
                raise self._say_locked() from error
            raise self._unusable(error) from error

    def connect(self) -> Connection:
        if self._session is None or self._session.closed:
            try:
                dsn = make_conninfo("", **{"application_name": "headrace delivery", **conninfo_to_dict(self._dsn)})
            except psycopg.ProgrammingError:
                hint = "write postgresql://USER:PASSWORD@HOST/DATABASE, escaped as in a URL"
                raise ConnectError(f"the address of table {show_table(self._table)} cannot be read", hint) from None
            self._session = connect_session(dsn)
        if not self._prepared:
            schema, asked = notes.make_notes(self._session), read_table_name(self._table)
            self.place = (asked.schema or schema or "public", asked.name)
            self._prepared = True
        return self._session

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _say_locked(self) -> CopyLocked:
        """Names the transaction that holds the lock, if it still does."""
        holder: dict[str, Any] | None = None
        with suppress(psycopg.Error, ConnectError):
            holder = find_holder(self.connect(), [self.key, notes.NOTES])
        who, hint = say_holder(holder) if holder is not None else ("someone else", "the service keeps trying")
        return CopyLocked(f"table {show_table(self._table)} is locked by {who}", hint)

    def _unusable(self, error: psycopg.Error) -> ConnectError:
        hint = None
        if isinstance(error, errors.InsufficientPrivilege):
            hint = (
                'the role in `dsn` must own the schema "headrace" and be allowed to create tables '
                "in the schema of the table"
            )
        elif isinstance(error, errors.DependentObjectsStillExist):
            hint = "its columns must change: drop the objects that depend on it, and create them again afterwards"
        elif isinstance(error, errors.InvalidSchemaName):
            hint = "create the schema first: CREATE SCHEMA ..."
        said = reason(error, self._dsn)
        return ConnectError(f"table {show_table(self._table)} cannot be written: {said}", hint)
