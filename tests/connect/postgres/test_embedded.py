from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.connect.free_port import free_port
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.model.errors import ConnectError

pytestmark = pytest.mark.live


@pytest.fixture
def new_folder() -> Iterator[Path]:
    """A folder that is not there yet and that the server's user can reach, which one of pytest's own may not be."""
    parent = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
    parent.chmod(0o755)
    yield parent / "postgres"
    shutil.rmtree(parent, ignore_errors=True)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A server that has run and is stopped, as each test leaves it: making one takes most of the time."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
    with EmbeddedPostgres(folder):
        pass
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def ask(server: EmbeddedPostgres, query: str) -> object:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row and row[0]


def do(server: EmbeddedPostgres, statement: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(statement.encode())


def test_a_new_server_captures_changes_and_speaks_utf8(new_folder: Path):
    with EmbeddedPostgres(new_folder) as server:
        assert ask(server, "SHOW wal_level") == "logical"
        assert ask(server, "SHOW server_encoding") == "UTF8"
        assert ask(server, "SELECT pg_create_logical_replication_slot('s', 'pgoutput') IS NOT NULL") is True


def test_a_server_listens_on_loopback_only_and_wants_the_password(folder: Path):
    with EmbeddedPostgres(folder) as server:
        assert ask(server, "SHOW listen_addresses") == "127.0.0.1"
        assert ask(server, "SHOW unix_socket_directories") == ""
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://postgres:wrong@127.0.0.1:{server.port}/postgres")


def test_the_password_is_readable_by_the_owner_only(new_folder: Path):
    with EmbeddedPostgres(new_folder):
        assert stat.S_IMODE((new_folder / "password").stat().st_mode) == 0o600
        assert stat.S_IMODE(new_folder.stat().st_mode) == 0o700


def test_rows_and_password_survive_a_restart(folder: Path):
    with EmbeddedPostgres(folder) as server:
        do(server, "CREATE TABLE kept AS SELECT 7 AS n")
    with EmbeddedPostgres(folder) as server:
        assert ask(server, "SELECT n FROM kept") == 7


def test_a_crash_is_seen_and_committed_rows_survive_it(folder: Path):
    with EmbeddedPostgres(folder) as server:
        do(server, "CREATE TABLE committed AS SELECT 7 AS n")
        server.kill()
        assert server.poll() == -signal.SIGKILL
        server.start()
        assert server.poll() is None
        assert ask(server, "SELECT n FROM committed") == 7


def test_a_stopped_server_can_be_stopped_again(folder: Path):
    server = EmbeddedPostgres(folder)
    server.stop()
    server.start()
    server.stop()
    server.stop()
    assert server.poll() is None


def test_settings_of_the_caller_win(folder: Path):
    with EmbeddedPostgres(folder, {"max_connections": "7"}) as server:
        assert ask(server, "SHOW max_connections") == "7"


def test_a_wrong_setting_is_reported_with_what_the_server_says(folder: Path):
    with pytest.raises(ConnectError, match="no_such_setting"):
        EmbeddedPostgres(folder, {"no_such_setting": "1"}).start()


def test_a_second_process_is_refused_and_the_first_keeps_running(folder: Path):
    with EmbeddedPostgres(folder) as server:
        with pytest.raises(ConnectError, match="another process runs"):
            EmbeddedPostgres(folder).start()
        assert ask(server, "SELECT 1") == 1


LEAVE_BEHIND = """
import os, sys
from pathlib import Path
from headrace.connect.postgres.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
os.kill(os.getpid(), 9)
"""


def test_a_server_that_outlived_its_process_is_replaced(folder: Path):
    subprocess.run([sys.executable, "-c", LEAVE_BEHIND, str(folder)])
    left_behind = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    with EmbeddedPostgres(folder) as server:
        assert ask(server, "SELECT 1") == 1
        assert int((folder / "data" / "postmaster.pid").read_text().split()[0]) != left_behind


def test_a_pid_file_that_names_some_other_process_is_no_obstacle(folder: Path):
    (folder / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{folder / 'data'}\n")
    with EmbeddedPostgres(folder) as server:
        assert ask(server, "SELECT 1") == 1


def test_a_half_made_cluster_is_made_again(folder: Path):
    (folder / "data").rename(folder / "data.new")
    (folder / "data.new" / "PG_VERSION").unlink()
    with EmbeddedPostgres(folder) as server:
        assert ask(server, "SELECT 1") == 1


def test_a_port_that_is_taken_meanwhile_is_replaced_by_another(folder: Path, postgres: EmbeddedPostgres):
    offered = iter([postgres.port, postgres.port, free_port()])
    with EmbeddedPostgres(folder, find_port=lambda: next(offered)) as server:
        assert server.port != postgres.port
        assert ask(server, "SELECT 1") == 1


def test_data_of_another_major_version_are_refused_by_name(folder: Path):
    version = folder / "data" / "PG_VERSION"
    made_with = version.read_text()
    version.write_text("14\n")
    with pytest.raises(ConnectError, match="created by PostgreSQL 14, the installed one is 18"):
        EmbeddedPostgres(folder).start()
    version.write_text(made_with)


WAIT_FOR_A_ROW = "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM t) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$"


def test_a_server_subscribes_to_another(folder: Path, postgres_dsn: str):
    with EmbeddedPostgres(folder) as there, psycopg.connect(postgres_dsn, autocommit=True) as here:
        here.execute("CREATE TABLE t (n int PRIMARY KEY)")
        here.execute("CREATE PUBLICATION p FOR TABLE t")
        here.execute("INSERT INTO t VALUES (7)")
        do(there, "CREATE TABLE t (n int PRIMARY KEY)")
        do(there, f"CREATE SUBSCRIPTION s CONNECTION '{postgres_dsn}' PUBLICATION p")
        do(there, "SET statement_timeout = '30s'; " + WAIT_FOR_A_ROW)
        assert ask(there, "SELECT n FROM t") == 7
        do(there, "DROP SUBSCRIPTION s")


def test_each_call_for_a_database_gives_another_empty_one(postgres_database: Callable[[], str]):
    first, second = postgres_database(), postgres_database()
    assert first != second
    with psycopg.connect(first) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_as_root_a_folder_that_the_server_cannot_reach_is_replaced_by_one_that_it_can(tmp_path: Path):
    tmp_path.chmod(0o700)
    server = EmbeddedPostgres(tmp_path / "postgres")
    try:
        assert not server.folder.is_relative_to(tmp_path)
        with server:
            assert ask(server, "SELECT 1") == 1
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
        assert EmbeddedPostgres(tmp_path / "postgres").folder == server.folder
    finally:
        shutil.rmtree(server.folder, ignore_errors=True)
