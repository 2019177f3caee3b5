"""What all tests share: how hypothesis looks for examples, and one Spark and one PostgreSQL per run."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import ALL
from tests.installed_postgres import find_installed
from tests.shares import SPARK, Shares, share_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

    from headrace.connect.postgres.embedded import EmbeddedPostgres
    from tests.shifted_clock import ShiftedClock

# How long an example takes says nothing about it on a busy machine.
ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", ANY_SPEED)
settings.register_profile("quick", ANY_SPEED, derandomize=True, max_examples=ALL // 4)
settings.register_profile("ci", ANY_SPEED, derandomize=True, max_examples=ALL)
settings.register_profile("long", ANY_SPEED, max_examples=ALL * 20)
os.environ.pop("COLUMNS", None)  # commands print lines of 80 characters, however wide the developer's terminal is
settings.load_profile(os.environ.get("HEADRACE_HYPOTHESIS", "dev"))

LIVE_FIXTURES = frozenset({"spark", "postgres", "postgres_database", "postgres_dsn", "shifted_dsn", "broker"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as live whatever lies in tests/live or asks for a real component.

    The longest come first: Spark's, which one process runs all alone, then other live ones.
    """
    for item in items:
        if "live" in item.path.parts or LIVE_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.live)
    items.sort(key=_position)


def _position(item: pytest.Item) -> int:
    if share_of(item.nodeid) == SPARK:
        return 0
    assert "spark" not in getattr(item, "fixturenames", ()), f"{item.path.name} needs Spark and is not called so"
    return 1 if item.get_closest_marker("live") else 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Shares:
    return Shares(config, log)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the run. Tests leave no temporary views or settings behind."""
    from headrace.connect.spark.properties import SparkSettings
    from headrace.connect.spark.session import start_session

    scratch = tmp_path_factory.mktemp("spark")
    session = start_session(SparkSettings(scratch, name="tests", partitions=1, short_lived=True))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """The one PostgreSQL of the run, for tests that need the server; most want `postgres_dsn`."""
    with _run_postgres(None) as server:
        yield server


@pytest.fixture(scope="session")
def installed_postgres() -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL of another version, where one is installed."""
    with _run_postgres(find_installed()) as server:
        yield server


@contextmanager
def _run_postgres(binaries: Path | None) -> Iterator[EmbeddedPostgres]:
    from headrace.connect.postgres.embedded import EmbeddedPostgres

    # Not below pytest's folders: these are closed to the user that the server runs as when the tests run as root.
    folder = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
    try:
        settings = {"fsync": "off", "max_prepared_transactions": "5"}
        with EmbeddedPostgres(folder, settings, binaries=binaries) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def server_binaries(request: pytest.FixtureRequest) -> Path | None:
    """Of the server that a test runs on: None for the embedded one. `tests/connect/postgres` has some run on another
    version too.
    """
    return find_installed() if getattr(request, "param", "embedded") == "installed" else None


@pytest.fixture
def postgres_database(request: pytest.FixtureRequest, server_binaries: Path | None) -> Iterator[Callable[[], str]]:
    """Makes empty databases, one per call, and returns their addresses. They go when the test ends."""
    server = request.getfixturevalue("postgres" if server_binaries is None else "installed_postgres")
    with _databases(server) as make:
        yield make


@pytest.fixture
def postgres_dsn(postgres_database: Callable[[], str]) -> str:
    """The address of an empty database of this test's own, ready for logical replication."""
    return postgres_database()


@pytest.fixture(scope="session")
def clock() -> Iterator[ShiftedClock]:
    """A clock for processes that are started with its library."""
    from tests.shifted_clock import shifted_clock

    with shifted_clock() as made:
        yield made


@pytest.fixture(scope="session")
def shifted_postgres(clock: ShiftedClock) -> Iterator[EmbeddedPostgres]:
    """A server that sees that clock."""
    from tests.shifted_clock import postgres_with

    with postgres_with(clock) as server:
        yield server


@pytest.fixture
def shifted_dsn(shifted_postgres: EmbeddedPostgres, clock: ShiftedClock) -> Iterator[str]:
    """As `postgres_dsn`, on a server whose clock is right until it is set otherwise."""
    clock.set()
    with _databases(shifted_postgres) as make:
        yield make()


@contextmanager
def _databases(server: EmbeddedPostgres) -> Iterator[Callable[[], str]]:
    made: list[str] = []

    def make() -> str:
        name = f"test_{next(_database_numbers)}"
        _execute(server, f'CREATE DATABASE "{name}" TEMPLATE template0')
        made.append(name)
        return server.dsn(name)

    yield make
    for name in made:
        _drop(server, name)


_database_numbers = itertools.count(1)


def _drop(server: EmbeddedPostgres, database: str) -> None:
    # A replication slot keeps its database alive, and a connection keeps its slot.
    _execute(server, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s", database)
    _execute(
        server, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", database
    )
    _execute(server, f'DROP DATABASE "{database}" WITH (FORCE)')


def _execute(server: EmbeddedPostgres, statement: str, *parameters: str) -> None:
    import psycopg

    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(statement.encode(), parameters or None)
