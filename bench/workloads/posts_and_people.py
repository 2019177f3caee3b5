"""People in one database, what they post in another, and eight contracts over both; people write all the time.

Whoever writes goes on when a database comes back: what was not committed is not tried again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.beside import Beside

DATABASES = ("people", "posts")
USERS, PLACES, POSTS, LIKES = 5_000, 50, 20_000, 40_000
AGAIN_AFTER_S = 0.2

PROJECT = """\
project: kills
sites:
  people: {cpu: 0.34 $/core-hour}
  posts: {cpu: 0.34 $/core-hour}
  office: {cpu: 0.34 $/core-hour}
links:
  - {between: [people, posts], bandwidth: 100 Mbps, latency: 10 ms, price: 0.01 $/GB}
  - {between: [people, office], bandwidth: 100 Mbps, latency: 10 ms, price: 0.01 $/GB}
  - {between: [posts, office], bandwidth: 100 Mbps, latency: 10 ms, price: 0.01 $/GB}
sources:
  users: {kind: table, at: people, postgres: {dsn: "${PEOPLE_DSN}", table: public.users}, key: [uid]}
  places: {kind: table, at: people, postgres: {dsn: "${PEOPLE_DSN}", table: public.places}, key: [place]}
  posts: {kind: table, at: posts, postgres: {dsn: "${POSTS_DSN}", table: public.posts}, key: [pid]}
  likes: {kind: table, at: posts, postgres: {dsn: "${POSTS_DSN}", table: public.likes}, key: [lid]}
contracts:
"""

CONTRACTS: dict[str, tuple[str, int, str]] = {
    "wall": ("office", 10, "SELECT p.pid, u.name, p.topic FROM posts p JOIN users u ON p.uid = u.uid"),
    "by_country": (
        "office",
        15,
        "SELECT u.country, count(*) AS n, sum(p.length) AS length FROM posts p JOIN users u ON p.uid = u.uid"
        " GROUP BY u.country",
    ),
    "popular": (
        "posts",
        20,
        "SELECT p.pid, p.topic, count(*) AS likes FROM posts p JOIN likes l ON p.pid = l.pid GROUP BY p.pid, p.topic",
    ),
    "living": ("people", 10, "SELECT u.uid, u.name, s.city FROM users u JOIN places s ON u.place = s.place"),
    "europeans": ("office", 10, "SELECT uid, name FROM users WHERE country = 'de' OR country = 'fr'"),
    "long_posts": ("posts", 10, "SELECT pid, uid, topic FROM posts WHERE length > 800"),
    "cities": (
        "office",
        30,
        "SELECT s.city, count(*) AS n FROM posts p JOIN users u ON p.uid = u.uid JOIN places s ON u.place = s.place"
        " GROUP BY s.city",
    ),
    "fans": (
        "people",
        30,
        "SELECT u.country, count(*) AS likes FROM likes l JOIN users u ON l.uid = u.uid GROUP BY u.country",
    ),
}
"""Where, how many seconds fresh, and what."""

TABLES = {
    "people": f"""
        CREATE TABLE users (uid bigserial PRIMARY KEY, name text, country text, place bigint);
        CREATE TABLE places (place bigint PRIMARY KEY, city text);
        INSERT INTO places SELECT i, 'city ' || i FROM generate_series(1, {PLACES}) i;
        INSERT INTO users (name, country, place)
            SELECT 'name ' || i, (ARRAY['de', 'fr', 'us', 'in', 'br'])[1 + i % 5], 1 + i % {PLACES}
            FROM generate_series(1, {USERS}) i;
        ANALYZE""",
    "posts": f"""
        CREATE TABLE posts (pid bigserial PRIMARY KEY, uid bigint, topic text, length bigint);
        CREATE TABLE likes (lid bigserial PRIMARY KEY, pid bigint, uid bigint);
        INSERT INTO posts (uid, topic, length)
            SELECT 1 + i * 7 % {USERS}, 'topic ' || i % 20, i * 13 % 1000 FROM generate_series(1, {POSTS}) i;
        INSERT INTO likes (pid, uid)
            SELECT 1 + i * 3 % {POSTS}, 1 + i * 11 % {USERS} FROM generate_series(1, {LIKES}) i;
        ANALYZE""",
}

HABITS: dict[str, tuple[tuple[float, str], ...]] = {
    "people": (
        (4, "UPDATE users SET name = 'name ' || %(n)s WHERE uid = %(user)s"),
        (3, "UPDATE users SET country = (ARRAY['de', 'fr', 'us', 'in', 'br'])[1 + %(n)s %% 5] WHERE uid = %(user)s"),
        (2, "UPDATE users SET place = 1 + %(n)s %% 50 WHERE uid = %(user)s"),
        (1, "INSERT INTO users (name, country, place) VALUES ('new', 'de', 1 + %(n)s %% 50)"),
        (1, "DELETE FROM users WHERE uid = %(user)s"),
        (0.2, "UPDATE places SET city = 'city ' || %(n)s WHERE place = 1 + %(n)s %% 50"),
    ),
    "posts": (
        (6, "INSERT INTO posts (uid, topic, length) VALUES (%(user)s, 'topic ' || %(n)s %% 20, %(n)s %% 1000)"),
        (6, "INSERT INTO likes (pid, uid) VALUES (%(post)s, %(user)s)"),
        (2, "UPDATE posts SET length = %(n)s %% 1000 WHERE pid = %(post)s"),
        (2, "DELETE FROM posts WHERE pid = %(post)s"),
        (2, "DELETE FROM likes WHERE lid IN (SELECT lid FROM likes WHERE pid = %(post)s LIMIT 3)"),
    ),
}
"""What is done in each database, and how often compared with the rest of it."""


def write_project(folder: Path) -> None:
    (folder / "views").mkdir(parents=True)
    for name, (_, _, query) in CONTRACTS.items():
        (folder / "views" / f"{name}.sql").write_text(query + "\n")
    write_contracts(folder, CONTRACTS)


def write_contracts(folder: Path, names: Iterable[str]) -> None:
    """Writes the project with some of its contracts: all at once, since somebody may read it."""
    chosen = ((name, *CONTRACTS[name][:2]) for name in names)
    lines = [
        f"  {name}: {{view: {name}, at: {site}, freshness: {freshness_s} s, penalty: 0.001 $/row}}\n"
        for name, site, freshness_s in chosen
    ]
    unfinished = folder / ".headrace.yml"
    unfinished.write_text(PROJECT + "".join(lines))
    unfinished.replace(folder / "headrace.yml")


def fill_database(dsn: str, database: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TABLES[database].encode())


@dataclass
class Writer(Beside):
    """Writes to one database, `per_s` transactions a second while it answers; `written` were committed so far."""

    database: str
    dsn: str
    per_s: float
    seed: int
    written: int = 0
    broken_off: int = 0
    error: str | None = None

    def __post_init__(self) -> None:
        super().__init__(f"writer of {self.database}")

    def run(self) -> None:
        chance = random.Random(f"{self.seed} {self.database}")
        while not self.stopping.wait(AGAIN_AFTER_S):
            try:
                with psycopg.connect(self.dsn, autocommit=True, connect_timeout=5) as connection:
                    self._write(connection, chance)
            except psycopg.OperationalError:
                self.broken_off += 1
            except psycopg.Error as error:
                self.error = str(error)
                return

    def _write(self, connection: psycopg.Connection[tuple[object, ...]], chance: random.Random) -> None:
        shares, statements = zip(*HABITS[self.database], strict=True)
        due = time.monotonic()
        while not self.stopping.wait(max(0.0, due - time.monotonic())):
            (statement,) = chance.choices(statements, shares)
            connection.execute(statement.encode(), self._values(chance))
            self.written += 1
            due = max(due, time.monotonic() - 1.0) + 1.0 / self.per_s

    def _values(self, chance: random.Random) -> dict[str, int]:
        """Posts of late are liked, changed and deleted more often than old ones."""
        latest = POSTS + self.written // 3
        return {
            "n": chance.randrange(1_000_000),
            "user": 1 + chance.randrange(USERS),
            "post": max(1, latest - int(chance.expovariate(1 / 3_000))),
        }
