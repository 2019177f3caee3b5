"""Says who holds a lock that we waited for in vain: the process or prepared transaction, so that people can end it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.connect.postgres.sessions import Connection
from headrace.model.amounts import format_seconds

_HOLDERS = """
SELECT l.pid, l.mode, a.application_name AS program, a.usename AS role, a.state,
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS open_s, p.gid
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON l.pid IS NULL AND l.virtualtransaction = '-1/' || p.transaction::text
WHERE l.granted AND l.locktype = 'relation' AND l.pid IS DISTINCT FROM pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.relation IN (SELECT to_regclass(name)::oid FROM unnest(%s::text[]) AS name)
    AND l.mode <> 'AccessShareLock'
ORDER BY l.mode IN ('RowShareLock', 'RowExclusiveLock'), a.xact_start NULLS FIRST, l.pid
LIMIT 1
"""


def find_holder(session: Connection, tables: Sequence[str]) -> dict[str, Any] | None:
    """The transaction that most likely keeps others from tables: one with a lock on a whole table, else the oldest."""
    return session.execute(_HOLDERS, [list(tables)]).fetchone()


def say_holder(holder: dict[str, Any]) -> tuple[str, str]:
    """Who it is, and what to do."""
    if holder["pid"] is None:
        named = "a prepared transaction" if holder["gid"] is None else f"prepared transaction '{holder['gid']}'"
        do = "" if holder["gid"] is None else f": ROLLBACK PREPARED '{holder['gid']}', or COMMIT PREPARED"
        return named, f"end it{do}; the service keeps trying"
    known = [holder["program"] or "", holder["role"] or "", _say_state(holder)]
    told = ", ".join(part for part in known if part)
    who = f"process {holder['pid']}" + (f" ({told})" if told else "")
    return who, f"end its transaction, or: SELECT pg_terminate_backend({holder['pid']}); the service keeps trying"


def _say_state(holder: dict[str, Any]) -> str:
    if holder["open_s"] is None:
        return holder["state"] or ""
    return f"{holder['state'] or 'in a transaction'} for {format_seconds(round(holder['open_s']))}"
