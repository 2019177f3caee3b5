"""Rows that are not what the sources hold are found in the background, named, and read anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from headrace.connect.postgres.sample import SampleLoad
from headrace.coordinate.check.sources import AWAY_FOR_S
from headrace.model.log import PieceKind
from headrace.model.notes import SourceDiffers, note_keys
from headrace.run.check.held_source import find_base
from headrace.run.check.rota import CheckFinding, CheckKind
from tests.running.checked_world import CheckedWorld, lose_row, spoil_row
from tests.running.shop import PROJECT, make_shop
from tests.running.test_recompute import HABITS

MORE = '  visits: {kind: table, at: eu, postgres: {dsn: "${EU_DSN}", table: public.visits}}\n'
CONTRACTS = (
    "  wall: {view: wall, at: us, freshness: 4 s}\n  scores: {view: scores, at: eu, freshness: 4 s}\n"
    "  seen: {view: seen, at: eu, freshness: 4 s}\n"
)
ROWS = (PieceKind.BASE, PieceKind.CHANGE)
ALL = (*ROWS, PieceKind.INDEX)


@pytest.fixture
def world(tmp_path: Path, postgres_database: Callable[[], str]) -> Iterator[CheckedWorld]:
    project = PROJECT.replace("contracts:\n", MORE + "contracts:\n") + CONTRACTS
    environment = make_shop(tmp_path, project, postgres_database)
    (tmp_path / "views" / "seen.sql").write_text("SELECT uid, count(*) AS n FROM visits GROUP BY uid")
    with psycopg.connect(environment["EU_DSN"]) as session:
        session.execute("CREATE TABLE visits (uid bigint, page text)")
        session.execute("ALTER TABLE visits REPLICA IDENTITY FULL")
        session.execute("INSERT INTO visits SELECT n % 5, 'page' || n % 3 FROM generate_series(1, 40) AS n")
    made = CheckedWorld(tmp_path, environment)
    try:
        made.load()
        yield made
    finally:
        made.service.close()


def differing(world: CheckedWorld) -> list[str]:
    return note_keys(world.service.ledger, SourceDiffers)


def base_of(world: CheckedWorld, source: str) -> str:
    return find_base(world.reader.program, source)


def add_row(rows: pa.Table) -> pa.Table:
    """The last row once more, under a key that the source does not have."""
    last = rows.slice(rows.num_rows - 1)
    first = next(name for name in rows.column_names if name.endswith(".uid"))
    place = rows.column_names.index(first)
    return pa.concat_tables([rows, last.set_column(place, rows.schema.field(first), pa.array([777], pa.int64()))])


@pytest.mark.long
def test_rows_that_differ_from_their_source_are_found_named_and_read_anew(world: CheckedWorld) -> None:
    world.check_all()
    assert {one["found"] for one in world.status()["checks"]["subjects"]} == {"equal"}
    users, visits = base_of(world, "users"), base_of(world, "visits")
    spoil, lose = spoil_row("users.uid", 7, "users.city", "nowhere"), lose_row("users.uid", 7)
    pages = world.service.store.read("eu", world.log_of(visits).contents[0].stored).column("visits.page")
    harms: tuple[tuple[str, str, Callable[[], None]], ...] = (
        ("users", "1 different (for example uid = 7", lambda: world.replace_rows(users, spoil, ALL)),
        ("users", "1 missing (for example uid = 7", lambda: world.replace_rows(users, lose, ALL)),
        ("users", "1 rows of our index", lambda: world.replace_rows(users, spoil, ROWS)),
        ("users", "1 rows of our index", lambda: world.replace_rows(users, lose, (PieceKind.INDEX,))),
        ("visits", "rows", lambda: world.replace_rows(visits, lose_row("visits.page", pages[0].as_py()), ROWS)),
    )
    for source, words, harm in harms:
        forget_tries(world)
        harm()
        world.check_until_found(SourceDiffers, source)
        world.checking.report()
        (what,) = [one for one in world.troubles() if one.startswith(f'what is held of source "{source}" differs')]
        assert words in what
        contract = "seen" if source == "visits" else "wall"
        assert world.state(contract) == "failing"
        world.check_until(lambda: differing(world) == [], f"{source} is read anew")
        world.check_until_kept(contract)
    world.check_all()
    assert {one["found"] for one in world.status()["checks"]["subjects"]} == {"equal"}
    told = world.events()
    assert told.count("source differs") == told.count("source repaired") == len(harms)
    check_that_a_row_too_many_is_found_and_not_read_anew_for_ever(world)
    check_that_a_locked_table_is_left_alone_and_nobody_waits_for_a_check(world)


def forget_tries(world: CheckedWorld) -> None:
    world.checking.sources._mended.clear()


def check_that_a_row_too_many_is_found_and_not_read_anew_for_ever(world: CheckedWorld) -> None:
    """After two tries in a row the next waits; the trouble stays, with what a person can do."""
    forget_tries(world)
    for _ in range(2):
        world.replace_rows(base_of(world, "users"), add_row_to_all(world), ALL)
        world.check_until_found(SourceDiffers, "users")
        world.checking.report()
        assert any("1 extra (for example uid = 777" in one for one in world.troubles())
        world.check_until(lambda: differing(world) == [], "it is read anew")
        world.check_until_kept("wall")
    world.replace_rows(base_of(world, "users"), add_row_to_all(world), ALL)
    world.check_until_found(SourceDiffers, "users")
    for _ in range(5):
        world.checking.step()
    assert differing(world) == ["users"], "it is left for longer"
    world.checking.report()
    hints = [
        one["hint"] for one in world.status()["troubles"] if one["what"].startswith('what is held of source "users"')
    ]
    assert ["headrace sources reread users" in one for one in hints] == [True]
    world.host.reread("users")
    assert differing(world) == [], "a person has it read anew"


def add_row_to_all(world: CheckedWorld) -> Callable[[pa.Table], pa.Table]:
    """Files of an index are sorted by hash: there the row goes where its hash belongs."""
    from headrace.run.logs.key_index import HASH, make_indexes

    def change(rows: pa.Table) -> pa.Table:
        if HASH not in rows.column_names:
            return add_row(rows)
        (index,) = make_indexes(add_row(rows.drop_columns([HASH])), ["users.uid"], 1)
        return index

    return change


def check_that_a_locked_table_is_left_alone_and_nobody_waits_for_a_check(world: CheckedWorld) -> None:
    world.check_until_kept("wall")
    world.check_all()
    with psycopg.connect(world.environment["US_DSN"]) as session:
        session.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
        record = world.record(CheckKind.SOURCE, "users")
        began = time.monotonic()
        state = world.service.rounds.state
        assert state is not None
        after = world.checking.sources.check(state, "users", record.begin(1.0, ""), time.time() + 2 * AWAY_FOR_S)
        assert time.monotonic() - began < 5.0, "it gives up after its lock_timeout, however busy the machine is"
        assert "could not be looked at: " in after.why and "lock" in after.why
        assert waiting_for_locks(world) == 0


def waiting_for_locks(world: CheckedWorld) -> int:
    with psycopg.connect(world.environment["US_DSN"]) as session:
        (found,) = session.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() or (0,)
    return int(found)


@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.long)])
def test_whatever_people_write_meanwhile_is_no_difference(world: CheckedWorld, rounds: int) -> None:
    """Hot rows, keys that come and go, truncation, transactions that stay open or are rolled back."""
    load = SampleLoad(world.environment, HABITS)
    load.start()
    end = threading.Event()
    writing = threading.Thread(target=write_hot_rows, args=(world.environment["EU_DSN"], end))
    writing.start()
    try:
        for _ in range(rounds):
            check_once_more(world)
    finally:
        end.set()
        writing.join()
        load.stop()
    assert load.error is None
    told = world.events()
    assert "source differs" not in told and "view differs" not in told
    world.check_all()
    assert all(record.finding is CheckFinding.EQUAL for record in world.checking.book.records.values())


def check_once_more(world: CheckedWorld) -> None:
    """A whole pass over every source and view."""
    world.checking.step()
    world.check_all()
    assert differing(world) == []


def write_hot_rows(dsn: str, end: threading.Event) -> None:
    with psycopg.connect(dsn, autocommit=True) as session, psycopg.connect(dsn) as other:
        number = 0
        while not end.wait(0.002):
            number += 1
            session.execute("UPDATE posts SET score = score + 1 WHERE post <= 3")
            session.execute("INSERT INTO visits VALUES (%s, 'page1')", [number % 5])
            session.execute(
                "DELETE FROM visits WHERE ctid IN (SELECT ctid FROM visits WHERE uid = %s LIMIT 1)", [number % 5]
            )
            with suppress(psycopg.errors.UniqueViolation):
                session.execute(
                    "UPDATE posts SET post = 2000000 + (post + 1) %% 100 WHERE post = %s", [2000000 + number % 100]
                )
            session.execute(
                "INSERT INTO posts (post, uid, score) VALUES (%s, 1, 1) ON CONFLICT (post) DO NOTHING",
                [2000000 + number % 50],
            )
            if number % 40 == 0:
                session.execute("TRUNCATE visits")
            if number % 10 == 5:
                other.execute("INSERT INTO posts (post, uid, score) VALUES (%s, 2, 2)", [3000000 + number])
            if number % 30 == 7:
                (other.commit if number % 4 else other.rollback)()
