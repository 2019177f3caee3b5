"""Connections for capture: values are written as text in one way, whatever the server's settings say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from headrace.connect.postgres.inspect import CONNECT_WITHIN_S, Connection, advice, reason
from headrace.model.errors import ConnectError

TEXT_FORM = (
    "-c datestyle=ISO -c timezone=UTC -c extra_float_digits=1 -c bytea_output=hex "
    "-c lc_monetary=C -c lc_numeric=C -c row_security=off "
    "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
"""What `run.capture.text_values` reads. The limits of time that a server sets for people would end a long load. Rows
that row-level security hides make a query fail: otherwise they would be missing in silence."""


def connect_session(dsn: str) -> Connection:
    """An ordinary session that commits each statement."""
    return _connect(dsn, {})


def connect_replication(dsn: str) -> Connection:
    """A session that may also stream the log."""
    return _connect(dsn, {"replication": "database"})


def _connect(dsn: str, more: dict[str, Any]) -> Connection:
    try:
        given = conninfo_to_dict(dsn)
        ours = {
            "connect_timeout": CONNECT_WITHIN_S,
            "application_name": "headrace capture",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            **given,
            "client_encoding": "UTF8",
            "options": f"{given.get('options') or ''} {TEXT_FORM}",
            **more,
        }
        return psycopg.connect(make_conninfo("", **ours), autocommit=True, row_factory=dict_row)
    except psycopg.Error as error:
        raise ConnectError(reason(error, dsn), advice(error, dsn)) from None


@contextmanager
def database_errors(dsn: str) -> Iterator[None]:
    """What the driver says as ours, without the password."""
    try:
        yield
    except psycopg.Error as error:
        raise ConnectError(reason(error, dsn)) from error
