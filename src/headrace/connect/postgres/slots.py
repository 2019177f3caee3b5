"""The slot and the publications of a capture: making them, removing them, and what they keep from being forgotten.

Two publications, because a table without a key could not be updated any more if its updates were published: tables are
published with all changes, streams with insertions only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from headrace.connect.postgres.inspect import Connection
from headrace.model.errors import ConnectError
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
    """The same for the same project and database, and different for others."""
    digest = hashlib.sha256(f"{project}\0{database}".encode()).hexdigest()[:8]
    readable = re.sub(r"[^a-z0-9]+", "_", f"{project}_{database}".lower()).strip("_")
    name = f"headrace_{readable}"[: LONGEST_NAME - len(f"_streams_{digest}")].rstrip("_")
    return CaptureNames(f"{name}_{digest}", f"{name}_{digest}", f"{name}_streams_{digest}")


@dataclass(frozen=True, slots=True)
class Table:
    """A table as SQL names it."""

    schema: str
    name: str

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


def publish(session: Connection, publication: str, tables: Sequence[Table], operations: str) -> tuple[Table, ...]:
    """Make the publication hold these tables and no others; the tables that were added to it."""
    rows = session.execute(
        "SELECT schemaname AS schema, tablename AS name FROM pg_publication_tables WHERE pubname = %s", [publication]
    )
    present = {Table(**row) for row in rows}
    there = session.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", [publication]).fetchone()
    name = sql.Identifier(publication)
    try:
        if not there:
            session.execute(sql.SQL("CREATE PUBLICATION {} WITH (publish = {})").format(name, sql.Literal(operations)))
        for table in sorted(present - set(tables), key=str):
            session.execute(sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(name, table.identifier))
        added = tuple(table for table in tables if table not in present)
        for table in added:
            session.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, table.identifier))
    except psycopg.errors.InsufficientPrivilege as error:
        listed = ", ".join(table.identifier.as_string(session) for table in tables)
        create = f"CREATE PUBLICATION {publication} FOR TABLE {listed} WITH (publish = '{operations}');"
        hint = f"let the owner of the tables run: {create}"
        raise ConnectError(f"the tables cannot be published: {error.diag.message_primary}", hint) from None
    return added


def create_slot(session: Connection, slot: str) -> int:
    """The log from the returned position on is kept. Waits for the transactions that are open now."""
    row = session.execute("SELECT lsn::text AS lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    found = row.fetchone()
    assert found is not None
    return parse_lsn(found["lsn"])


def remove_capture(session: Connection, names: CaptureNames, called_off: Callable[[], bool] = lambda: False) -> None:
    """Slot and publications, as if there had been no capture. Does nothing where they are not there.

    May be called off between any two steps. The slot goes first: one that outlived its publications could not be read
    any more. Publications that the owner of the tables made for us are not ours to drop.
    """
    slot = sql.Literal(names.slot)
    rows = session.execute(_OUR_PUBLICATIONS, [list(names.publications)])
    drops = [sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(row["name"])) for row in rows]
    for statement in (_FREE_SLOT.format(slot), _DROP_SLOT.format(slot), *drops):
        if called_off():
            return
        session.execute(statement)


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
