"""What `headrace.deliveries` says of the tables that we deliver to, and the statements that read and change it.

    deliveries       a row for each table: whose it is, the time of its rows, how many there are, who may change it
    delivery_steps   the transactions of ours that have written to each table since it was last checked

Both change in the transactions that change the rows. A row of a table whose transaction (`xmin`) is none of the steps,
and is not older than `verified`, was written by somebody else.
"""

from __future__ import annotations

import psycopg
from psycopg import errors

from headrace.connect.postgres.sessions import Connection

LOCK = 0x4845_4144_4445_4C49
"""Advisory locks' number, ours alone by improbability: only one service makes a table at a time."""
NOTES = "headrace.deliveries"
LOST = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)
"""What is raised where somebody has dropped these tables."""

_THERE = """
SELECT to_regclass('headrace.delivery_steps') IS NOT NULL AND EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = to_regclass('headrace.deliveries') AND attname = 'verified'
) AS there, current_schema() AS schema
"""
_MAKE = (
    "CREATE SCHEMA IF NOT EXISTS headrace",
    """CREATE TABLE IF NOT EXISTS headrace.deliveries (
        "table" text PRIMARY KEY, t bigint NOT NULL, epoch bigint NOT NULL, project text NOT NULL,
        contract text NOT NULL, view text NOT NULL, shape text NOT NULL, meaning text NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now())""",
    "ALTER TABLE headrace.deliveries ADD COLUMN IF NOT EXISTS rows bigint",
    "ALTER TABLE headrace.deliveries ADD COLUMN IF NOT EXISTS verified xid8",
    'CREATE TABLE IF NOT EXISTS headrace.delivery_steps ("table" text NOT NULL, step xid8 NOT NULL)',
    """COMMENT ON TABLE headrace.deliveries IS 'Tables that Headrace keeps, each with the time its rows are as of: t, in
microseconds since 1970 (to_timestamp(t / 1e6)).'""",
    """COMMENT ON TABLE headrace.delivery_steps IS 'Transactions in which Headrace has written to its tables since it
last checked them: rows of others are found by these.'""",
)
FIND_NOTE = 'SELECT * FROM headrace.deliveries WHERE "table" = %(table)s FOR UPDATE'
FIND_TABLE = """
SELECT coalesce(obj_description(c.oid, 'pg_class'), '') AS comment, ARRAY(
    SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
) AS columns
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
TAKE = 'UPDATE headrace.deliveries SET epoch = %(epoch)s WHERE "table" = %(table)s AND epoch < %(epoch)s'
MOVE = """
UPDATE headrace.deliveries SET t = %(upto)s, rows = rows + %(more)s, changed_at = now()
WHERE "table" = %(table)s AND t = %(after)s AND epoch = %(epoch)s
"""
NOTE = """
INSERT INTO headrace.deliveries ("table", t, epoch, project, contract, view, shape, meaning, rows, verified)
VALUES (%(table)s, %(t)s, %(epoch)s, %(project)s, %(contract)s, %(view)s, %(shape)s, %(meaning)s, %(rows)s,
    pg_snapshot_xmin(pg_current_snapshot()))
ON CONFLICT ("table") DO UPDATE SET t = excluded.t, epoch = excluded.epoch, project = excluded.project,
    contract = excluded.contract, view = excluded.view, shape = excluded.shape, meaning = excluded.meaning,
    rows = excluded.rows, verified = excluded.verified, changed_at = now()
"""
STEP = """INSERT INTO headrace.delivery_steps ("table", step) VALUES (%(table)s, pg_current_xact_id())"""
FORGET_STEPS = 'DELETE FROM headrace.delivery_steps WHERE "table" = %(table)s'
FORGET = 'DELETE FROM headrace.deliveries WHERE "table" = %(table)s'
READ_STEPS = """
SELECT verified::text AS verified, pg_snapshot_xmin(pg_current_snapshot())::text AS horizon,
    ARRAY(SELECT step::xid::text FROM headrace.delivery_steps s WHERE s."table" = d."table") AS steps
FROM headrace.deliveries d WHERE "table" = %(table)s
"""
# `age` of a transaction counts back from now, so that numbers that have begun again from the start do not matter.
COUNT_ROWS = """
SELECT count(*) AS rows, count(*) FILTER (
    WHERE age(r.xmin) <= age((%(verified)s)::xid8::xid) AND NOT r.xmin = ANY ((%(steps)s)::xid[])
) AS others FROM {table} r
"""
VERIFIED = """
UPDATE headrace.deliveries SET verified = (%(horizon)s)::xid8 WHERE "table" = %(table)s AND epoch = %(epoch)s
"""
FORGET_OLD_STEPS = """
DELETE FROM headrace.delivery_steps WHERE "table" = %(table)s AND step < (%(horizon)s)::xid8
"""


def make_notes(session: Connection) -> str | None:
    """Makes the tables where they are missing; the first schema of the role's search path."""
    row = session.execute(_THERE).fetchone()
    assert row is not None
    if not row["there"]:
        with session.transaction():
            session.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            for statement in _MAKE:
                session.execute(statement.encode())
    schema: str | None = row["schema"]
    return schema


def is_lost(error: psycopg.Error) -> bool:
    """Whether the tables may have been dropped since they were made."""
    return isinstance(error, LOST)
