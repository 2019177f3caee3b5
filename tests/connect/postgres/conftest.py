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

FAULTS = (
    "test_capture_changed_tables",
    "test_capture_lost_log",
    "test_capture_partitions",
    "test_capture_restored",
    "test_capture_stopped",
    "test_capture_trigger",
    "test_trial",
)
"""Files whose tests also run on another version of PostgreSQL than the embedded one."""
ALWAYS = (
    "test_a_change_that_is_undone_before_anybody_looks_is_seen",
    "test_a_role_that_may_not_create_event_triggers_is_told_if_a_source_asks_for_one",
)
"""Of these, the tests that are not among the long ones there."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    file = metafunc.module.__name__.rpartition(".")[2]
    if file in FAULTS and "server_binaries" in metafunc.fixturenames:
        marks = () if metafunc.function.__name__ in ALWAYS else (pytest.mark.long,)
        kinds = ["embedded", pytest.param("installed", marks=marks)]
        metafunc.parametrize("server_binaries", kinds, indirect=True)


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
