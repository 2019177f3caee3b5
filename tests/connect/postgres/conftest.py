"""What tests of PostgreSQL share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.connect.files import FileStore
from headrace.connect.ledger.sqlite import open_sqlite
from tests.connect.postgres.capture_place import Place
from tests.connect.postgres.histories import CREATE


@pytest.fixture
def place(postgres_dsn: str, tmp_path: Path) -> Iterator[Place]:
    ledger = open_sqlite(tmp_path / "ledger.db")
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        # Even small transactions are large: they come while they are open.
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET logical_decoding_work_mem = '64kB'".encode())
        found = Place(postgres_dsn, tmp_path, connection, ledger, FileStore(tmp_path / "files"))
        found.execute(CREATE)
        yield found
    ledger.close()
