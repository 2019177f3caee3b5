"""Names the sessions and transactions that others wait for in a database, and says what ends the wait.

Two things of ours can wait for other people: reading or publishing a table that somebody has locked, and making a slot,
which PostgreSQL does only once all transactions have ended that are open then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from headrace.connect.postgres.sessions import Connection, connect_session
from headrace.model.errors import ConnectError
from headrace.model.table_name import TableName

LOOK_EVERY_S = 2.0


def say_locked(session: Connection, schema: str, name: str) -> ConnectError:
    """Why a table cannot be read or published now. The lock may be gone by the time this asks."""
    table = str(TableName(schema, name))
    row = session.execute(_LOCKERS, {"schema": schema, "name": name}).fetchone()
    if row is None:
        return ConnectError(f"table {table} is locked by another session", "it continues once the lock is released")
    return ConnectError(f"table {table} is locked by {_name_holder(row)}", _say_end(row))


def find_open_transactions(session: Connection, older_than_s: float = 0.0) -> ConnectError | None:
    """Who keeps a slot from being made: the transactions that have written something and are open, oldest first."""
    rows = session.execute(_OPEN_TRANSACTIONS, {"older_than_s": older_than_s}).fetchall()
    if not rows:
        return None
    more = len(rows) - 1
    others = f", and {more} more {'is' if more == 1 else 'are'} open" if more else ""
    what = f"a replication slot can be created only after all open transactions have ended: {_name_holder(rows[0])}"
    return ConnectError(f"{what}{others}", _say_end(rows[0]))


def say_silence(session: Connection, slot: str, silent_s: float) -> ConnectError:
    """Why nothing comes of a slot, as far as the server can tell."""
    row = session.execute("SELECT active_pid AS pid FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()
    since = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() - silent_s))
    what = f"the server has sent no changes since {since}"
    if row is None or row["pid"] is None:
        return ConnectError(f"{what}: nobody reads slot {slot}", "it continues by itself once the server answers")
    who = f"its process {row['pid']}, which sends them, stands still or is busy with much log"
    return ConnectError(
        f"{what}: {who}",
        f"on the server: `kill -CONT {row['pid']}` if somebody suspended it; it continues by itself then",
    )


@contextmanager
def watch_open_transactions(dsn: str, tell: Callable[[ConnectError], None]) -> Iterator[None]:
    """While this holds, `tell` hears from a thread of its own who keeps a slot from being made, every few seconds."""
    is_over = threading.Event()
    thread = threading.Thread(target=_watch, args=(dsn, is_over, tell), daemon=True, name="open transactions")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _watch(dsn: str, is_over: threading.Event, tell: Callable[[ConnectError], None]) -> None:
    while not is_over.wait(LOOK_EVERY_S):
        try:
            with connect_session(dsn) as session:
                found = find_open_transactions(session)
            if found is not None and not is_over.is_set():
                tell(found)
        except (ConnectError, psycopg.Error):
            continue  # whoever waits for the slot hears of it as well


def _name_holder(row: dict[str, Any]) -> str:
    since = f" since {row['since']}" if row["since"] else ""
    about = [f'user "{row["role"]}"'] if row["role"] else []
    about += [f'application "{row["application"]}"'] if row["application"] else []
    about += [f'database "{row["database"]}"'] if row["database"] else []
    told = f" ({', '.join(about)})" if about else ""
    if row["gid"] is not None:
        return f'prepared transaction "{row["gid"]}"{told}, open{since}'
    return f"process {row['pid']}{told}, in a transaction open{since}"


def _say_end(row: dict[str, Any]) -> str:
    if row["gid"] is not None:
        gid = "'" + row["gid"].replace("'", "''") + "'"
        return f'in database "{row["database"]}": COMMIT PREPARED {gid};   or ROLLBACK PREPARED {gid};'
    return f"end its transaction, or: SELECT pg_terminate_backend({row['pid']});"


# A role that may not see what others do gets no time of theirs: the rest is shown all the same.
_HOLDER = """
a.pid, a.usename::text AS role, nullif(a.application_name, '') AS application, a.datname::text AS database,
NULL::text AS gid, to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC' AS since
"""
_PREPARED = """
NULL::int AS pid, p.owner::text AS role, NULL::text AS application, p.database::text AS database,
p.gid::text AS gid, to_char(p.prepared AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC' AS since
"""
_OPEN_TRANSACTIONS = f"""
SELECT DISTINCT {_HOLDER} FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock' AND l.pid <> pg_backend_pid()
  AND coalesce(clock_timestamp() - a.xact_start >= make_interval(secs => %(older_than_s)s), true)
UNION ALL SELECT {_PREPARED} FROM pg_prepared_xacts p
WHERE clock_timestamp() - p.prepared >= make_interval(secs => %(older_than_s)s)
ORDER BY since NULLS LAST, pid
""".encode()
_LOCKERS = f"""
WITH locked AS (
    SELECT l.pid, l.virtualtransaction FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE l.locktype = 'relation' AND l.granted AND n.nspname = %(schema)s AND c.relname = %(name)s
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.mode IN ('AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock', 'ShareLock',
                     'ShareUpdateExclusiveLock')
)
SELECT {_HOLDER} FROM locked l JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.pid <> pg_backend_pid()
UNION ALL SELECT {_PREPARED} FROM locked l JOIN pg_prepared_xacts p
    ON l.pid IS NULL AND split_part(l.virtualtransaction, '/', 2) = p.transaction::text
ORDER BY since NULLS LAST, pid LIMIT 1
""".encode()
