"""An event trigger of ours in a source's database, which writes into the log what captured tables are after each DDL.

A look every few seconds does not see a change that was made and undone since the last one. With the trigger the log
has a look of its own (`table_look`) for each statement that may change a table, in the statement's own transaction, so
that it comes by in its order. The function swallows every error of its own: it can never break somebody's DDL. It runs
as whoever runs the statement, and gives nobody any right.

It is kept in a schema of the capture's name, of which there is one for each project and database: with the schema,
everything goes.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable
from typing import LiteralString

import psycopg
from psycopg import sql

from headrace.connect.postgres.facts import Hindrance
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import CaptureNames, dropping_trigger
from headrace.connect.postgres.table_look import LOOK, AskedTable, MissingTable, SeenTable, read_look
from headrace.model.table_name import quote_name

log = logging.getLogger("headrace.capture")

TOLD = "look:"
"""Marks of the trigger begin so. The slot's name follows, and what was seen, as JSON."""
TAGS = (
    "ALTER DOMAIN",
    "ALTER INDEX",
    "ALTER PUBLICATION",
    "ALTER SCHEMA",
    "ALTER TABLE",
    "ALTER TYPE",
    "CREATE INDEX",
    "CREATE PUBLICATION",
    "CREATE TABLE",
    "CREATE TABLE AS",
    "CREATE VIEW",
    "SELECT INTO",
)
"""Statements that may change what a capture relies on, without dropping anything."""
EVENTS = ("ddl_command_end", "sql_drop")


def keep_trigger(session: Connection, names: CaptureNames, tables: Iterable[AskedTable]) -> Hindrance | None:
    """Makes the trigger tell of these tables, if it does not; why it cannot.

    Safe to repeat: one that is as it should be is left alone.
    """
    body = _write_body(names, tables)
    try:
        with session.transaction():
            if not _is_there(session, names, body):
                _create_trigger(session, names, body)
    except psycopg.errors.InsufficientPrivilege as error:
        role = session.info.user
        what = f'role "{role}" may not create the event trigger that `watch: trigger` asks for'
        hint = f"ALTER ROLE {quote_name(role)} SUPERUSER;   or leave out `watch: trigger`"
        if "owner" in (error.diag.message_primary or ""):
            hint = f"as a superuser: DROP SCHEMA {quote_name(names.slot)} CASCADE;   or leave out `watch: trigger`"
        return Hindrance(what, hint)
    except psycopg.errors.LockNotAvailable:
        return Hindrance("another session keeps the event trigger from being created", "wait: it is tried again")
    except psycopg.ProgrammingError as error:  # such as that the database has no plpgsql
        said = error.diag.message_primary
        return Hindrance(
            f"the event trigger cannot be created: {said}", "fix what it names, or leave out `watch: trigger`"
        )
    return None


def drop_trigger(session: Connection, names: CaptureNames) -> None:
    """Does nothing where there is no trigger, or where it is not ours to drop. If somebody keeps it locked, the next
    capture drops it.
    """
    with contextlib.suppress(psycopg.errors.LockNotAvailable):
        for statement in dropping_trigger(session, names):
            session.execute(statement)


def try_trigger(session: Connection, names: CaptureNames) -> Hindrance | None:
    """Why the trigger could not be made now; None if it could, or is there."""
    with session.transaction(force_rollback=True):
        if session.execute(_TRIGGERS, {"schema": names.slot}).fetchone() is not None:
            return None
        return keep_trigger(session, names, ())


def read_told(content: bytes, names: CaptureNames) -> dict[str, SeenTable | MissingTable]:
    """What the trigger of this capture saw; nothing for any other mark.

    Every role that may connect can write such a mark. One that does not make sense is passed over: raising would let
    anybody stop the capture for good, since the log brings the mark again.
    """
    mark = f"{TOLD}{names.slot}:".encode()
    if not content.startswith(mark):
        return {}
    try:
        return read_look(json.loads(content.removeprefix(mark)))
    except Exception as error:  # whatever it is: nobody of ours wrote it
        log.warning("a message in the log that looks like one of the event trigger makes no sense: %s", error)
        return {}


def _is_there(session: Connection, names: CaptureNames, body: str) -> bool:
    found = {row["event"]: row for row in session.execute(_TRIGGERS, {"schema": names.slot})}
    # Not only those that fire in ordinary sessions: a session of role "replica" changes tables as well.
    return set(found) == set(EVENTS) and all(row["source"] == body and row["enabled"] == "A" for row in found.values())


def _create_trigger(session: Connection, names: CaptureNames, body: str) -> None:
    schema, function = sql.Identifier(names.slot), sql.Identifier(names.slot, "tell")
    session.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(schema))
    session.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
    session.execute(_CREATE_FUNCTION.format(function, sql.Literal(body)))
    for event in EVENTS:
        name = sql.Identifier(_name_trigger(names, event))
        tags = sql.SQL(", ").join(map(sql.Literal, TAGS))
        when = sql.SQL(" WHEN TAG IN ({})").format(tags) if event == EVENTS[0] else sql.SQL("")
        session.execute(_CREATE_TRIGGER.format(name, sql.Identifier(event), when, function))
        session.execute(sql.SQL("ALTER EVENT TRIGGER {} ENABLE ALWAYS").format(name))


def _name_trigger(names: CaptureNames, event: str) -> str:
    """No longer than a name may be: slots have room for what names of publications end with."""
    return names.slot if event == EVENTS[0] else f"{names.slot}_drop"


def _write_body(names: CaptureNames, tables: Iterable[AskedTable]) -> str:
    asked = json.dumps([table.to_json() for table in tables], sort_keys=True)
    look = LOOK.replace("%(asked)s", sql.Literal(asked).as_string()).replace("%%", "%")
    mark = sql.Literal(f"{TOLD}{names.slot}:").as_string()
    return _BODY.replace("LOOK_QUERY", look).replace("OUR_MARK", mark)


_BODY: LiteralString = """
DECLARE
    seen text;
BEGIN
    IF tg_event = 'sql_drop' THEN
        IF NOT EXISTS (SELECT FROM pg_event_trigger_dropped_objects() WHERE NOT is_temporary) THEN RETURN; END IF;
    ELSIF NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS DISTINCT FROM 'pg_temp') THEN
        RETURN;
    END IF;
    SELECT json_agg(row_to_json(look))::text INTO seen FROM (LOOK_QUERY) AS look;
    PERFORM pg_logical_emit_message(true, 'headrace', OUR_MARK || seen);
EXCEPTION WHEN OTHERS THEN
    RETURN;  -- whatever it is: nobody's statement may fail because of us
END
"""
_CREATE_FUNCTION = sql.SQL(
    "CREATE FUNCTION {}() RETURNS event_trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS {}"
)
_CREATE_TRIGGER = sql.SQL("CREATE EVENT TRIGGER {} ON {}{} EXECUTE FUNCTION {}()")
_TRIGGERS = """
SELECT e.evtevent::text AS event, e.evtenabled::text AS enabled, p.prosrc AS source
FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = %(schema)s AND p.proname = 'tell'
"""
