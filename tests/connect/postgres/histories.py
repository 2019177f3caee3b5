"""Random histories of three tables: with a key, with a key of two columns and large texts, and without a key."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg

from headrace.model.types import BIGINT, INT, STRING
from headrace.run.capture.spool import CapturedTable
from tests.connect.postgres.spools import Bag, bag

PLAIN = CapturedTable("plain", "us", "public.plain", (("id", BIGINT), ("v", STRING)), ("id",))
WIDE = CapturedTable(
    "wide", "eu", 'public."Wide Ü"', (("a", INT), ("größe", STRING), ("b", STRING), ("n", INT)), ("a", "b")
)
LOOSE = CapturedTable("loose", "us", "loose", (("v", STRING), ("n", INT)))
TICKS = CapturedTable("ticks", "us", "ticks", (("n", INT),), ("n",))
TABLES = (PLAIN, WIDE, LOOSE, TICKS)

CREATE = """
CREATE TABLE plain (id bigint PRIMARY KEY, left_out int, v text);
CREATE TABLE "Wide Ü" (a int, b text, "größe" text, n int, PRIMARY KEY (a, b));
ALTER TABLE "Wide Ü" ALTER COLUMN "größe" SET STORAGE EXTERNAL;
CREATE TABLE loose (v text, n int);
ALTER TABLE loose REPLICA IDENTITY FULL;
CREATE TABLE ticks (n int PRIMARY KEY)
"""

NAMES = {"plain": "plain", "wide": '"Wide Ü"', "loose": "loose", "ticks": "ticks"}


@dataclass
class History:
    """Runs transactions, and remembers what the tables held after each. `ticks` counts them in the database."""

    connection: psycopg.Connection
    chance: random.Random
    expected: list[dict[str, Bag]] = field(default_factory=list)

    def transaction(self, size: int = 5) -> None:
        """Committed or rolled back, in parts or as a whole.

        One that truncates a table which is being read is given up: a capture in the same thread would never end.
        """
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            self._try_transaction(size)

    def _try_transaction(self, size: int) -> None:
        with self.connection.transaction(force_rollback=self.chance.random() < 0.15) as outer:
            self.connection.execute("SET LOCAL lock_timeout = '1s'")
            for _ in range(self.chance.randint(1, size)):
                with self.connection.transaction(force_rollback=self.chance.random() < 0.2):
                    for statement in self.some_changes():
                        self.connection.execute(statement.encode())
            if not outer.force_rollback:
                self.connection.execute("INSERT INTO ticks VALUES (%s)", [len(self.expected)])
        if not outer.force_rollback:
            self.remember()

    def big_transaction(self, rows: int) -> None:
        with self.connection.transaction():
            self.connection.execute(f"INSERT INTO loose SELECT 'big', g FROM generate_series(1, {rows}) g")
            with self.connection.transaction(force_rollback=True):
                self.connection.execute(f"INSERT INTO loose SELECT 'gone', g FROM generate_series(1, {rows}) g")
            self.connection.execute("DELETE FROM plain WHERE id >= 5000")
            self.connection.execute(f"INSERT INTO plain SELECT g, 1, 'big' FROM generate_series(5000, {5000 + rows}) g")
            self.connection.execute("INSERT INTO ticks VALUES (%s)", [len(self.expected)])
        self.remember()

    def remember(self) -> None:
        self.expected.append({table.source: contents(self.connection, table) for table in TABLES})

    def some_changes(self) -> Iterator[str]:
        id_, text = self.chance.randint(1, 12), self.chance.choice(["", "x", "naïve 🐘", "it''s", "a\\b\tc"])
        wide = "repeat('€', 4000)" if self.chance.random() < 0.5 else f"'{text}'"
        yield self.chance.choice(
            [
                f"INSERT INTO plain VALUES ({id_}, 1, '{text}') ON CONFLICT (id) DO UPDATE SET v = excluded.v",
                f"UPDATE plain SET v = NULL, left_out = 5 WHERE id > {id_} AND id < 5100",
                f"UPDATE plain SET id = id + 100 WHERE id < {id_} AND NOT EXISTS (SELECT FROM plain WHERE id > 90)",
                f"DELETE FROM plain WHERE id = {id_} OR id > 100",
                f"INSERT INTO {NAMES['wide']} VALUES ({id_}, '{text}', {wide}, 1) ON CONFLICT DO NOTHING",
                f"UPDATE {NAMES['wide']} SET n = n + 1 WHERE a >= {id_}",
                f"UPDATE {NAMES['wide']} SET a = a + 1000 WHERE a = {id_} AND a < 1000",
                f"""UPDATE {NAMES["wide"]} SET "größe" = '{text}' WHERE a = {id_}""",
                f"DELETE FROM {NAMES['wide']} WHERE a > 500 OR a = {id_}",
                f"INSERT INTO loose SELECT '{text}', g % 2 FROM generate_series(1, {id_}) g",
                f"UPDATE loose SET n = n + 1 WHERE v = '{text}'",
                f"DELETE FROM loose WHERE n > {id_ % 3}",
                "TRUNCATE loose, plain" if self.chance.random() < 0.2 else "SELECT 1",
                f"TRUNCATE {NAMES['wide']}" if self.chance.random() < 0.2 else "SELECT 1",
            ]
        )


def contents(connection: psycopg.Connection, table: CapturedTable) -> Bag:
    columns = ", ".join(f'"{name}"' for name in table.names)
    return bag(connection.execute(f"SELECT {columns} FROM {NAMES[table.source]}".encode()).fetchall())
