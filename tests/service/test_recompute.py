"""Views against their queries on the databases, while people write to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from headrace.app.planning import plan_project
from headrace.connect.files import FileStore
from headrace.connect.postgres.sample import Habit, SampleLoad
from headrace.model.errors import ConnectError
from headrace.model.log import Log, PieceKind
from headrace.model.plan import PlanOptions
from headrace.run.items import HereRunner
from headrace.run.perform import perform
from headrace.service.databases import databases_of
from headrace.service.folder import Folder
from headrace.service.noted import captures_of
from headrace.service.reading import Reader
from headrace.service.recompute import Recomputation, ask_for_views, recompute
from headrace.service.service import Service
from tests.service.shop import NEW_CITY, NEW_POST, POST_GONE, PROJECT, make_shop

TWO_VIEWS = (
    PROJECT + "  wall: {view: wall, at: us, freshness: 20 s}\n  scores: {view: scores, at: eu, freshness: 60 s}\n"
)
HABITS = (
    Habit("US_DSN", 20, NEW_CITY),
    Habit("EU_DSN", 100, NEW_POST),
    Habit("EU_DSN", 50, POST_GONE),
)


class World:
    """A service that keeps two views of tables in two databases."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.environment = environment
        self.service = Service(Folder(folder), environment, HereRunner(perform), in_processes=False)
        self.plan = plan_project(folder, environment, PlanOptions())

    def load(self) -> None:
        loading = self.service.apply(self.plan)
        assert loading.done.wait(120)
        assert loading.error is None

    @property
    def reader(self) -> Reader:
        assert self.service.scheduler is not None
        return Reader(self.plan, self.service.scheduler.engine.program, self.service.ledger, self.service.store)

    def recomputed(self) -> Recomputation:
        return recompute(self.reader, self.environment, self.service.push_to)

    def execute(self, database: str, statement: str) -> None:
        with psycopg.connect(self.environment[database], autocommit=True) as session:
            session.execute(statement.encode())

    def log_of(self, view: str) -> Log:
        return self.reader.served(view).log


@pytest.fixture
def world(tmp_path: Path, postgres_database: Callable[[], str]) -> Iterator[World]:
    environment = make_shop(tmp_path, TWO_VIEWS, postgres_database)
    made = World(tmp_path, environment)
    made.service.open()
    try:
        made.load()
        yield made
    finally:
        made.service.close()


@contextmanager
def writers(world: World) -> Iterator[SampleLoad]:
    load = SampleLoad(world.environment, HABITS)
    load.start()
    yield load
    load.stop()
    assert load.error is None


def test_views_equal_their_queries_while_people_write(world: World) -> None:
    with writers(world) as load:
        for _ in range(2):
            written = load.rows
            found = world.recomputed()
            assert {one.contract for one in found.views} == {"wall", "scores"}
            assert found.equal, found
            assert load.rows > written
        later = recompute(world.reader, world.environment, ask_for_views(world.reader))
    assert later.equal, later
    assert later.views[0].t > found.views[0].t
    assert found.left_out == {}


def test_a_change_that_was_never_captured_is_found(world: World) -> None:
    names = [name for name in _publications(world) if name.endswith("tables")] or _publications(world)
    for name in names:
        world.execute("EU_DSN", f"ALTER PUBLICATION \"{name}\" SET (publish = 'update')")
    world.execute("EU_DSN", "INSERT INTO posts (post, uid, score) VALUES (5000, 7, 1.5)")
    for name in names:
        world.execute("EU_DSN", f"ALTER PUBLICATION \"{name}\" SET (publish = 'insert, update, delete, truncate')")
    found = {one.contract: one for one in world.recomputed().views}
    assert (found["wall"].missing, found["wall"].extra) == (1, 0)
    assert found["wall"].examples_missing == ((5000, "user7", 1.5),)
    assert (found["scores"].missing, found["scores"].extra) == (1, 1)


def _publications(world: World) -> list[str]:
    with psycopg.connect(world.environment["EU_DSN"]) as session:
        return [name for (name,) in session.execute("SELECT pubname FROM pg_publication ORDER BY 1")]


def test_a_row_that_was_lost_from_a_file_is_found(world: World) -> None:
    assert world.recomputed().equal
    del world.service.upkeep  # which could write the file anew
    log = world.log_of("wall")
    (base,) = log.of_kind(PieceKind.BASE)
    store = world.service.store
    assert isinstance(store, FileStore)
    rows = store.read(log.site, base.file)
    file = store.root / log.site / base.file
    shorter = rows.slice(1)
    file.unlink()
    with pa.OSFile(str(file), "wb") as output, pa.ipc.new_file(output, shorter.schema) as writer:
        writer.write_table(shorter)
    found = {one.contract: one for one in world.recomputed().views}
    assert world.log_of("wall").of_kind(PieceKind.BASE) == (base,)
    assert (found["wall"].missing, found["wall"].extra) == (1, 0)
    assert found["scores"].equal


def test_writers_that_never_end_keep_a_cut_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.service.recompute.ATTEMPTS", 2)
    with psycopg.connect(world.environment["EU_DSN"]) as session:
        session.execute("INSERT INTO posts (post, uid, score) VALUES (6000, 7, 1.5)")
        with pytest.raises(ConnectError, match="nobody writes"):
            world.recomputed()
    assert world.recomputed().equal


def test_a_database_that_no_plan_reads_keeps_no_log_for_us(world: World) -> None:
    service = world.service
    (other,) = (one for one in captures_of(world.plan, service.folder) if one.database == "us_dsn")
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    with psycopg.connect(world.environment["EU_DSN"]) as session:
        assert session.execute(slots).fetchone() == (1,)
        service.captures.keep_only(world.plan, databases_of(world.plan.catalogue, frozenset({"users"})))
        service.withdrawals.run([other], world.environment)
        assert session.execute(slots).fetchone() == (0,)
        assert _publications(world) == []
