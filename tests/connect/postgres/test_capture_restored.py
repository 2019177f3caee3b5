"""A server whose files are put back to an earlier copy, which still has our slot; and a failover."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from headrace.connect.files import FileStore
from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.binaries import find_binaries
from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import CaptureSettings, SourceChanged
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.postgres.server_user import server_user
from headrace.model.event_wire import EventsAsked
from headrace.model.plan_events import SourcesReread
from headrace.run.capture.position import parse_lsn
from tests.connect.postgres.histories import CREATE, LOOSE, PLAIN, contents
from tests.connect.postgres.spools import contents_now
from tests.connect.postgres.test_capture_process import wait_for

pytestmark = pytest.mark.live
TABLES = (PLAIN, LOOSE)


@dataclass
class Restorable:
    server: EmbeddedPostgres
    folder: Path
    ledger: SqlLedger
    store: FileStore
    binaries: Path

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def catch_up(self) -> list[str | None]:
        """Why sources were read again."""
        known = len(self.ledger.events(EventsAsked(limit=1000)))
        settings = CaptureSettings("p", "d", self.server.dsn(), TABLES, self.folder / "scratch")
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

    def take_without_mark(self) -> None:
        """Takes what is in the log; writes nothing into it."""
        settings = CaptureSettings("p", "d", self.server.dsn(), TABLES, self.folder / "scratch")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.connect.postgres.capture.HEARTBEAT_EVERY_S", 1e12)
            with closing(Capture(settings, self.ledger, self.store)) as capture:
                wait_for(lambda: capture.step(0.01) is not None and self.is_captured())

    def fill_log(self, end: int) -> None:
        """Makes the log longer than it was."""
        while self.log_end() < end + 100_000:
            self.execute("INSERT INTO loose SELECT 'filler', g FROM generate_series(1, 500) g")

    def is_captured(self) -> bool:
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            return all(contents_now(one, self.ledger, self.store) == contents(connection, one) for one in TABLES)

    def check(self) -> None:
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            for table in TABLES:
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
        done = server_user().run([str(self.binaries / "pg_resetwal"), "-f", "-D", str(self.server.folder / "data")])
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
def restorable(tmp_path: Path, server_binaries: Path | None) -> Iterator[Restorable]:
    binaries = server_binaries or find_binaries(server_user())
    folder, ledger = Path(tempfile.mkdtemp(prefix="headrace-tests-")), open_sqlite(tmp_path / "ledger.db")
    try:
        with EmbeddedPostgres(folder, {"fsync": "off", "hot_standby": "on"}, binaries=server_binaries) as server:
            found = Restorable(server, tmp_path, ledger, FileStore(tmp_path / "files"), binaries)
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
    end = found.log_end()
    found.restore()
    found.execute("INSERT INTO plain VALUES (3, 0, 'instead')")
    found.fill_log(end)
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


@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_a_copy_that_lacks_any_row_that_was_read_is_noticed_wherever_our_marks_are(restorable: Restorable, rounds: int):
    """Each copy is made at a random place among rows and marks of ours, and all of these are read before and after."""
    found, choose = restorable, random.Random(5)
    key = 1000

    def write_and_take(times: int, with_mark: bool) -> None:
        nonlocal key
        for _ in range(times):
            key += 1
            large = "INSERT INTO loose SELECT repeat('x', 100), g FROM generate_series(1, 3000) g"
            found.execute(f"INSERT INTO plain VALUES ({key}, 0, 'x')", *[large] * choose.randint(0, 1))
            if with_mark:
                assert found.catch_up() == []
            else:
                found.take_without_mark()

    for number in range(rounds):
        write_and_take(1, with_mark=True)
        write_and_take(choose.randint(0, 2), with_mark=False)
        found.save()
        lost = number % 3 != 2
        write_and_take(choose.randint(1, 2) if lost else 0, with_mark=number % 3 == 1)
        end = found.log_end()
        found.restore()
        found.execute(f"INSERT INTO plain VALUES ({key}, 1, 'instead') ON CONFLICT DO NOTHING")
        found.fill_log(end)
        expected = ["its database was restored to an earlier state"] * 2 if lost else []
        assert found.catch_up() == expected, number
        found.execute("DELETE FROM loose")
        assert found.catch_up() == [], number
