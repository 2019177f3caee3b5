"""Tells VACUUM FULL and CLUSTER of a partition from TRUNCATE: after these, it still has rows from before.

All three give a partition another file, and none is in the log of its table. In doubt a partition was truncated: one
that is empty, one whose rows are all new, one that is locked, or that our role may not read by itself.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import SqlTable

SEARCH_FOR, LOCK_WITHIN = "1s", "100ms"
OLDEST = 1 << 30
"""Numbers of transactions begin again after 2^32: those that are farther apart cannot be compared."""


def has_rows_from_before(session: Connection, oid: int, horizon: int) -> bool:
    """Whether a table has a row that was written before the transaction `horizon`, and so was there at that time.

    VACUUM FULL and CLUSTER leave with each row which transaction wrote it. An ALTER TABLE that rewrites a table, such
    as SET LOGGED, writes all rows anew.
    """
    try:
        with session.transaction():
            session.execute(f"SET LOCAL lock_timeout = '{LOCK_WITHIN}'".encode())
            session.execute(f"SET LOCAL statement_timeout = '{SEARCH_FOR}'".encode())
            return _search(session, oid, horizon)
    except (
        psycopg.errors.LockNotAvailable,
        psycopg.errors.QueryCanceled,
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.UndefinedTable,
    ):
        return False


def _search(session: Connection, oid: int, horizon: int) -> bool:
    row = session.execute(_TABLE, {"oid": oid}).fetchone()
    if row is None or row["horizon"] - horizon > OLDEST:
        return False
    query = sql.SQL("SELECT FROM ONLY {} WHERE tableoid = {} AND age(xmin) > age({}::text::xid) LIMIT 1")
    name = SqlTable(row["schema"], row["name"]).identifier
    return session.execute(query.format(name, oid, str(horizon % (1 << 32)))).fetchone() is not None


_TABLE = """
SELECT n.nspname::text AS schema, c.relname::text AS name,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %(oid)s
"""
