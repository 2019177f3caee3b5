"""Capture as a process of its own, killed and stopped; and by queries instead of a stream."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from headrace.connect.files import FileStore
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.connect.postgres.polling import PolledLog
from headrace.connect.postgres.process import main
from headrace.connect.postgres.replication import LogStream
from headrace.model.event_wire import EventsAsked
from headrace.model.log import Commit
from headrace.model.notes import CaptureFailing, CapturingTables, SourceLoaded, read_note
from headrace.model.plan_events import SourcesReread
from headrace.model.push_events import ChangesCaptured
from headrace.run.capture.spool import CapturedTable
from headrace.run.ports import Ledger
from tests.connect.postgres.histories import CREATE, TABLES, TICKS, History
from tests.connect.postgres.spools import contents_now

SOURCE = Path(__file__).parents[3] / "src"


def config(folder: Path) -> Path:
    file = folder / "capture.json"
    file.write_text(config_of(folder, TABLES))
    return file


def config_of(folder: Path, captured: Sequence[CapturedTable]) -> str:
    tables = [
        {
            "source": table.source,
            "site": table.site,
            "table": table.table,
            "columns": {name: str(type_) for name, type_ in table.columns},
            "key": list(table.key),
        }
        for table in captured
    ]
    paths = {"ledger": str(folder / "ledger.db"), "store": str(folder / "files"), "scratch": str(folder / "scratch")}
    return json.dumps({"project": "p", "database": "d", "dsn_variable": "THE_DSN", "tables": tables, **paths})


def start(folder: Path, dsn: str, configuration: str = "capture.json") -> subprocess.Popen[str]:
    """`-` has it wait for lines."""
    name = configuration if configuration == "-" else str(folder / configuration)
    command = [sys.executable, "-m", "headrace.connect.postgres.process", name]
    environment = {**os.environ, "THE_DSN": dsn, "PYTHONPATH": str(SOURCE)}
    stdin = subprocess.PIPE if configuration == "-" else None
    return subprocess.Popen(command, env=environment, stdin=stdin, stdout=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def execute(connection: psycopg.Connection, statements: str) -> None:
    for statement in statements.split(";\n"):
        connection.execute(statement.encode())


def check(folder: Path, history: History) -> None:
    ledger, store = open_sqlite(folder / "ledger.db"), FileStore(folder / "files")
    for table in TABLES:
        assert contents_now(table, ledger, store) == history.expected[-1][table.source]
    told = [one.event for one in ledger.events(EventsAsked(limit=100_000, routine=True))]
    captured = [one.rows_of for one in told if isinstance(one, ChangesCaptured)]
    for table in TABLES:
        rows = sum(piece.rows for piece in ledger.logs([table.log])[table.log].pieces)
        assert sum(one.get(table.source, 0) for one in captured) == rows, "each row is told of once"
    ledger.close()


def test_a_process_that_is_killed_again_and_again_loses_and_doubles_nothing(postgres_dsn: str, tmp_path: Path):
    config(tmp_path)
    ledger = open_sqlite(tmp_path / "ledger.db")
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        execute(connection, CREATE)
        history = History(connection, random.Random(11))
        history.big_transaction(1_000)
        for _ in range(2):
            process = start(tmp_path, postgres_dsn)
            before = ledger.times().get("spool:plain", 0)
            while ledger.times().get("spool:plain", 0) == before:
                history.transaction()
            process.kill()
            process.communicate()
            end_leases(tmp_path)
        history.big_transaction(1_000)
        process = start(tmp_path, postgres_dsn)
        wait_for(lambda: has_all(ledger, tmp_path, history))
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert json.loads(told.splitlines()[-1]) == {"event": "stopped"}
    ledger.close()
    check(tmp_path, history)


def test_a_process_notes_why_it_fails_until_it_captures_again(postgres_dsn: str, tmp_path: Path):
    config(tmp_path)
    ledger = open_sqlite(tmp_path / "ledger.db")

    def failing() -> CaptureFailing | None:
        return read_note(ledger, CaptureFailing, "d")

    process = start(tmp_path, "postgresql://nobody@127.0.0.1:1/none")
    wait_for(lambda: failing() is not None)
    found = failing()
    assert found is not None and "127.0.0.1" in found.why
    process.kill()
    process.communicate()
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        execute(connection, CREATE)
        process = start(tmp_path, postgres_dsn)
        wait_for(lambda: failing() is None)
        # A capture that stood still meanwhile notes why it fails, although another has taken over and works.
        ledger.commit(ledger.acquire("failure of d", "one that stood still", 60), Commit(notes=(found,)))
        assert failing() is not None
        wait_for(lambda: failing() is None)
        process.terminate()
        process.communicate(timeout=120)
    ledger.close()


def test_a_process_that_waits_for_a_database_which_stands_still_ends_when_it_is_told_to(
    postgres_dsn: str, tmp_path: Path
):
    config(tmp_path)
    ours = (
        b"SELECT pid FROM pg_stat_activity WHERE application_name = 'headrace capture' AND datname = current_database()"
    )
    ledger = open_sqlite(tmp_path / "ledger.db")
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        execute(connection, CREATE)
        process = start(tmp_path, postgres_dsn)
        wait_for(lambda: bool(ledger.notes("position:")))
        servers = [pid for (pid,) in connection.execute(ours)]
        for pid in servers:
            os.kill(pid, signal.SIGSTOP)
        try:
            process.send_signal(signal.SIGTERM)
            told, _ = process.communicate(timeout=120)
        finally:
            for pid in servers:
                os.kill(pid, signal.SIGCONT)
    ledger.close()
    ended = process.returncode, json.loads(told.splitlines()[-1])["event"]
    assert ended in ((0, "stopped"), (1, "abandoned")), "by itself unless it was in the midst of a question"


def test_a_process_goes_over_to_other_tables_and_lets_go_of_those_that_it_had(postgres_dsn: str, tmp_path: Path):
    ledger = open_sqlite(tmp_path / "ledger.db")
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        execute(connection, CREATE)
        history = History(connection, random.Random(12))
        process = start(tmp_path, postgres_dsn, "-")

        def captures(tables: Sequence[CapturedTable]) -> None:
            assert process.stdin is not None
            process.stdin.write(config_of(tmp_path, tables) + "\n")
            process.stdin.flush()
            digest = CaptureSettings("p", "d", postgres_dsn, tuple(tables), tmp_path).digest
            wait_for(lambda: read_note(ledger, CapturingTables, "d") == CapturingTables("d", digest))

        captures([TICKS])
        history.transaction()
        captures(TABLES)
        history.transaction()
        wait_for(lambda: has_all(ledger, tmp_path, history))
        check(tmp_path, history)
        gone = next(table for table in TABLES if table is not TICKS)
        captures([table for table in TABLES if table is not gone])
        lease = ledger.acquire("service", "test", 60)
        ledger.commit(lease, Commit(notes=(SourceLoaded.remove(gone.source),), forget=(gone.log,)))
        history.transaction()
        captures(TABLES)
        wait_for(lambda: has_all(ledger, tmp_path, history))
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=120)
        events = [json.loads(line)["event"] for line in told.splitlines()]
        assert process.returncode == 0 and "failed" not in events, events
    ledger.close()
    check(tmp_path, history)


def end_leases(folder: Path) -> None:
    """Leases of killed processes end by time; nobody has to wait for that here."""
    with contextlib.closing(sqlite3.connect(folder / "ledger.db")) as connection, connection:
        connection.execute("UPDATE leases SET until = 0")


def has_all(ledger: Ledger, folder: Path, history: History) -> bool:
    loaded = len(ledger.notes("loaded:")) == len(TABLES)
    ticks = contents_now(TICKS, ledger, FileStore(folder / "files"))
    return loaded and (len(history.expected) - 1,) in ticks


def test_a_process_ends_when_nobody_tells_it_what_to_capture_any_more(postgres_dsn: str, tmp_path: Path):
    """Whoever started it may have died before it knew who that was."""
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        execute(connection, CREATE)
    process = start(tmp_path, postgres_dsn, "-")
    assert process.stdin is not None
    process.stdin.write(config_of(tmp_path, TABLES) + "\n")
    told, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(told.splitlines()[-1]) == {"event": "stopped"}


def test_polling_captures_the_same(postgres_dsn: str, tmp_path: Path):
    ledger, store = open_sqlite(tmp_path / "ledger.db"), FileStore(tmp_path / "files")
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        execute(connection, CREATE)
        history = History(connection, random.Random(2))
        settings = CaptureSettings("p", "d", postgres_dsn, TABLES, tmp_path / "scratch", PolledLog)
        for _ in range(3):
            capture = Capture(settings, ledger, store)
            for _ in range(8):
                history.transaction()
                capture.step(0.01)
            capture.close()
        history.big_transaction(500)
        capture = Capture(settings, ledger, store)
        capture.catch_up()
        capture.close()
    ledger.close()
    check(tmp_path, history)


def test_going_over_to_polling_and_back_reads_nothing_again(postgres_dsn: str, tmp_path: Path):
    ledger, store = open_sqlite(tmp_path / "ledger.db"), FileStore(tmp_path / "files")
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        execute(connection, CREATE)
        history = History(connection, random.Random(3))
        settings = CaptureSettings("p", "d", postgres_dsn, TABLES, tmp_path / "scratch")
        for stream in (LogStream, PolledLog, LogStream):
            with contextlib.closing(Capture(replace(settings, stream=stream), ledger, store)) as capture:
                for _ in range(4):
                    history.transaction()
                    capture.catch_up()
        events = [one.event for one in ledger.events(EventsAsked(limit=1000))]
        assert [one for one in events if isinstance(one, SourcesReread)] == []
    ledger.close()
    check(tmp_path, history)


def test_a_wrong_configuration_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "wrong.json"
    file.write_text('{"project": "p"}')
    assert main([str(file)]) == 2
    assert capsys.readouterr().err == "error: the configuration is wrong at database: Field required\n"


def test_an_address_that_is_not_set_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(config(tmp_path))]) == 2
    assert capsys.readouterr().err == 'error: the environment variable "THE_DSN" is not set\n'
