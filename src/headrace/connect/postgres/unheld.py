"""Whether the value that stopped a source is still in its table: if not, the source can be read again.

A table with a key is asked for one row. One without is searched, for a second at most: the capture waits meanwhile. So
the next look waits for fifty times as long as the search took.
"""

from __future__ import annotations

import time

import psycopg

from headrace.connect.postgres.reading import TableQueries, texts_of_key
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import SqlTable
from headrace.connect.postgres.spool_target import SpoolTarget
from headrace.run.capture.spool import UnheldValue

SEARCH_FOR = "1s"
PAUSE = 50.0


def is_still_there(session: Connection, target: SpoolTarget, table: SqlTable) -> bool:
    """Says as well when it is time to look again. To be called within a transaction."""
    began, value = time.monotonic(), target.unheld
    if value is None:
        return False
    found = _search(session, TableQueries(session, target.captured, table), value)
    ended = time.monotonic()
    target.look_at = ended + PAUSE * (ended - began)
    return found


def _search(session: Connection, queries: TableQueries, value: UnheldValue) -> bool:
    """Also True where a second was not enough to find out."""
    try:
        key = None if value.key is None else texts_of_key(value.key)
    except UnicodeDecodeError:
        key = None
    query = queries.rows_with(value.column, value.text, key)
    try:
        with session.transaction():
            session.execute(f"SET LOCAL statement_timeout = '{SEARCH_FOR}'".encode())
            return session.execute(query).fetchone() is not None
    except psycopg.errors.QueryCanceled:
        return True
