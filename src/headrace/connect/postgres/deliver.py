"""Keeps a table in PostgreSQL equal to a view: every step changes rows and the time they are as of in one transaction.

Times are in `headrace.deliveries`, one row for each table, with the epoch of the service that may change it. A service
takes its tables over when it asks how far they are, and an earlier one is fenced off from then on. A table that is not
ours is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.connect.postgres.copy_rows import copy_rows
from headrace.connect.postgres.delivered_table import (
    LONGEST_NAME,
    OURS,
    RESERVED,
    STAGE,
    WEIGHT,
    DeliveredTable,
    comment_on,
    count_keys,
    create,
    create_indexes,
    create_stage,
    delete_gone,
    insert_new,
    merge,
)
from headrace.connect.postgres.refused_row import LIMITS, REFUSALS, choose_rows_to_try, find_refused_row
from headrace.connect.postgres.sessions import Connection, connect_session, reason
from headrace.model.errors import Conflict, ConnectError, Fenced, NotOurs, RefusedRow
from headrace.model.table_name import TableName, read_table_name, show_table
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.changes import WEIGHT as CHANGE_WEIGHT

_LOCK = 0x4845_4144_4445_4C49
"""Advisory locks' number, ours alone by improbability: only one service makes a table at a time."""


@dataclass(frozen=True, slots=True)
class _TableState:
    """What is there: our note about the table, and the table's comment (None if it does not exist)."""

    note: dict[str, Any] | None
    comment: str | None


_Refusal = tuple[int | None, int, str]
"""After which time, up to which, and what was said."""


class PostgresDelivery:
    """One table. Connects when it is first needed, and again after the connection broke."""

    def __init__(self, dsn: str, table: DeliveredTable, epoch: int) -> None:
        if wrong := table.wrong_names():
            hint = f'rename it in the view: at most {LONGEST_NAME} bytes, and not starting with "{RESERVED}"'
            raise ConnectError(f'column "{wrong[0]}" of view "{table.view}" cannot be delivered to PostgreSQL', hint)
        self._dsn = dsn
        self._table = table
        self._epoch = epoch
        self._session: Connection | None = None
        self._prepared = False
        self._place = ("", "")
        self._searched: dict[_Refusal, RefusedRow | None] = {}
        """The last refusal whose row was searched for, so that a retry does not search again."""

    def delivered(self) -> int | None:
        """Takes the table over."""
        with self._transaction() as session:
            found = self._find(session)
            self._check_ours(found)
            note = found.note
            if note is None or found.comment is None:
                return None
            session.execute(_TAKE, {"epoch": self._epoch, "table": self._key})
            if (note["shape"], note["meaning"]) != (self._table.structure, self._table.meaning):
                return None
            if found.comment != self._table.comment:
                session.execute(comment_on(self._table, self._name))
            return int(note["t"])

    def start(self, rows: pa.Table, t: int) -> None:
        """The table stays the same, with its grants and what depends on it, unless its columns must change."""
        with self._naming_rows((None, t), self._empty, lambda: rows), self._transaction() as session:
            kept = self._empty(session)
            copy_rows(session, self._name, self._table.add_hashes(self._cast_rows(rows)))
            for statement in () if kept else create_indexes(self._table, self._name):
                session.execute(statement)
            session.execute(sql.SQL("ANALYZE {}").format(self._name))
            session.execute(_NOTE, self._note(t))

    def apply(self, changes: pa.Table, after: int, upto: int) -> None:
        with (
            self._naming_rows(
                (after, upto), lambda session: self._delete(session, changes), lambda: choose_rows_to_try(changes)
            ),
            self._transaction() as session,
        ):
            moved = session.execute(
                _MOVE, {"table": self._key, "after": after, "upto": upto, "epoch": self._epoch}
            ).rowcount
            if moved != 1:
                self._refuse(session, after)
            if changes.num_rows:
                self._stage(session, changes)
                self._merge(session) if self._table.key else self._exchange(session, changes)

    def drop(self) -> None:
        with self._transaction() as session:
            found = self._find(session)
            if found.note is None:
                return
            self._check_ours(found)
            session.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self._name))
            session.execute('DELETE FROM headrace.deliveries WHERE "table" = %(table)s', {"table": self._key})

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    # Changes

    def _empty(self, session: Connection) -> bool:
        """An empty table; whether it was there already."""
        found = self._find(session)
        self._check_ours(found)
        kept = found.note is not None and found.comment is not None and found.note["shape"] == self._table.structure
        if kept:
            session.execute(sql.SQL("DELETE FROM {}").format(self._name))
        else:
            self._make(session)
        return kept

    def _delete(self, session: Connection, changes: pa.Table) -> None:
        """Only the rows that went."""
        self._stage(session, changes.filter(pc.less(changes.column(CHANGE_WEIGHT), 0)))
        session.execute(delete_gone(self._table, self._name))

    def _stage(self, session: Connection, changes: pa.Table) -> None:
        rows = self._cast_rows(changes).append_column(WEIGHT, changes.column(CHANGE_WEIGHT))
        session.execute(create_stage(self._table))
        copy_rows(session, STAGE, self._table.add_hashes(rows))
        session.execute(sql.SQL("ANALYZE {}").format(STAGE))

    def _exchange(self, session: Connection, changes: pa.Table) -> None:
        weights = changes.column(CHANGE_WEIGHT).to_numpy()
        expected = int(-weights[weights < 0].sum())
        deleted = session.execute(delete_gone(self._table, self._name)).rowcount if expected else 0
        if deleted != expected:
            raise self._say_altered(expected - deleted)
        session.execute(insert_new(self._table, self._name))

    def _merge(self, session: Connection) -> None:
        counted = session.execute(count_keys(self._table)).fetchone()
        assert counted is not None
        if counted["repeated"]:
            raise self._not_a_key()
        done = session.execute(merge(self._table, self._name)).rowcount
        if done != counted["keys"]:
            raise self._say_altered(counted["keys"] - done)

    def _cast_rows(self, rows: pa.Table) -> pa.Table:
        """The view's columns, in the order of the table."""
        columns = {field.name: rows.column(field.name).cast(arrow_type(field.type)) for field in self._table.columns}
        return pa.table(columns)

    # The table

    @property
    def _name(self) -> sql.Identifier:
        return sql.Identifier(*self._place)

    @property
    def _key(self) -> str:
        return str(TableName(*self._place))

    def _find(self, session: Connection) -> _TableState:
        """Waits until nobody else changes the table, and keeps others waiting."""
        session.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))", [self._key, _LOCK])
        note = session.execute(_FIND_NOTE, {"table": self._key}).fetchone()
        table = session.execute(_FIND_TABLE, self._place).fetchone()
        return _TableState(note, None if table is None else table["comment"])

    def _make(self, session: Connection) -> None:
        session.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self._name))
        for statement in create(self._table, self._name):
            session.execute(statement)

    def _note(self, t: int) -> dict[str, object]:
        table = self._table
        return {
            "table": self._key,
            "t": t,
            "epoch": self._epoch,
            "project": table.project,
            "contract": table.contract,
            "view": table.view,
            "shape": table.structure,
            "meaning": table.meaning,
        }

    # Refusals

    def _check_ours(self, found: _TableState) -> None:
        note, table = found.note, self._table
        if found.comment is not None and (note is None or not found.comment.startswith(OURS)):
            what = f'table {show_table(self._key)} of contract "{table.contract}"'
            raise NotOurs(
                f"{what} already exists, and was not created by Headrace",
                hint="deliver to another table, or drop or rename this one",
            )
        if note is None:
            return
        if (note["project"], note["contract"]) != (table.project, table.contract):
            owner = f'contract "{note["contract"]}" of project "{note["project"]}"'
            raise NotOurs(
                f"table {show_table(self._key)} belongs to {owner}",
                hint=f'give contract "{table.contract}" a table of its own',
            )
        if note["epoch"] > self._epoch:
            raise self._say_fenced()

    def _refuse(self, session: Connection, after: int) -> NoReturn:
        found = self._find(session)
        self._check_ours(found)
        if found.note is not None and found.note["epoch"] != self._epoch:
            raise self._say_fenced()
        at = "nowhere" if found.note is None else f"at {found.note['t']}"
        raise Conflict(f"table {show_table(self._key)} is {at}, not at {after}")

    def _say_fenced(self) -> Fenced:
        return Fenced(
            f'another service has taken over table {show_table(self._key)} of contract "{self._table.contract}"'
        )

    def _say_altered(self, missing: int) -> ConnectError:
        return ConnectError(
            f"table {show_table(self._key)} was changed by someone else: {missing} rows are not as they were delivered",
            hint=f'DROP TABLE {self._key}; contract "{self._table.contract}" then creates it again',
        )

    def _not_a_key(self) -> ConnectError:
        columns = ", ".join(f'"{column}"' for column in self._table.key)
        return ConnectError(
            f'columns {columns} are not a key of view "{self._table.view}": a value is NULL or occurs twice',
            hint="name columns that are unique in the view, or no key",
        )

    @contextmanager
    def _naming_rows(
        self, times: tuple[int | None, int], prepare: Callable[[Connection], object], came: Callable[[], pa.Table]
    ) -> Iterator[None]:
        """Where a row is refused, RefusedRow says which of those that came; `prepare` leaves the table as they find it.

        Tables with a key have their own words for rows that break it.
        """
        try:
            yield
        except ConnectError as error:
            if self._table.key or not isinstance(error.__cause__, REFUSALS):
                raise
            refusal = (*times, error.message)
            if refusal not in self._searched:
                self._search(refusal, prepare, came())
            known = self._searched.get(refusal)
            if known is None:
                raise
            # A new one each time: one that is kept would keep the rows too, by its traceback.
            raise RefusedRow(known.message, known.hint or "", known.row, known.column) from error.__cause__

    def _search(self, refusal: _Refusal, prepare: Callable[[Connection], object], came: pa.Table) -> None:
        """Finds no row if others changed the table meanwhile; next time it may."""
        columns = [field.name for field in self._table.columns]
        self._searched = {}
        try:
            session = self._connect()
            with session.transaction(force_rollback=True):
                for limit in LIMITS:
                    session.execute(limit)
                prepare(session)
                found = find_refused_row(session, self._name, self._table.add_hashes(self._cast_rows(came)), columns)
        except errors.QueryCanceled:
            found = None  # it took too long, and would again
        except (psycopg.Error, ConnectError):
            return
        self._searched = {refusal: found}

    # Sessions

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """All or nothing. When the connection breaks during the commit nobody knows which; `delivered` tells."""
        try:
            session = self._connect()
            with session.transaction():
                yield session
        except (errors.UniqueViolation, errors.NotNullViolation) as error:
            if not self._table.key:
                raise self._unusable(error) from error
            raise self._not_a_key() from error
        except psycopg.Error as error:
            raise self._unusable(error) from error

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
        return ConnectError(f"table {show_table(self._table.table)} cannot be written: {said}", hint)

    def _connect(self) -> Connection:
        if self._session is None or self._session.closed:
            try:
                dsn = make_conninfo("", **{"application_name": "headrace delivery", **conninfo_to_dict(self._dsn)})
            except psycopg.ProgrammingError:
                hint = "write postgresql://USER:PASSWORD@HOST/DATABASE, escaped as in a URL"
                raise ConnectError(
                    f"the address of table {show_table(self._table.table)} cannot be read", hint
                ) from None
            self._session = connect_session(dsn)
        if not self._prepared:
            self._prepare(self._session)
        return self._session

    def _prepare(self, session: Connection) -> None:
        row = session.execute(
            "SELECT to_regclass('headrace.deliveries') IS NOT NULL AS there, current_schema() AS schema"
        ).fetchone()
        assert row is not None
        asked = read_table_name(self._table.table)
        self._place = (asked.schema or row["schema"] or "public", asked.name)
        if not row["there"]:
            with session.transaction():
                session.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
                for statement in _MAKE:
                    session.execute(statement)
        self._prepared = True


_MAKE = (
    "CREATE SCHEMA IF NOT EXISTS headrace",
    """CREATE TABLE IF NOT EXISTS headrace.deliveries (
        "table" text PRIMARY KEY, t bigint NOT NULL, epoch bigint NOT NULL, project text NOT NULL,
        contract text NOT NULL, view text NOT NULL, shape text NOT NULL, meaning text NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now())""",
    """COMMENT ON TABLE headrace.deliveries IS 'Tables that Headrace keeps, each with the time its rows are as of: t, in
microseconds since 1970 (to_timestamp(t / 1e6)).'""",
)
_FIND_NOTE = 'SELECT * FROM headrace.deliveries WHERE "table" = %(table)s FOR UPDATE'
_FIND_TABLE = """
SELECT coalesce(obj_description(c.oid, 'pg_class'), '') AS comment
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_TAKE = 'UPDATE headrace.deliveries SET epoch = %(epoch)s WHERE "table" = %(table)s AND epoch < %(epoch)s'
_MOVE = """
UPDATE headrace.deliveries SET t = %(upto)s, changed_at = now()
WHERE "table" = %(table)s AND t = %(after)s AND epoch = %(epoch)s
"""
_NOTE = """
INSERT INTO headrace.deliveries ("table", t, epoch, project, contract, view, shape, meaning)
VALUES (%(table)s, %(t)s, %(epoch)s, %(project)s, %(contract)s, %(view)s, %(shape)s, %(meaning)s)
ON CONFLICT ("table") DO UPDATE SET t = excluded.t, epoch = excluded.epoch, view = excluded.view,
    shape = excluded.shape, meaning = excluded.meaning, changed_at = now()
"""
