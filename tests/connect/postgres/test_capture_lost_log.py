"""A server that throws the log away when it has to keep too much of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.connect.files import FileStore
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.postgres.sessions import connect_session
from headrace.connect.postgres.slots import slot_state
from headrace.model.errors import ConnectError
from tests.connect.postgres.histories import CREATE, PLAIN, contents
from tests.connect.postgres.spools import contents_now

pytestmark = pytest.mark.live

SMALL = {"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB", "fsync": "off"}


@pytest.fixture
def server(server_binaries: Path | None) -> Iterator[EmbeddedPostgres]:
    folder = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
    try:
        with EmbeddedPostgres(folder, SMALL, binaries=server_binaries) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def throw_away(connection: psycopg.Connection) -> None:
    for _ in range(4):
        connection.execute("SELECT pg_logical_emit_message(false, 'x', 'y'), pg_switch_wal()")
    connection.execute("CHECKPOINT")


def test_a_log_that_was_thrown_away_is_made_good_by_reading_again(server: EmbeddedPostgres, tmp_path: Path):
    ledger, store = open_sqlite(tmp_path / "ledger.db"), FileStore(tmp_path / "files")
    settings = CaptureSettings("p", "d", server.dsn(), (PLAIN,), tmp_path / "scratch")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for statement in CREATE.split(";\n"):
            connection.execute(statement.encode())
        connection.execute("INSERT INTO plain VALUES (1, 0, 'to go'), (2, 0, 'to stay')")
        capture = Capture(settings, ledger, store)
        capture.catch_up()
        capture.close()
        connection.execute("DELETE FROM plain WHERE id = 1")
        throw_away(connection)
        with connect_session(server.dsn()) as session:
            state = slot_state(session, settings.names.slot)
        assert state is not None
        assert state.lost
        capture = Capture(settings, ledger, store)
        connection.execute("INSERT INTO plain VALUES (3, 0, 'new')")
        capture.catch_up()
        capture.close()
        assert contents_now(PLAIN, ledger, store) == contents(connection, PLAIN)
    ledger.close()


def test_a_server_that_stops_breaks_the_step_off_with_a_reason(server: EmbeddedPostgres, tmp_path: Path):
    ledger, store = open_sqlite(tmp_path / "ledger.db"), FileStore(tmp_path / "files")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(CREATE.split(";\n")[0].encode())
    capture = Capture(CaptureSettings("p", "d", server.dsn(), (PLAIN,), tmp_path / "scratch"), ledger, store)
    capture.catch_up()
    server.kill()
    with pytest.raises(ConnectError):
        capture.catch_up()
    capture.close()
    server.start()
    capture = Capture(CaptureSettings("p", "d", server.dsn(), (PLAIN,), tmp_path / "scratch"), ledger, store)
    capture.catch_up()
    capture.close()
    ledger.close()
