"""Names, creates and removes the slot and publications of a capture, and reads how much log a slot keeps."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg import sql

from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.waits import find_open_transactions
from headrace.model.errors import ConnectError
from headrace.model.table_name import quote_name
from headrace.run.capture.position import parse_lsn

LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class CaptureNames:
    """What a capture is called in the database."""

    slot: str
    tables: str
    streams: str

    @property
    def publications(self) -> tuple[str, str]:
        return self.tables, self.streams

    @property
    def lease(self) -> str:
        """Held by who captures with the slot, or by who drops it."""
        return f"slot:{self.slot}"


def capture_names(project: str, database: str) -> CaptureNames:
    """Names of slots and publications: equal for the same project and database, and different for others."""
    digest = hashlib.sha256(f"{project}\0{database}".encode()).hexdigest()[:8]
    readable = re.sub(r"[^a-z0-9]+", "_", f"{project}_{database}".lower()).strip("_")
    name = f"headrace_{readable}"[: LONGEST_NAME - len(f"_streams_{digest}")].rstrip("_")
    return CaptureNames(f"{name}_{digest}", f"{name}_{digest}", f"{name}_streams_{digest}")


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table as SQL names it."""

    schema: str
    name: str

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    @property
    def sql_name(self) -> str:
        """The name to paste into SQL."""
        return f"{quote_name(self.schema)}.{quote_name(self.name)}"


def create_slot(session: Connection, slot: str, temporary: bool = False, within_s: float | None = None) -> int:
    """The log from the returned position on is kept. Waits for the transactions that are open now.

    Raises ConnectError that says how to fix it, also if they are still open after `within_s` seconds. A slot that is
    temporary goes with its session.
    """
    query = "SELECT lsn::text AS lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput', %s)"
    try:
        with session.transaction():
            session.execute("SET LOCAL lock_timeout = 0")  # it waits for transactions by their locks
            if within_s is not None:
                session.execute(sql.SQL("SET LOCAL statement_timeout = {}").format(round(within_s * 1000)))
            found = session.execute(query, [slot, temporary]).fetchone()
    except psycopg.errors.QueryCanceled:
        slow = ConnectError("creating a replication slot takes a long time", "it continues by itself")
        raise find_open_transactions(session) or slow from None
    except psycopg.Error as error:
        raise _no_slot(session, error) from error
    assert found is not None
    return parse_lsn(found["lsn"])


def _no_slot(session: Connection, error: psycopg.Error) -> ConnectError | psycopg.Error:
    """What is wrong in our words, if we know it."""
    match error:
        case psycopg.errors.InsufficientPrivilege():
            role = session.info.user
            return ConnectError(f'role "{role}" may not replicate', f"ALTER ROLE {quote_name(role)} REPLICATION;")
        case psycopg.errors.ConfigurationLimitExceeded():
            return ConnectError("all replication slots of the server are in use", free_a_slot(session))
        case psycopg.errors.ObjectNotInPrerequisiteState():
            return ConnectError(f"no replication slot can be created: {error.diag.message_primary}", LOGICAL)
        case _:
            return error


def free_a_slot(session: Connection) -> str:
    """The SQL that makes room for one more slot."""
    row = session.execute(_SLOTS).fetchone()
    assert row is not None
    more = f"ALTER SYSTEM SET max_replication_slots = {row['allowed'] + 5};   then restart PostgreSQL"
    if row["idle"] is None:
        return more
    return f"SELECT pg_drop_replication_slot({row['idle']});   if nobody needs it, or {more}"


LOGICAL = "ALTER SYSTEM SET wal_level = 'logical';   then restart PostgreSQL"
_SLOTS = """
SELECT current_setting('max_replication_slots')::int AS allowed,
       (SELECT quote_literal(slot_name) FROM pg_replication_slots WHERE NOT active ORDER BY slot_name LIMIT 1) AS idle
"""


def remove_capture(session: Connection, names: CaptureNames, called_off: Callable[[], bool] = lambda: False) -> None:
    """Slot, publications and trigger, as if there had been no capture. Does nothing where they are not there.

    May be called off between any two steps. The slot goes first: one that outlived its publications could not be read
    any more. Publications that the owner of the tables made for us are not ours to drop.
    """
    rows = session.execute(_OUR_PUBLICATIONS, [list(names.publications)])
    drops = [sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(row["name"])) for row in rows]
    for statement in (*_dropping(names.slot), *dropping_trigger(session, names), *drops):
        if called_off():
            return
        session.execute(statement)


def drop_slot(session: Connection, slot: str) -> None:
    """Does nothing where there is no such slot. A session that still reads it is ended."""
    for statement in _dropping(slot):
        session.execute(statement)


def _dropping(slot: str) -> tuple[sql.Composed, ...]:
    return tuple(statement.format(sql.Literal(slot)) for statement in (_FREE_SLOT, _DROP_SLOT))


def dropping_trigger(session: Connection, names: CaptureNames) -> tuple[sql.Composed, ...]:
    """How to drop what `ddl_trigger` makes; nothing where it is not there, or belongs to somebody else."""
    found = session.execute(_OUR_SCHEMA, {"schema": names.slot}).fetchone()
    drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(names.slot))
    return () if found is None else (drop,)


_OUR_SCHEMA = """
SELECT 1 FROM pg_namespace WHERE nspname = %(schema)s AND pg_has_role(current_user, nspowner, 'USAGE')
"""
_FREE_SLOT = sql.SQL(
    "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots"
    " WHERE slot_name = {} AND active_pid IS NOT NULL"
)
_DROP_SLOT = sql.SQL("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = {}")
_OUR_PUBLICATIONS = """
SELECT pubname::text AS name FROM pg_publication
WHERE pubname = ANY(%s) AND pg_has_role(current_user, pubowner, 'USAGE') ORDER BY pubname
"""


@dataclass(frozen=True, slots=True)
class SlotState:
    """`kept_bytes` of log wait for us, `safe_bytes` more may come before the server throws them away (None: no limit).

    `wal_status` is PostgreSQL's word: reserved, extended, unreserved, lost. `confirmed_lsn` is where we are.
    """

    slot: str
    active: bool
    wal_status: str
    kept_bytes: int
    behind_bytes: int
    safe_bytes: int | None
    confirmed_lsn: int

    @property
    def lost(self) -> bool:
        return self.wal_status == "lost"


def slot_state(session: Connection, slot: str) -> SlotState | None:
    """None if there is no such slot in this database."""
    row = session.execute(_STATE, [slot]).fetchone()
    return None if row is None else SlotState(**{**row, "confirmed_lsn": parse_lsn(row["confirmed_lsn"])})


_STATE = """
SELECT slot_name::text AS slot, active, coalesce(wal_status, 'lost') AS wal_status,
       coalesce(pg_current_wal_lsn() - restart_lsn, 0)::bigint AS kept_bytes,
       coalesce(pg_current_wal_lsn() - confirmed_flush_lsn, 0)::bigint AS behind_bytes,
       safe_wal_size AS safe_bytes, coalesce(confirmed_flush_lsn, '0/0')::text AS confirmed_lsn
FROM pg_replication_slots
WHERE slot_name = %s AND slot_type = 'logical' AND database = current_database()
"""
