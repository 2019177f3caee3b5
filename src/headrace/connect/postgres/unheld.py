"""Whether the value that stopped a source is still in its table: if not, the source can be read again.

A table with a key is asked for one row. One without is searched, for a second at most: the capture waits meanwhile.
"""

from __future__ import annotations

import psycopg

from headrace.connect.postgres.reading import TableQueries, texts_of_key
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import SqlTable
from headrace.run.capture.spool import CapturedTable, UnheldValue

SEARCH_FOR = "1s"


def is_still_there(session: Connection, captured: CapturedTable, table: SqlTable, value: UnheldValue) -> bool:
    """Also True where a second was not enough to find out. To be called within a transaction."""
    queries = TableQueries(session, captured, table)
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
