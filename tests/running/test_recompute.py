"""Views against their queries on the databases, while people write to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.app.planning import plan_project
from headrace.connect.files import FileStore
from headrace.connect.postgres.sample import Habit, SampleLoad
from headrace.coordinate.compare.committing import ask_for_views
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.compare.compared import ComparedViews
from headrace.coordinate.compare.evaluate import HERE_AT_MOST
from headrace.coordinate.compare.moment import ComparisonWatch
from headrace.coordinate.perform import apply_plan
from headrace.model.log import Commit, Edit, Log, PieceKind
from headrace.model.plan import PlanOptions
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.deliver.leftovers import captures_of
from headrace.site.folder import Folder
from headrace.site.reading import ViewReader
from headrace.site.running import make_running
from headrace.site.service import Service
from headrace.site.sources.databases import databases_of
from tests.running.shop import NEW_CITY, NEW_POST, POST_GONE, PROJECT, make_shop

THREE_VIEWS = (
    PROJECT
    + "  wall: {view: wall, at: us, freshness: 20 s}\n  scores: {view: scores, at: eu, freshness: 60 s}\n"
    + "  names: {view: names, at: us, freshness: 60 s}\n"
)
HABITS = (
    Habit("US_DSN", 20, NEW_CITY),
    Habit("EU_DSN", 100, NEW_POST),
    Habit("EU_DSN", 50, POST_GONE),
)


class World:
    """A service that keeps three views of tables in two databases."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.environment = environment
        self.service = Service(Folder(folder), environment, HereRunner(perform), in_processes=False)
        self.plan = plan_project(folder, environment, PlanOptions())
        self.held = ExitStack()

    def load(self) -> None:
        loading = apply_plan(self.service, self.plan)
        assert loading.done.wait(120)
        assert loading.error is None

    @property
    def reader(self) -> ViewReader:
        assert self.service.rounds.state is not None
        return ViewReader(self.plan, self.service.rounds.state.program, self.service.ledger, self.service.store)

    def recomputed(self, here_at_most: int = HERE_AT_MOST) -> ComparedViews:
        folder, push = self.service.folder, self.service.rounds.push_to
        return compare_views(self.reader, folder, self.environment, push, here_at_most=here_at_most)

    def execute(self, database: str, statement: str) -> None:
        with psycopg.connect(self.environment[database], autocommit=True) as session:
            session.execute(statement.encode())

    def log_of(self, view: str) -> Log:
        return self.reader.served(view).log

    def locks(self) -> int:
        """Held by audits in a transaction."""
        with psycopg.connect(self.environment["EU_DSN"]) as session:
            (found,) = session.execute(
                "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE mode = 'ShareLock'"
                " AND locktype = 'relation' AND datname = current_database()"
            ).fetchone() or (0,)
        return int(found)

    def rewrite_base(self, view: str, change: Callable[[pa.Table], pa.Table]) -> None:
        """Replaces the first file of a view's base by one with other rows, and right checksums."""
        self.held.enter_context(self.service.turns.upkeep)  # which could write the file anew
        log = self.log_of(view)
        base = log.of_kind(PieceKind.BASE)[0]
        store = self.service.store
        assert isinstance(store, FileStore)
        rows = change(store.read(log.site, base.stored))
        other = store.write(log.site, rows, "other").as_piece(PieceKind.BASE, base.after, base.upto, rows.num_rows)
        with self.service.turns.pushing:  # the view stays where it is meanwhile
            log = self.log_of(view)
            edit = Edit(log.name, log.t, log.t, (other,), (base.file,))
            self.service.ledger.commit(self.service.lease, Commit((edit,)))

    def damage(self, contract: str) -> None:
        """Puts garbage in the place of all files that hold a view."""
        self.held.enter_context(self.service.turns.upkeep)
        log = self.log_of(contract)
        store = self.service.store
        assert isinstance(store, FileStore)
        for piece in log.contents:
            (store.root / log.site / piece.file).write_bytes(b"garbage")

    def lose(self, contract: str) -> None:
        """Deletes a file of a view."""
        log = self.log_of(contract)
        self.service.store.delete(log.site, log.contents[0].file)


@pytest.fixture
def posts() -> int:
    """How many there are when the views are loaded."""
    return 1_000


@pytest.fixture
def world(tmp_path: Path, postgres_database: Callable[[], str], posts: int) -> Iterator[World]:
    environment = make_shop(tmp_path, THREE_VIEWS, postgres_database)
    (tmp_path / "views" / "names.sql").write_text("SELECT uid, name FROM users WHERE uid > 3")
    made = World(tmp_path, environment)
    if posts != 1_000:
        made.execute("EU_DSN", "DELETE FROM posts")
        made.execute("EU_DSN", f"INSERT INTO posts SELECT n, 1 + n % 50, n FROM generate_series(1, {posts}) AS n")
    made.service.open()
    try:
        made.load()
        with made.held:
            yield made
    finally:
        made.service.close()


def test_views_that_cannot_be_read_are_named_and_hide_no_other(world: World) -> None:
    world.damage("wall")
    world.lose("names")
    found = world.recomputed()
    assert {one.contract: one.equal for one in found.views} == {"scores": True}
    reasons = {one.contract: one.reason for one in found.not_compared}
    assert reasons.keys() == {"wall", "names"}
    assert all(reason.startswith("its rows cannot be read: ") for reason in reasons.values()), reasons


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
            assert {one.contract for one in found.views} == {"wall", "scores", "names"}
            assert found.equal, found
            assert load.rows > written
        later = compare_views(world.reader, world.service.folder, world.environment, ask_for_views(world.reader.ledger))
    assert later.equal, later
    assert later.views[0].t > found.views[0].t
    assert found.not_compared == ()
    assert 0 < found.writers_waited_s < 5


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
    world.rewrite_base("wall", lambda rows: rows.slice(1))
    found = {one.contract: one for one in world.recomputed().views}
    assert (found["wall"].missing, found["wall"].extra) == (1, 0)
    assert found["scores"].equal


@pytest.mark.parametrize(
    ("posts", "here_at_most"),
    [(1, HERE_AT_MOST), (10, HERE_AT_MOST), pytest.param(120_000, 1_000, marks=pytest.mark.long)],
)
def test_wrong_rows_are_found_at_any_size(
    world: World, posts: int, here_at_most: int, request: pytest.FixtureRequest
) -> None:
    """Queries over many rows are evaluated by Spark: by that of the tests, which goes on."""
    if posts > here_at_most:
        request.getfixturevalue("spark")
    assert world.recomputed(here_at_most).equal
    wrong = pa.table({"post": [7, 9_999_999], "name": ["nobody", "somebody"], "score": [7.0, 0.5]})
    world.rewrite_base("wall", lambda base: replace_rows(base, wrong))
    found = {one.contract: one for one in world.recomputed(here_at_most).views}
    there = 1 if posts >= 7 else 0
    assert (found["wall"].missing, found["wall"].extra) == (there, 2)
    assert found["wall"].rows == posts + 2 - there
    assert set(found["wall"].examples_extra) == {(7, "nobody", 7.0), (9_999_999, "somebody", 0.5)}
    assert set(found["wall"].examples_missing) == ({(7, "user8", 7.0)} if there else set())
    assert found["scores"].equal


def replace_rows(base: pa.Table, wrong: pa.Table) -> pa.Table:
    """Rows of the same posts go."""
    posts = next(name for name in base.column_names if name.endswith(".post"))
    kept = base.filter(pc.invert(pc.is_in(base.column(posts), wrong.column("post").combine_chunks())))
    columns = {
        name: next((wrong.column(column) for column in wrong.column_names if name.endswith(f".{column}")), None)
        for name in base.column_names
    }
    stamps = {"__t": kept_time(base), "__o": 0, "__w": 1}
    filled = {
        field.name: column if column is not None else pa.array([stamps.get(field.name)] * wrong.num_rows, field.type)
        for field, column in zip(base.schema, columns.values(), strict=True)
    }
    return pa.concat_tables([kept, pa.table(filled).cast(base.schema)])


def kept_time(base: pa.Table) -> int:
    return base.column("__t")[0].as_py() if base.num_rows else 0


def test_a_writer_that_never_ends_keeps_only_its_own_database_from_being_compared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.coordinate.compare.cut.ATTEMPTS", 2)
    with psycopg.connect(world.environment["EU_DSN"]) as session:
        session.execute("INSERT INTO posts (post, uid, score) VALUES (6000, 7, 1.5)")
        found = world.recomputed()
        assert [one.contract for one in found.views] == ["names"] and found.equal
        reasons = {one.contract: one.reason for one in found.not_compared}
        assert reasons.keys() == {"wall", "scores"}
        assert "a transaction stays open" in reasons["wall"]
        assert world.locks() == 0
    assert len(world.recomputed().views) == 3


def test_a_database_that_does_not_answer_hides_no_other(world: World) -> None:
    nowhere = {**world.environment, "EU_DSN": "postgresql://nobody@127.0.0.1:1/none"}
    found = compare_views(world.reader, world.service.folder, nowhere, world.service.rounds.push_to)
    assert [one.contract for one in found.views] == ["names"] and found.equal
    assert {one.contract for one in found.not_compared} == {"wall", "scores"}
    unset = {"US_DSN": world.environment["US_DSN"]}
    found = compare_views(world.reader, world.service.folder, unset, world.service.rounds.push_to)
    assert "EU_DSN" in next(one.reason for one in found.not_compared)


def test_an_audit_leaves_nothing_behind_however_it_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(what: str) -> None:
        if what.startswith("reading source"):
            raise KeyboardInterrupt

    left = world.service.folder.audit / "4194304-1-killed"
    left.mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        compare_views(
            world.reader,
            world.service.folder,
            world.environment,
            world.service.rounds.push_to,
            ComparisonWatch(interrupt),
        )
    assert list(world.service.folder.audit.iterdir()) == []
    assert world.locks() == 0
    said: list[str] = []
    found = compare_views(
        world.reader,
        world.service.folder,
        world.environment,
        world.service.rounds.push_to,
        ComparisonWatch(said.append),
    )
    assert found.equal and len(found.views) == 3
    assert list(world.service.folder.audit.iterdir()) == []
    assert "reading source posts: 1,000 rows" in said or any("1,000 of about" in line for line in said)
    assert "comparing view wall (3 of 3), its query: 1,000 rows" in said


def test_files_that_go_while_a_view_is_compared_are_still_read(world: World) -> None:
    """Upkeep writes a new base and deletes the old one, however long the comparison takes."""

    def compact(what: str) -> None:
        if what.startswith("evaluating"):
            for log in world.service.ledger.logs().values():
                for piece in log.pieces:
                    world.service.store.delete(log.site, piece.file)

    found = compare_views(
        world.reader, world.service.folder, world.environment, world.service.rounds.push_to, ComparisonWatch(compact)
    )
    assert found.equal and len(found.views) == 3


def test_a_database_that_no_plan_reads_keeps_no_log_for_us(world: World) -> None:
    service = world.service
    (other,) = (one for one in captures_of(make_running(world.plan), service.folder) if one.database == "us_dsn")
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    with psycopg.connect(world.environment["EU_DSN"]) as session:
        assert session.execute(slots).fetchone() == (1,)
        service.captures.keep_only(databases_of(world.plan.catalogue, frozenset({"users"})))
        service.withdrawals.run([other], world.environment)
        assert session.execute(slots).fetchone() == (0,)
        assert _publications(world) == []
