"""Opens sessions with the databases of sources and copies, and says why one cannot be opened. No other module does.

Sessions of captures write values as text in one way, whatever the server's settings say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from headrace.model.errors import ConnectError
from headrace.model.password import is_escaped
from headrace.model.table_name import quote_name

Connection = psycopg.Connection[dict[str, Any]]
"""A row's values have the types that its query says; psycopg cannot know them."""

CONNECT_WITHIN_S = 10
ANSWER_WITHIN = "30s"
TRANSACTION_TIMEOUT_SINCE = 170000
LEAST_VERSION = 150000
"""Of servers whose changes are captured: publications of older ones cannot be asked for row filters and columns."""
LOCK_WITHIN = "2s"
"""How long a statement of ours waits for a lock of somebody else. One table that is locked must not hold up what else a
session does, and whoever waits in the queue of a lock holds up all who come later."""

ALL_ROWS = "-c row_security=off"
"""A query that row-level security would filter fails. Otherwise rows would be missing in silence, which the log has."""
TEXT_FORM = (
    "-c datestyle=ISO -c timezone=UTC -c extra_float_digits=1 -c bytea_output=hex -c intervalstyle=postgres "
    f"-c lc_monetary=C -c lc_numeric=C -c lock_timeout={LOCK_WITHIN} "
    "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
"""What `run.capture.text_values` reads. The limits of time that a server sets for people would end a long load."""


def connect_session(dsn: str) -> Connection:
    """An ordinary session that commits each statement."""
    session = _connect(dsn, TEXT_FORM)
    if session.info.server_version >= TRANSACTION_TIMEOUT_SINCE:  # servers before refuse the name
        session.execute("SET transaction_timeout = 0")
    return session


def connect_replication(dsn: str) -> Connection:
    """A session that may also stream the log."""
    session = _connect(dsn, TEXT_FORM, replication="database")
    if _has_no_encoding(session):
        session.pgconn.exec_(b"SET client_encoding TO 'SQL_ASCII'")
    return session


def connect_reading(dsn: str) -> Connection:
    """A session that only reads, and is answered soon or not at all."""
    limits = f"-c statement_timeout={ANSWER_WITHIN} -c lock_timeout={LOCK_WITHIN}"
    return _connect(dsn, f"-c default_transaction_read_only=on {limits}")


def _connect(dsn: str, options: str, **more: str) -> Connection:
    """Raises ConnectError, without the password."""
    try:
        given = conninfo_to_dict(dsn)
        ours = {
            "connect_timeout": CONNECT_WITHIN_S,
            "application_name": "headrace capture",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            **given,
            **more,
            "client_encoding": "UTF8",
            "options": f"{given.get('options') or ''} {options} {ALL_ROWS}",
        }
        session = psycopg.connect(make_conninfo("", **ours), autocommit=True, row_factory=dict_row)
    except psycopg.Error as error:
        raise ConnectError(reason(error, dsn), advice(error, dsn)) from None
    _check_settings(session)
    return session


def _check_settings(session: Connection) -> None:
    """A pooler may leave out what a session asks for when it begins (`ignore_startup_parameters`)."""
    answer = session.pgconn.exec_(b"SHOW row_security")
    if answer.status != pq.ExecStatus.TUPLES_OK or answer.get_value(0, 0) != b"off":
        session.close()
        raise ConnectError("the server at this address does not take the settings of a session", POOLER)


def check_version(number: int) -> None:
    """Raises ConnectError for a server whose changes cannot be captured. 150004 is version 15.4."""
    if number < LEAST_VERSION:
        major, least = number // 10_000, LEAST_VERSION // 10_000
        raise ConnectError(
            f"the server is PostgreSQL {major}, and sources need PostgreSQL {least} or later",
            f"upgrade the server to PostgreSQL {least} or later, or give the address of one that is",
        )


@contextmanager
def texts_as_they_are(session: Connection) -> Iterator[None]:
    """Within a transaction: a database of encoding SQL_ASCII sends texts as they are. Otherwise it would fail at one
    that is not UTF-8.

    The driver knows no names meanwhile: statements have to be bytes.
    """
    if not _has_no_encoding(session):
        yield
        return
    session.execute("SET LOCAL client_encoding TO 'SQL_ASCII'")
    yield
    # Not after an error: whoever rolls back has it undone.
    session.execute("SET LOCAL client_encoding TO 'UTF8'")


def _has_no_encoding(session: Connection) -> bool:
    return session.info.parameter_status("server_encoding") == "SQL_ASCII"


@contextmanager
def database_errors(dsn: str) -> Iterator[None]:
    """What the driver says as ours, without the password."""
    try:
        yield
    except psycopg.Error as error:
        raise ConnectError(reason(error, dsn)) from error


UNREADABLE_ADDRESS = "its address cannot be read"
ADDRESS_FORM = "write postgresql://USER:PASSWORD@HOST/DATABASE, escaped as in a URL"
POOLER = (
    "a connection pooler such as PgBouncer answers at this address, and does not let changes through: "
    "give the address of the PostgreSQL server itself"
)


def advice(error: psycopg.Error, address: str) -> str:
    """How to fix a failed connection; a server that refuses says why only in words."""
    said = str(error)
    if reason(error, address) == UNREADABLE_ADDRESS:
        return ADDRESS_FORM
    if "unsupported startup parameter" in said:
        return POOLER
    if "start walsender" in said or "start WAL sender" in said:
        return f"ALTER ROLE {quote_name(str(conninfo_to_dict(address).get('user') or 'ROLE'))} REPLICATION;"
    if "max_wal_senders" in said:
        now = re.search(r"currently (\d+)", said)
        return f"ALTER SYSTEM SET max_wal_senders = {int(now[1]) + 5 if now else 20};   then restart PostgreSQL"
    if "password" in said or "authentication" in said:
        return "the server answers: are user and password in the address right?"
    if "does not exist" in said:
        return "the server answers: is the name in the address right?"
    return "is the server running, and the address right?"


def reason(error: psycopg.Error, address: str) -> str:
    """What the driver says, on one line, without the password."""
    said = " ".join(str(error).split()).removesuffix(_DRIVERS_QUESTION).removeprefix("connection failed: ")
    try:
        password = conninfo_to_dict(address).get("password")
    except psycopg.Error:
        return UNREADABLE_ADDRESS  # what the driver says of such an address quotes parts of it
    if not is_escaped(address):
        return UNREADABLE_ADDRESS
    return said.replace(str(password), "***") if password else said


_DRIVERS_QUESTION = " Is the server running on that host and accepting TCP/IP connections?"
