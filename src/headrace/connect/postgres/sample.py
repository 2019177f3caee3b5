"""Sample databases: made by SQL files, and changed as their apps would.

databases/NAME.sql        makes and fills the database NAME
databases/NAME.load.sql   statements with blank lines between them, each headed by how often it runs: `-- 5 /s: why`
"""

from __future__ import annotations

import heapq
import random
import re
import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from headrace.connect.postgres.embedded import EmbeddedPostgres

GUEST = "guest"
RATE = re.compile(r"-- ([\d.]+) /s\b")


def make_databases(server: EmbeddedPostgres, folder: Path) -> Mapping[str, str]:
    """Addresses by name of the databases that the folder describes. Takes a second each."""
    found = {}
    for file in sorted(folder.glob("*.sql")):
        name = file.stem
        if "." in name:
            continue
        with psycopg.connect(server.dsn(), autocommit=True) as session:
            session.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        with psycopg.connect(server.dsn(name)) as session:
            session.execute(file.read_bytes())
        with psycopg.connect(server.dsn(name), autocommit=True) as session:
            session.execute("ANALYZE")
        found[name] = server.dsn(name)
    return found


def admit_guest(server: EmbeddedPostgres, database: str) -> str:
    """The address of a database for people: with it one may change rows there, and nothing else."""
    password = secrets.token_hex(4)
    with psycopg.connect(server.dsn(database), autocommit=True) as session:
        session.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(GUEST), sql.Literal(password))
        )
        session.execute(
            sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}").format(
                sql.Identifier(GUEST)
            )
        )
    return f"postgresql://{GUEST}:{password}@127.0.0.1:{server.port}/{database}"


@dataclass(frozen=True, slots=True)
class Habit:
    """What an app does again and again, `per_second` times a second."""

    database: str
    per_second: float
    statement: bytes


def read_habits(folder: Path) -> tuple[Habit, ...]:
    found = []
    for file in sorted(folder.glob("*.load.sql")):
        for statement in re.split(r"\n\s*\n", file.read_text().strip()):
            rate = RATE.match(statement)
            assert rate is not None, f"a statement of {file.name} does not say how often it runs"
            found.append(Habit(file.name.removesuffix(".load.sql"), float(rate[1]), statement.encode()))
    return tuple(found)


@dataclass
class SampleLoad:
    """Apps at work, in a thread of their own, between `start` and `stop`."""

    addresses: Mapping[str, str]
    habits: tuple[Habit, ...]
    seed: int = 1
    rows: int = 0
    error: str | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=20)

    def _work(self) -> None:
        sessions: dict[str, psycopg.Connection] = {}
        try:
            for name in {habit.database for habit in self.habits}:
                sessions[name] = psycopg.connect(self.addresses[name], autocommit=True)
            self._run(sessions)
        except psycopg.Error as error:
            self.error = str(error).strip()
        finally:
            for session in sessions.values():
                session.close()

    def _run(self, sessions: Mapping[str, psycopg.Connection]) -> None:
        """Runs statements at irregular times, as people do things."""
        chance = random.Random(self.seed)
        now = time.monotonic()
        due = [(now + chance.expovariate(habit.per_second), n) for n, habit in enumerate(self.habits)]
        heapq.heapify(due)
        while not self._stop.is_set():
            at, number = due[0]
            if self._stop.wait(max(0.0, at - time.monotonic())):
                return
            habit = self.habits[number]
            self.rows += sessions[habit.database].execute(habit.statement).rowcount
            # From now, not from when it was due: who was kept waiting does not make up for it.
            heapq.heapreplace(due, (time.monotonic() + chance.expovariate(habit.per_second), number))


FOLLOWED = "SELECT uid FROM users JOIN follows ON follows.whom = users.name WHERE follows.who = %s"
NEWEST = "SELECT post FROM posts WHERE uid = ANY (%s) ORDER BY at DESC, post DESC LIMIT %s"


@dataclass(frozen=True, slots=True)
class SampleFollows:
    """Who follows whom in the sample, and what they wrote, as its databases say it: what a feed is compared with."""

    people: str
    posts: str

    def list_followers(self) -> list[str]:
        """Everybody who follows somebody."""
        with psycopg.connect(self.people) as session:
            return [who for (who,) in session.execute("SELECT DISTINCT who FROM follows ORDER BY who").fetchall()]

    def find_newest(self, who: str, limit: int) -> list[int]:
        """The newest posts of everybody whom somebody follows."""
        with psycopg.connect(self.people) as session:
            followed = [uid for (uid,) in session.execute(FOLLOWED, [who]).fetchall()]
        with psycopg.connect(self.posts) as session:
            return [post for (post,) in session.execute(NEWEST, [followed, limit]).fetchall()]


@dataclass(frozen=True, slots=True)
class SampleFriends:
    """People of the sample with phones, and which of them are friends, as its database says it."""

    people: str

    def list_people(self) -> dict[int, str]:
        """Names by number."""
        with psycopg.connect(self.people) as session:
            return dict(session.execute("SELECT uid, name FROM people ORDER BY uid").fetchall())

    def list_friends(self) -> list[tuple[int, int]]:
        with psycopg.connect(self.people) as session:
            found = session.execute("SELECT uid, friend FROM friends ORDER BY uid, friend").fetchall()
        return [(one, other) for one, other in found]


class SampleDatabases:
    """The databases of a sample project, on a server of their own, and the apps that write to them.

    `stop` ends all that was started, however far it got, and removes the server's folder.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder = folder
        self._server = EmbeddedPostgres(root, {"fsync": "off"})
        self._addresses: Mapping[str, str] = {}
        self._load: SampleLoad | None = None

    def start(self) -> Mapping[str, str]:
        """The variables in which the project finds the addresses: PEOPLE_DSN for the database "people"."""
        self._server.start()
        self._addresses = make_databases(self._server, self._folder)
        return {f"{name.upper()}_DSN": address for name, address in self._addresses.items()}

    def admit_guest(self, database: str) -> str:
        return admit_guest(self._server, database)

    def follows(self) -> SampleFollows:
        return SampleFollows(self._addresses["people"], self._addresses["posts"])

    def friends(self) -> SampleFriends:
        return SampleFriends(self._addresses["people"])

    def start_load(self) -> SampleLoad:
        self._load = SampleLoad(self._addresses, read_habits(self._folder))
        self._load.start()
        return self._load

    def stop(self) -> None:
        if self._load is not None:
            self._load.stop()
        self._server.stop()
        shutil.rmtree(self._server.folder, ignore_errors=True)
