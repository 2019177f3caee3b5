"""A server whose files are put back to an earlier copy, which still has our slot; and a failover."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from headrace.connect.files import FileStore
from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.binaries import find_binaries
from headrace.connect.postgres.capture import Capture, CaptureSettings, SourceChanged
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.postgres.server_user import server_user
from headrace.model.event_wire import EventsAsked
from headrace.model.plan_events import SourcesReread
from headrace.run.capture.position import parse_lsn
from tests.connect.postgres.histories import CREATE, LOOSE, PLAIN, contents
from tests.connect.postgres.spools import contents_now

pytestmark = pytest.mark.live


@dataclass
class Restorable:
    server: EmbeddedPostgres
    folder: Path
    ledger: SqlLedger
    store: FileStore

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def catch_up(self) -> list[str | None]:
        """Why sources were read again."""
        known = len(self.ledger.events(EventsAsked(limit=1000)))
        settings = CaptureSettings("p", "d", self.server.dsn(), (PLAIN, LOOSE), self.folder / "scratch")
        for _ in range(3):
            capture = Capture(settings, self.ledger, self.store)
            try:
                capture.catch_up()
                break
            except SourceChanged:
                continue
            finally:
                capture.close()
        self.check()
        events = [one.event for one in self.ledger.events(EventsAsked(limit=1000))[known:]]
        return [one.reason for one in events if isinstance(one, SourcesReread)]

    def check(self) -> None:
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            for table in (PLAIN, LOOSE):
                assert contents_now(table, self.ledger, self.store) == contents(connection, table)

    def log_end(self) -> int:
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        return parse_lsn(row[0])

    def save(self) -> None:
        self.server.stop()
        copy_folder(self.server.folder / "data", self.server.folder / "saved")
        self.server.start()

    def reset_log(self) -> None:
        """What people do to a server that does not start any more: its log is thrown away."""
        self.server.stop()
        user = server_user()
        done = user.run([str(find_binaries(user) / "pg_resetwal"), "-f", "-D", str(self.server.folder / "data")])
        assert done.returncode == 0, done.stderr
        self.server.start()

    def restore(self) -> None:
        self.server.stop()
        copy_folder(self.server.folder / "saved", self.server.folder / "data")
        self.server.start()


def copy_folder(source: Path, target: Path) -> None:
    """With owners and modes, as a backup has them."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


@pytest.fixture
def restorable(tmp_path: Path) -> Iterator[Restorable]:
    folder, ledger = Path(tempfile.mkdtemp(prefix="headrace-tests-")), open_sqlite(tmp_path / "ledger.db")
    try:
        with EmbeddedPostgres(folder, {"fsync": "off", "hot_standby": "on"}) as server:
            found = Restorable(server, tmp_path, ledger, FileStore(tmp_path / "files"))
            found.execute(*CREATE.split(";\n"), "INSERT INTO plain VALUES (1, 0, 'old')")
            found.catch_up()
            yield found
    finally:
        ledger.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_server_that_was_restored_is_told_from_one_that_failed_over(restorable: Restorable):
    found = restorable
    found.save()
    found.execute("INSERT INTO plain VALUES (2, 0, 'rolled back')", "INSERT INTO loose VALUES ('rolled back', 1)")
    assert found.catch_up() == [], "a server that was only stopped has all of its log"
    assert found.catch_up() == [], "and this capture meets a mark that is later than those rows"
    end = found.log_end()
    found.restore()
    found.execute("INSERT INTO plain VALUES (3, 0, 'instead')")
    while found.log_end() < end + 100_000:
        found.execute("INSERT INTO loose SELECT 'filler', g FROM generate_series(1, 500) g")
    reasons = found.catch_up()
    assert reasons == ["its database was restored to an earlier state"] * 2
    found.execute("DELETE FROM loose", "INSERT INTO plain VALUES (4, 0, 'after')")
    assert found.catch_up() == []
    # A standby with all of the log takes over: the same server, as far as anybody can see, with another timeline.
    found.server.stop()
    (found.server.folder / "data" / "standby.signal").touch()
    found.server.start()
    found.execute("SELECT pg_promote()", "CHECKPOINT", "INSERT INTO plain VALUES (5, 0, 'promoted')")
    assert found.catch_up() == [], "a failover is no reason to read"
    found.restore()
    assert found.catch_up() == ["the database was restored, or somebody else moved our place in its log"] * 2
    found.reset_log()
    found.execute("UPDATE plain SET v = 'after the reset'", "INSERT INTO loose VALUES ('after the reset', 1)")
    assert len(found.catch_up()) == 2
    found.execute("DELETE FROM loose")
    assert found.catch_up() == []
