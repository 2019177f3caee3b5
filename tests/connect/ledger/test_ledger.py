"""What holds of a ledger on either database: rounds are all or nothing, leases fence, and formats are minded."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.connect.ledger import statements
from headrace.connect.ledger.database import LedgerDatabase, Transaction
from headrace.connect.ledger.holder import this_holder
from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.postgres import PostgresDatabase
from headrace.connect.ledger.sqlite import SqliteDatabase
from headrace.connect.processes import birth_of, this_machine
from headrace.model.errors import Conflict, ConnectError, Fenced, LeaseHeld
from headrace.model.event_wire import EventsAsked
from headrace.model.events import ServiceStarted
from headrace.model.log import NEVER, Commit, CommitMark, Edit, Log, Piece, PieceKind
from headrace.model.notes import SourceMend, WantedTime
from headrace.model.push_events import DatasetsPushed
from headrace.run.ports import Ledger

Open = Callable[[], SqlLedger]


class Clock:
    seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.live)])
def database(request: Any, tmp_path: Path) -> Callable[[], LedgerDatabase]:
    """Opens the same database again and again."""
    if request.param == "sqlite":
        return lambda: SqliteDatabase(tmp_path / "project" / "ledger.db")
    address = request.getfixturevalue("postgres_dsn")
    return lambda: PostgresDatabase(address)


@pytest.fixture
def open_ledger(database: Callable[[], LedgerDatabase], clock: Clock) -> Iterator[Open]:
    opened: list[SqlLedger] = []

    def another() -> SqlLedger:
        opened.append(SqlLedger(database(), clock))
        return opened[-1]

    yield another
    for ledger in opened:
        ledger.close()


def change(file: str, after: int, upto: int) -> Piece:
    return Piece(PieceKind.CHANGE, file, after, upto, rows=3, bytes=100)


def test_what_was_committed_is_read_back_by_another_process(open_ledger: Open):
    ledger: Ledger = open_ledger()
    lease = ledger.acquire("service", "a", 10)
    base = Piece(PieceKind.BASE, "b", NEVER, 5, rows=7, bytes=70)
    index = Piece(PieceKind.INDEX, "r", NEVER, 5, rows=7, bytes=80, key=("x.a", 'x."b,'), shard=1, shards=4)
    edits = (Edit("v", None, 5, add=(base, index), site="us"), Edit("w", None, 9, add=(change("f", 2, 9),), site="eu"))
    ledger.commit(lease, Commit(edits, (SourceMend("db", "{}"),), (CommitMark("db", 5, 50), CommitMark("db", 9, 90))))

    other = open_ledger()
    v, w = Log("v", "us", 5, 5, (base, index)), Log("w", "eu", 9, 2, (change("f", 2, 9),))
    assert other.logs() == {"v": v, "w": w}
    assert other.logs(["w", "nothing"]) == {"w": w}
    assert other.logs([]) == {}
    assert other.times() == {"v": 5, "w": 9}
    assert other.notes("mend:") == {"mend:db": "{}"} and other.notes("x") == {}
    assert other.commit_marks("db", 4) == (CommitMark("db", 5, 50),)
    assert other.commit_marks("db", 5, limit=3) == (CommitMark("db", 9, 90),)
    assert other.files() == {"us/b", "us/r", "eu/f"}


def test_a_round_moves_exchanges_and_forgets(open_ledger: Open):
    ledger = open_ledger()
    lease = ledger.acquire("service", "a", 10)
    first = (Edit("v", None, 5, (change("f", 1, 5),), site="us"), Edit("w", None, 5, site="us"))
    ledger.commit(
        lease,
        Commit(first, (SourceMend("a", "1"), SourceMend("b", "2")), (CommitMark("db", 1, 1), CommitMark("db", 2, 2))),
    )
    again = Edit("w", None, 1, (change("g", 0, 1),), site="eu")
    moved = Edit("v", 5, 8, (change("h", 5, 8),), drop=("f",), start=5)
    notes = (SourceMend.remove("a"), SourceMend("b", "2"), SourceMend("b", "3"))
    ledger.commit(lease, Commit((moved, again), notes, forget=("w", "unknown")))
    ledger.forget_commit_marks(lease, before=2)
    assert ledger.logs() == {
        "v": Log("v", "us", 8, 5, (change("h", 5, 8),)),
        "w": Log("w", "eu", 1, 0, (change("g", 0, 1),)),
    }
    assert ledger.notes() == {"mend:b": "3"}
    assert ledger.commit_marks("db", 0, limit=9) == (CommitMark("db", 2, 2),)


@pytest.mark.parametrize(
    "wrong",
    [
        Edit("v", 4, 6),
        Edit("v", None, 6, site="us"),
        Edit("unknown", 5, 6),
        Edit("v", 5, 6, drop=("unknown",)),
        Edit("v", 5, 6, add=(change("f", 5, 6),)),
    ],
    ids=["moved on", "exists", "missing", "drops what is not there", "adds what is there"],
)
def test_a_conflict_leaves_nothing_of_the_round(open_ledger: Open, wrong: Edit):
    ledger = open_ledger()
    lease = ledger.acquire("service", "a", 10)
    ledger.commit(lease, Commit((Edit("v", None, 5, (change("f", 1, 5),), site="us"), Edit("z", None, 5, site="us"))))
    before = ledger.logs()
    with pytest.raises(Conflict, match=r'"unknown"|"v"'):
        ledger.commit(
            lease,
            Commit((Edit("a", None, 1, site="us"), wrong, Edit("z", 5, 6)), (WantedTime(1),), (CommitMark("d", 1, 1),)),
        )
    assert ledger.logs() == before and not ledger.notes() and not ledger.commit_marks("d", 0)


def test_a_held_lease_is_refused_until_it_runs_out(open_ledger: Open, clock: Clock):
    first, second = open_ledger(), open_ledger()
    lease = first.acquire("service", "a", 10)
    with pytest.raises(LeaseHeld, match='"a" holds the lease "service" for another 10 s'):
        second.acquire("service", "b", 10)
    second.acquire("capture:db", "b", 10)
    clock.seconds += 9
    first.renew(lease, 10)
    clock.seconds += 9
    with pytest.raises(LeaseHeld):
        second.acquire("service", "b", 10)
    clock.seconds += 1
    assert second.acquire("service", "b", 10).epoch > lease.epoch


def test_the_lease_of_a_process_that_was_killed_is_free_at_once(open_ledger: Open):
    ledger, me = open_ledger(), this_holder()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        lease = ledger.acquire("service", f"{this_machine()}:{child.pid}-{birth_of(child.pid)}", 10)
        with pytest.raises(LeaseHeld):
            ledger.acquire("service", me, 10)
        child.kill()
    assert ledger.acquire("service", me, 10).epoch == lease.epoch + 1
    with pytest.raises(Fenced):
        ledger.commit(lease, Commit())


def test_a_second_writer_fences_the_first(open_ledger: Open, clock: Clock):
    first, second = open_ledger(), open_ledger()
    old = first.acquire("service", "a", 10)
    first.commit(old, Commit((Edit("v", None, 5, site="us"),)))
    clock.seconds += 11
    first.commit(old, Commit((Edit("v", 5, 6),)))  # late, but nobody else has it yet
    new = second.acquire("service", "b", 10)
    with pytest.raises(Fenced, match='"b" holds epoch 2'):
        first.commit(old, Commit((Edit("v", 6, 7),)))
    with pytest.raises(Fenced):
        first.renew(old, 10)
    with pytest.raises(Fenced):
        first.forget_commit_marks(old, 5)
    first.release(old)
    second.commit(new, Commit((Edit("v", 6, 8),)))
    assert first.times() == {"v": 8}


def test_a_released_lease_is_free_and_commits_nothing(open_ledger: Open):
    ledger = open_ledger()
    lease = ledger.acquire("service", "a", 10)
    ledger.release(lease)
    with pytest.raises(Fenced, match="nobody holds it"):
        ledger.commit(lease, Commit((Edit("v", None, 5, site="us"),)))
    assert ledger.acquire("service", "a", 10).epoch == 2


def test_an_epoch_is_fenced_even_when_the_next_holder_has_the_same_name(open_ledger: Open, clock: Clock):
    ledger = open_ledger()
    old = ledger.acquire("service", "a", 10)
    clock.seconds += 11
    new = ledger.acquire("service", "a", 10)
    for refused in (lambda: ledger.commit(old, Commit()), lambda: ledger.renew(old, 10)):
        with pytest.raises(Fenced):
            refused()
    ledger.release(old)
    ledger.commit(new, Commit(notes=(WantedTime(1),)))


def test_a_ledger_of_a_newer_format_is_refused(open_ledger: Open, database: Callable[[], LedgerDatabase]):
    open_ledger()
    with closing(database()) as other, other.write() as transaction:
        transaction.change(statements.WRITE_FORMAT, [(99,)])
    with pytest.raises(ConnectError, match="has format 99, this version of Headrace knows formats up to 3"):
        open_ledger()


def test_an_older_format_is_brought_up_to_date(open_ledger: Open, monkeypatch: pytest.MonkeyPatch):
    ledger = open_ledger()
    ledger.commit(ledger.acquire("service", "a", 10), Commit(notes=(WantedTime(1),)))
    more = (*statements.MIGRATIONS, ("CREATE TABLE more (id BIGINT)", "INSERT INTO notes VALUES ('format', 'newest')"))
    monkeypatch.setattr(statements, "MIGRATIONS", more)
    monkeypatch.setattr(statements, "FORMAT", len(more))
    assert open_ledger().notes() == {"wanted": "1", "format": "newest"} == open_ledger().notes()


def test_files_in_the_ledger_of_version_0_2_have_no_checksums_until_they_are_replaced(
    open_ledger: Open, database: Callable[[], LedgerDatabase]
):
    with closing(database()) as old, old.migrate() as transaction:
        transaction.change(statements.MAKE_FORMAT)
        for number, changes in enumerate(statements.MIGRATIONS[:2]):
            for statement in changes:
                transaction.change(statement)
            transaction.change(statements.WRITE_FORMAT, [(number + 1,)])
        transaction.change("INSERT INTO logs VALUES ('v', 'us', 7, 5)")
        transaction.change("INSERT INTO pieces VALUES ('v', 'change', 'a.arrow', 5, 7, 3, 100, '[]', 0, 1)")
    ledger = open_ledger()
    (piece,) = ledger.logs()["v"].pieces
    assert piece == Piece(PieceKind.CHANGE, "a.arrow", 5, 7, 3, 100, root=None)
    lease = ledger.acquire("service", "a", 10)
    ledger.commit(lease, Commit((Edit("v", 7, 7, (replace(piece, root=2**32 - 1),), ("a.arrow",)),)))
    assert open_ledger().logs()["v"].pieces == (replace(piece, root=2**32 - 1),)


def test_writers_with_leases_of_their_own_do_not_lose_rounds(open_ledger: Open):
    names, rounds = ("service", "capture:a", "capture:b"), 30

    def commit(ledger: SqlLedger, name: str) -> None:
        lease = ledger.acquire(name, name, 10)
        ledger.commit(lease, Commit((Edit(name, None, 0, site="us"),)))
        for t in range(rounds):
            ledger.commit(lease, Commit((Edit(name, t, t + 1, (change(f"{name}{t}", t, t + 1),)),)))

    threads = [threading.Thread(target=commit, args=(open_ledger(), name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = {name: (log.t, len(log.pieces)) for name, log in open_ledger().logs().items()}
    assert kept == dict.fromkeys(names, (rounds, rounds))


def test_a_fenced_or_conflicting_round_tells_nothing(open_ledger: Open, clock: Clock):
    ledger = open_ledger()
    lease = ledger.acquire("service", "a", 10)
    with pytest.raises(Conflict):
        ledger.commit(lease, Commit((Edit("unknown", 5, 6),), events=(ServiceStarted(1, 1),)))
    clock.seconds += 11
    ledger.acquire("service", "b", 10)
    with pytest.raises(Fenced):
        ledger.commit(lease, Commit(events=(ServiceStarted(1, 1),)))
    assert ledger.events(EventsAsked()) == ()


def test_numbers_of_events_follow_the_order_of_commits_of_several_writers(open_ledger: Open):
    """Whoever follows reads each once: no event appears before one that was read already."""
    reader, writers = open_ledger(), 4

    def write(name: int) -> None:
        ledger = open_ledger()
        lease = ledger.acquire(f"w{name}", "a", 60)
        for number in range(25):
            ledger.commit(lease, Commit(events=(ServiceStarted(number, name), DatasetsPushed(number, name))))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(writers)]
    for thread in threads:
        thread.start()
    seen: list[tuple[int, int]] = []
    last = 0
    while any(thread.is_alive() for thread in threads) or len(seen) < 25 * writers:
        for one in reader.events(EventsAsked(after=last, limit=7)):
            assert isinstance(one.event, ServiceStarted)
            seen.append((one.event.pid, one.event.at))
            last = one.number
    assert sorted(seen) == [(name, number) for name in range(writers) for number in range(25)]


class CountedReads(SqliteDatabase):
    """A database that counts how often it is read."""

    reads = 0

    def read(self) -> AbstractContextManager[Transaction]:
        self.reads += 1
        return super().read()


@pytest.mark.parametrize("latest", [False, True])
def test_many_events_are_read_a_thousand_at_a_time_so_that_others_have_their_turn(tmp_path: Path, latest: bool):
    database = CountedReads(tmp_path / "ledger.db")
    ledger = SqlLedger(database)
    events = tuple(DatasetsPushed(number, number) for number in range(2500))
    ledger.commit(ledger.acquire("service", "a", 10), Commit(events=events))
    before = database.reads
    found = ledger.events(EventsAsked(limit=2500, routine=True, latest=latest))
    assert tuple(one.event for one in found) == events
    assert database.reads - before == 3
    ledger.close()


def test_pushes_crowd_out_older_pushes_and_nothing_else(open_ledger: Open):
    ledger = open_ledger()
    lease = ledger.acquire("service", "a", 10)
    rare = tuple(ServiceStarted(number, number) for number in range(10))
    ledger.commit(lease, Commit(events=rare))
    for number in range(100):
        ledger.commit(lease, Commit(events=(DatasetsPushed(number, number),)))
    while ledger.forget_events(lease, before=0, routine_bytes=1000, other_bytes=10_000):
        pass
    pushes = [one.event.at for one in ledger.events(EventsAsked(limit=500, routine=True)) if one.event.is_routine]
    assert pushes == list(range(100 - len(pushes), 100)) and 5 < len(pushes) < 25
    assert [one.event for one in ledger.events(EventsAsked())] == list(rare)
    ledger.forget_events(lease, before=5, routine_bytes=0, other_bytes=10_000)
    assert [one.event for one in ledger.events(EventsAsked(routine=True))] == list(rare[5:])
