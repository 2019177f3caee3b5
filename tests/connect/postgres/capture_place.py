"""A database whose changes are captured, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from headrace.connect.files import FileStore
from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.run.capture.spool import CapturedTable
from tests.connect.postgres.histories import TABLES, History
from tests.connect.postgres.spools import Bag, Replay, contents_now, spool_rows


@dataclass
class Place:
    """A database, and a ledger and a store for what is captured of it."""

    dsn: str
    folder: Path
    connection: psycopg.Connection
    ledger: SqlLedger
    store: FileStore

    def settings(self, *tables: CapturedTable, **more: Any) -> CaptureSettings:
        return CaptureSettings("test", "main", self.dsn, tables or TABLES, self.folder / "scratch", **more)

    def capture(self, *tables: CapturedTable, **more: Any) -> Capture:
        return Capture(self.settings(*tables, **more), self.ledger, self.store)

    def captured(self, table: CapturedTable) -> Bag:
        return contents_now(table, self.ledger, self.store)

    def execute(self, statements: str) -> None:
        for statement in statements.split(";\n"):
            self.connection.execute(statement.encode())


def check_every_time(place: Place, history: History) -> None:
    """After each transaction that the spools have, all tables are as they were after it."""
    rows = [
        (row["__t"], row["__n"], table.source, row)
        for table in TABLES
        for row in spool_rows(table, place.ledger, place.store)
    ]
    loaded = max(int(place.ledger.notes("loaded:")[f"loaded:{table.source}"]) for table in TABLES)
    replays = {table.source: Replay(table) for table in TABLES}
    checked = 0
    times = sorted({t for t, *_ in rows})
    by_time: dict[int, list[tuple[int, str, dict[str, Any]]]] = {t: [] for t in times}
    for t, number, source, row in rows:
        by_time[t].append((number, source, row))
    for t in times:
        for _, source, row in sorted(by_time[t], key=lambda entry: entry[:2]):
            replays[source].apply(row)
        if t >= loaded:
            tick = max((n for (n,) in replays["ticks"].contents), default=-1)
            assert tick >= 0
            for source, replay in replays.items():
                assert +replay.contents == history.expected[tick][source], (source, tick)
            checked += 1
    assert max(n for (n,) in replays["ticks"].contents) == len(history.expected) - 1
    assert checked
    assert len(set(place.ledger.times().values())) == 1, "all spools of a database are at the same time"
