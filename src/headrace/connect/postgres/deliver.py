"""Keeps a table in PostgreSQL equal to a view: every step changes rows and the time they are as of in one transaction.

Times are in `headrace.deliveries` (`delivery_notes.py`), one row for each table, with the epoch of the service that may
change it. A service takes its tables over when it asks how far they are, and an earlier one is fenced off from then on.
A table that is not ours is never touched. One of ours that somebody else has changed is noticed, by the transactions
that have written its rows, and is filled again. Nothing waits for a lock for longer than a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString, NoReturn

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import errors, sql

from headrace.connect.postgres import delivery_notes as notes
from headrace.connect.postgres.copy_access import CopyAccess
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
from headrace.connect.postgres.sessions import Connection
from headrace.model.errors import Conflict, ConnectError, CopyChanged, Fenced, NotOurs, RefusedRow
from headrace.model.table_name import show_table
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.changes import WEIGHT as CHANGE_WEIGHT


@dataclass(frozen=True, slots=True)
class _TableState:
    """What is there: our note about the table, and the table's comment (None if it does not exist) and columns."""

    note: dict[str, Any] | None
    comment: str | None
    columns: tuple[str, ...] = ()


_Refusal = tuple[int | None, int, str]
"""After which time, up to which, and what was said."""


class PostgresDelivery:
    """One table. Connects when it is first needed, and again after the connection broke."""

    def __init__(self, dsn: str, table: DeliveredTable, epoch: int) -> None:
        if wrong := table.wrong_names():
            hint = f'rename it in the view: at most {LONGEST_NAME} bytes, and not starting with "{RESERVED}"'
            raise ConnectError(f'column "{wrong[0]}" of view "{table.view}" cannot be delivered to PostgreSQL', hint)
        self._access = CopyAccess(dsn, table.table)
        self._table = table
        self._epoch = epoch
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
            session.execute(notes.TAKE, {"epoch": self._epoch, "table": self._key})
            if (note["shape"], note["meaning"]) != (self._table.structure, self._table.meaning):
                return None
            if note["rows"] is None or not self._table.has_columns(found.columns):
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
            session.execute(notes.FORGET_STEPS, {"table": self._key})
            session.execute(notes.STEP, {"table": self._key})
            session.execute(notes.NOTE, {**self._note(t), "rows": rows.num_rows})

    def apply(self, changes: pa.Table, after: int, upto: int) -> None:
        with (
            self._naming_rows(
                (after, upto), lambda session: self._delete(session, changes), lambda: choose_rows_to_try(changes)
            ),
            self._transaction() as session,
        ):
            more = pc.sum(changes.column(CHANGE_WEIGHT)).as_py() or 0
            said = {"table": self._key, "after": after, "upto": upto, "epoch": self._epoch, "more": more}
            if session.execute(notes.MOVE, said).rowcount != 1:
                self._refuse(session, after)
            if changes.num_rows:
                # First: the changes are sent in vain while somebody else has the table.
                session.execute(sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(self._name))
                self._stage(session, changes)
                self._merge(session) if self._table.key else self._exchange(session, changes)
                session.execute(notes.STEP, {"table": self._key})

    def check(self, t: int) -> None:
        """Reads the whole table, in one snapshot and without any lock that others would notice."""
        with self._transaction() as session:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            session.execute("SET LOCAL max_parallel_workers_per_gather = 0")
            found = self._look(session, 'SELECT * FROM headrace.deliveries WHERE "table" = %(table)s')
            self._check_ours(found)
            self._check_same(found, t)
            known = session.execute(notes.READ_STEPS, {"table": self._key}).fetchone()
            assert known is not None and found.note is not None, "it is of the same snapshot"
            counted = session.execute(sql.SQL(notes.COUNT_ROWS).format(table=self._name), known).fetchone()
            assert counted is not None
        if counted["others"] or counted["rows"] != found.note["rows"]:
            raise self._say_changed(_say_difference(counted, found.note["rows"]))
        if known["steps"]:
            self._note_verified(known["horizon"])

    def _note_verified(self, horizon: str) -> None:
        """Whatever ended before the check needs not be known any more."""
        with self._transaction() as session:
            said = {"table": self._key, "epoch": self._epoch, "horizon": horizon}
            if session.execute(notes.VERIFIED, said).rowcount == 1:
                session.execute(notes.FORGET_OLD_STEPS, said)

    def drop(self) -> None:
        with self._transaction() as session:
            found = self._find(session)
            if found.note is None and not self._table.is_described_by(found.comment):
                return
            self._check_ours(found)
            session.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self._name))
            for forget in (notes.FORGET, notes.FORGET_STEPS):
                session.execute(forget, {"table": self._key})

    def close(self) -> None:
        self._access.close()

    # Changes

    def _empty(self, session: Connection) -> bool:
        """An empty table; whether it was there already."""
        found = self._find(session)
        self._check_ours(found)
        kept = (
            found.note is not None
            and found.comment is not None
            and found.note["shape"] == self._table.structure
            and self._table.has_columns(found.columns)
        )
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
            raise self._say_changed(f"{expected - deleted} rows are not as they were delivered")
        session.execute(insert_new(self._table, self._name))

    def _merge(self, session: Connection) -> None:
        counted = session.execute(count_keys(self._table)).fetchone()
        assert counted is not None
        if counted["repeated"]:
            raise self._not_a_key()
        done = session.execute(merge(self._table, self._name)).rowcount
        if done != counted["keys"]:
            raise self._say_changed(f"{counted['keys'] - done} rows are not as they were delivered")

    def _cast_rows(self, rows: pa.Table) -> pa.Table:
        """The view's columns, in the order of the table."""
        columns = {field.name: rows.column(field.name).cast(arrow_type(field.type)) for field in self._table.columns}
        return pa.table(columns)

    # The table

    @property
    def _name(self) -> sql.Identifier:
        return sql.Identifier(*self._access.place)

    @property
    def _key(self) -> str:
        return self._access.key

    def _find(self, session: Connection) -> _TableState:
        """Waits until nobody else changes the table, and keeps others waiting."""
        session.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))", [self._key, notes.LOCK])
        return self._look(session, notes.FIND_NOTE)

    def _look(self, session: Connection, find_note: LiteralString) -> _TableState:
        note = session.execute(find_note, {"table": self._key}).fetchone()
        table = session.execute(notes.FIND_TABLE, self._access.place).fetchone()
        return (
            _TableState(note, None) if table is None else _TableState(note, table["comment"], tuple(table["columns"]))
        )

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
        # If the note is lost, the comment alone says whose table it is.
        is_ours = found.comment is None or (
            found.comment.startswith(OURS) and (note is not None or table.is_described_by(found.comment))
        )
        if not is_ours:
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

    def _check_same(self, found: _TableState, t: int) -> None:
        """Raises CopyChanged for a table that is not the one that was delivered to, whatever its rows are."""
        if found.comment is None:
            raise self._say_changed("it was dropped")
        if found.note is None or found.note["rows"] is None:
            raise self._say_changed("its row in headrace.deliveries is missing")
        if not self._table.has_columns(found.columns):
            raise self._say_changed("its columns are others")
        if found.note["t"] != t:
            raise self._say_changed("it was restored as of another time")

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

    def _say_changed(self, how: str) -> CopyChanged:
        return CopyChanged(
            f"table {show_table(self._key)} was changed by someone else: {how}",
            hint="the service fills it again; whoever changes it should write to another table",
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
            session = self._access.connect()
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
        with self._access.transaction() as session:
            try:
                yield session
            except (errors.UniqueViolation, errors.NotNullViolation) as error:
                if self._table.key:
                    raise self._not_a_key() from error
                raise


def _say_difference(counted: dict[str, Any], delivered: int) -> str:
    """How the rows that were found differ from those that were delivered."""
    others, rows = counted["others"], counted["rows"]
    written = f"{others} {'row' if others == 1 else 'rows'} of it {'was' if others == 1 else 'were'} written"
    fewer = f"it has {rows} rows instead of {delivered}"
    return f"{written}, and {fewer}" if others and rows != delivered else written if others else fewer
