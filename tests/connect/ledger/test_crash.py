"""A process killed while it commits leaves whole rounds, and files that the next sweep finds."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.connect.files import FileStore
from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.postgres import open_postgres
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.model.errors import Fenced
from headrace.model.event_wire import EventsAsked
from headrace.model.log import Commit, Edit, Lease
from headrace.model.notes import WantedTime
from headrace.run.logs.garbage import sweep

LOGS = tuple(f"v{n}" for n in range(20))

WRITER = """
import sys
from pathlib import Path

import pyarrow as pa

from headrace.connect.files import FileStore
from headrace.connect.ledger.postgres import open_postgres
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.model.log import Commit, CommitMark, Edit, PieceKind
from headrace.model.notes import WantedTime
from headrace.model.push_events import DatasetsPushed

kind, where, files = sys.argv[1:]
ledger = open_sqlite(Path(where)) if kind == "sqlite" else open_postgres(where)
store = FileStore(Path(files))
lease = ledger.acquire("service", "writer", 3600)
for t in range(1_000_000):
    pieces = {}
    for log in (f"v{n}" for n in range(20)):
        pieces[log] = store.write("us", pa.table({"t": [t]}), log).as_piece(PieceKind.CHANGE, t, t + 1, 1)
    edits = tuple(Edit(log, t or None, t + 1, (piece,), site="us") for log, piece in pieces.items())
    marks, events = (CommitMark("db", t + 1, t),), (DatasetsPushed(t, 20),)
    ledger.commit(lease, Commit(edits, (WantedTime(t + 1),), marks, events=events))
    print(t + 1, flush=True)
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.live)])
def kind_and_place(request: Any, tmp_path: Path) -> tuple[str, str]:
    place = tmp_path / "ledger.db" if request.param == "sqlite" else request.getfixturevalue("postgres_dsn")
    return request.param, str(place)


def opened(kind_and_place: tuple[str, str], clock: Callable[[], float] | None = None) -> SqlLedger:
    kind, place = kind_and_place
    return open_sqlite(Path(place), clock) if kind == "sqlite" else open_postgres(place, clock)


@pytest.mark.parametrize("rounds", [1, 15])
def test_a_writer_killed_at_any_instant_leaves_whole_rounds(
    kind_and_place: tuple[str, str], tmp_path: Path, rounds: int
):
    command = [sys.executable, "-c", WRITER, *kind_and_place, str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [int(writer.stdout.readline()) for _ in range(rounds)]
        writer.send_signal(signal.SIGKILL)
        said += [int(line) for line in writer.stdout if line.endswith("\n")]

    with closing(opened(kind_and_place)) as ledger:
        logs, last = ledger.logs(), int(ledger.notes()["wanted"])
        assert last >= said[-1], "what was said to be committed is"
        assert logs.keys() == set(LOGS)
        assert {(log.t, len(log.pieces)) for log in logs.values()} == {(last, last)}
        assert len(ledger.commit_marks("db", 0, limit=last + 10)) == last
        told = ledger.events(EventsAsked(limit=last + 10, routine=True))
        assert [one.number for one in told] == list(range(1, last + 1)), "each commit told of itself once"

        store = FileStore(tmp_path / "data")
        there = {f"{site}/{file}" for site, file, _ in store.list()}
        assert ledger.files() <= there
        collect(store, ledger)
        assert {f"{site}/{file}" for site, file, _ in store.list()} == ledger.files()
        for log in logs.values():
            assert [store.read("us", p.stored)["t"][0].as_py() for p in log.pieces] == list(range(last))


def collect(store: FileStore, ledger: SqlLedger) -> None:
    """Two sweeps, a grace period apart; of files older than it."""
    old = [(site, file, 100.0) for site, file, _ in store.list()]
    first = sweep(old, ledger.files(), {}, now=0.0, grace=10.0)
    assert first.delete == ()
    for site, file in sweep(old, ledger.files(), first.unnamed_since, now=10.0, grace=10.0).delete:
        store.delete(site, file)


def test_what_a_fenced_writer_wrote_is_garbage(kind_and_place: tuple[str, str], tmp_path: Path):
    store, now = FileStore(tmp_path / "data"), [0.0]
    with closing(opened(kind_and_place, lambda: now[0])) as a, closing(opened(kind_and_place, lambda: now[0])) as b:
        old = a.acquire("service", "a", 10)
        store.write("us", pa.table({"t": [1]}), "v")
        now[0] = 11.0
        b.acquire("service", "b", 10)
        with pytest.raises(Fenced):
            a.commit(old, Commit((Edit("v", None, 1, site="us"),)))
        collect(store, b)
        assert list(store.list()) == []


def test_processes_that_open_a_new_ledger_at_once_all_succeed(kind_and_place: tuple[str, str]):
    program = WRITER.split("store =")[0] + "print(ledger.acquire(sys.argv[3], 'x', 9).epoch)"
    command = [sys.executable, "-c", program, *kind_and_place]
    started = [subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True) for n in range(4)]
    assert [process.communicate()[0] for process in started] == ["1\n"] * 4


def test_a_broken_connection_is_made_anew(postgres_dsn: str):
    import psycopg

    from headrace.model.errors import ConnectError

    with closing(open_postgres(postgres_dsn)) as ledger, psycopg.connect(postgres_dsn, autocommit=True) as other:
        lease: Lease = ledger.acquire("service", "a", 100)
        other.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with pytest.raises(ConnectError):
            ledger.commit(lease, Commit(notes=(WantedTime(1),)))
        ledger.commit(lease, Commit(notes=(WantedTime(2),)))
        assert ledger.notes() == {"wanted": "2"}
