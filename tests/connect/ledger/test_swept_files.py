"""Whoever stands still between writing a file and committing it: the file is swept away or committed, never both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headrace.connect.files import FileStore
from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.postgres import open_postgres
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.model.errors import Conflict, ConnectError
from headrace.model.log import Commit, Edit, Piece, PieceKind, StoredFile
from headrace.model.notes import WantedTime
from headrace.model.types import INT
from headrace.run.capture.spool import CapturedTable
from tests.connect.postgres.spools import bag, contents_now

NUMBERS = CapturedTable("numbers", "us", "numbers", (("k", INT),), ("k",))


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "data")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.live)])
def open_ledger(request: Any, tmp_path: Path, store: FileStore) -> Callable[[], SqlLedger]:
    if request.param == "sqlite":
        return lambda: open_sqlite(tmp_path / "ledger.db", is_stored=store.has)
    address = request.getfixturevalue("postgres_dsn")
    return lambda: open_postgres(address, is_stored=store.has)


@pytest.fixture
def ledger(open_ledger: Callable[[], SqlLedger]) -> Iterator[SqlLedger]:
    with closing(open_ledger()) as opened:
        yield opened


def written(store: FileStore, upto: int = 1) -> Piece:
    return store.write("us", pa.table({"a": [1]}), "rows").as_piece(PieceKind.CHANGE, upto - 1, upto, 1)


def test_a_commit_of_files_that_were_swept_away_is_refused_as_a_whole(ledger: SqlLedger, store: FileStore):
    lease = ledger.acquire("service", "a", 10)
    kept, swept = written(store), written(store)
    assert ledger.delete_unnamed([("us", swept.file)], store.delete) == 1
    with pytest.raises(Conflict, match="no longer exist"):
        ledger.commit(lease, Commit((Edit("v", None, 1, (kept, swept), start=0, site="us"),), (WantedTime(1),)))
    assert not ledger.times()
    assert not ledger.notes()
    ledger.commit(lease, Commit((Edit("v", None, 1, (kept,), start=0, site="us"),)))
    ledger.commit(lease, Commit((Edit("v", 1, 2, (written(store, 2),)),)))
    assert len(ledger.files()) == 2


def test_files_that_got_a_name_since_they_were_listed_stay(ledger: SqlLedger, store: FileStore):
    lease = ledger.acquire("service", "a", 10)
    piece = written(store)
    ledger.commit(lease, Commit((Edit("v", None, 1, (piece,), start=0, site="us"),)))
    assert ledger.delete_unnamed([("us", piece.file)], store.delete) == 0
    assert store.has("us", piece.file)


def test_nobody_commits_while_files_are_deleted(open_ledger: Callable[[], SqlLedger], store: FileStore):
    with closing(open_ledger()) as sweeper, closing(open_ledger()) as writer:
        lease = writer.acquire("service", "a", 10)
        piece = written(store)
        refused: list[str] = []

        def commit() -> None:
            try:
                writer.commit(lease, Commit((Edit("v", None, 1, (piece,), start=0, site="us"),)))
            except Conflict as error:
                refused.append(str(error))

        committing = threading.Thread(target=commit)

        def delete(site: str, file: str) -> None:
            committing.start()
            committing.join(0.5)
            assert committing.is_alive(), "it has to wait"
            store.delete(site, file)

        sweeper.delete_unnamed([("us", piece.file)], delete)
        committing.join()
        assert len(refused) == 1


def test_a_capture_whose_files_were_swept_away_reads_them_again(postgres_dsn: str, tmp_path: Path, store: FileStore):
    class Sweeping(FileStore):
        """Deletes what is written, as if the capture had stood still since."""

        def write(self, site: str, table: pa.Table, hint: str, durable: bool = True) -> StoredFile:
            stored = super().write(site, table, hint, durable)
            self.delete(site, stored.file)
            return stored

    settings = CaptureSettings("test", "main", postgres_dsn, (NUMBERS,), tmp_path / "scratch")
    with (
        closing(open_sqlite(tmp_path / "ledger.db", is_stored=store.has)) as ledger,
        psycopg.connect(postgres_dsn, autocommit=True) as connection,
    ):
        connection.execute("CREATE TABLE numbers (k int PRIMARY KEY)")
        with closing(Capture(settings, ledger, store)) as capture:
            capture.catch_up()
        connection.execute("INSERT INTO numbers SELECT generate_series(1, 100)")
        capture = Capture(settings, ledger, Sweeping(store.root))
        with closing(capture), pytest.raises(ConnectError, match="read again"):
            capture.catch_up()
        with closing(Capture(settings, ledger, store)) as capture:
            capture.catch_up()
        assert contents_now(NUMBERS, ledger, store) == bag([(number,) for number in range(1, 101)])
