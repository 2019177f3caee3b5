"""Names the sessions and transactions that others wait for in a database, and says what ends the wait.

Three things of ours can wait for other people: reading or publishing a table that somebody has locked, reading one to
which somebody wrote before it was published, and making a slot, which PostgreSQL does only once all transactions have
ended that are open then. A statement of ours that takes long is watched as well: others wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from headrace.connect.postgres.sessions import Connection, connect_session
from headrace.model.errors import ConnectError
from headrace.model.table_name import TableName

LOOK_EVERY_S = 2.0
LONG_STATEMENT_S = 5.0
CANCEL_WITHIN_S = 5.0

T = TypeVar("T")


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


def say_writers(session: Connection, table: str, writers: Collection[str]) -> ConnectError:
    """Who keeps a table from being read: of these transactions, by their virtual ids, the oldest."""
    row = session.execute(_WRITERS, {"writers": list(writers)}).fetchone()
    what = f"table {table} can be read only after the transactions have ended that wrote to it before it was published"
    if row is None:
        return ConnectError(what, "it continues once they have ended")
    return ConnectError(f"{what}: {_name_holder(row)}", _say_end(row))


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


def run_watched(session: Connection, dsn: str, work: Callable[[], T], tell: Callable[[str | None], None]) -> T:
    """Runs a statement of the session in a thread of its own, because it may take long.

    Every few seconds while the server is at work on it, `tell` hears so in the caller's thread, and since when it is if
    that is long. It hears nothing of a server that does not answer.
    """
    future: Future[T] = Future()
    threading.Thread(target=_settle, args=(future, work), daemon=True, name="statement").start()
    started = time.monotonic()
    try:
        while not wait([future], LOOK_EVERY_S).done:
            since = _find_statement(dsn, session.info.backend_pid)
            if since is not None:
                tell(since if time.monotonic() - started >= LONG_STATEMENT_S else None)
    except BaseException:
        session.cancel_safe(timeout=CANCEL_WITHIN_S)  # whoever ends its transaction would wait for it
        raise
    return future.result()


def _settle(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def _find_statement(dsn: str, pid: int) -> str | None:
    """Finds since when a process of the server is at work on a statement; None if it is not, or nobody can say."""
    query = (
        "SELECT to_char(query_start AT TIME ZONE 'UTC', 'HH24:MI:SS') || ' UTC' AS since FROM pg_stat_activity"
        " WHERE pid = %s AND state = 'active'"
    )
    try:
        with connect_session(dsn) as session:
            row = session.execute(query, [pid]).fetchone()
    except (ConnectError, psycopg.Error):
        return None
    return None if row is None else str(row["since"])


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
_BY_LOCKS = f"""
SELECT {_HOLDER} FROM locked l JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.pid <> pg_backend_pid()
UNION ALL SELECT {_PREPARED} FROM locked l JOIN pg_prepared_xacts p
    ON l.pid IS NULL AND split_part(l.virtualtransaction, '/', 2) = p.transaction::text
ORDER BY since NULLS LAST, pid LIMIT 1
"""
_WRITERS = f"""
WITH locked AS (
    SELECT DISTINCT l.pid, l.virtualtransaction FROM pg_locks l WHERE l.virtualtransaction = ANY(%(writers)s)
)
{_BY_LOCKS}
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
{_BY_LOCKS}
""".encode()
