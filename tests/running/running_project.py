"""A small project over two databases, run by the command as people run it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.connect.processes import birth_of
from headrace.doors.cli import main

PROJECT = """
project: shop
sites: {us: {cpu: 0.34 $/core-hour}, eu: {cpu: 0.34 $/core-hour}}
links: [{between: [us, eu], bandwidth: 100 Mbps, latency: 10 ms, price: 0.01 $/GB}]
sources:
  users: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: public.users}, key: [uid]}
  posts: {kind: table, at: eu, postgres: {dsn: "${EU_DSN}", table: public.posts}, key: [pid]}
contracts:
"""
VIEWS = {
    "named": "SELECT u.name, p.pid, p.body FROM users u JOIN posts p ON u.uid = p.uid",
    "counts": "SELECT u.country, count(*) AS n, max(p.pid) AS last FROM users u JOIN posts p ON u.uid = p.uid "
    "GROUP BY u.country ORDER BY country DESC",
    "broken": "SELECT pid, 1 / (pid - pid) AS nothing FROM posts",
    "odd": "SELECT 1 / (uid - uid) AS x, count(*) AS n FROM users GROUP BY 1 / (uid - uid)",
    "by_body": "SELECT p.pid, u.uid FROM posts p JOIN users u ON p.body = u.name",
    "by_pid": "SELECT pid, body FROM posts WHERE uid > 3",
    "some_users": "SELECT uid, name FROM users WHERE country = 'c1'",
}
USERS_ONLY = """
project: shop
sites: {us: {cpu: 0.34 $/core-hour}}
sources:
  users: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: public.users}, key: [uid]}
contracts:
  some_users: {view: some_users, at: us, freshness: 4 s}
"""
CONTRACTS = {
    "named": '{view: named, at: eu, freshness: 4 s, deliver: {postgres: {dsn: "${EU_DSN}", table: named_copy}}}',
    "counts": "{view: counts, at: us, freshness: 4 s}",
    "broken": "{view: broken, at: eu, freshness: 4 s}",
    "odd": "{view: odd, at: us, freshness: 4 s}",
    "by_body": "{view: by_body, at: eu, freshness: 4 s}",
    "by_pid": "{view: by_pid, at: eu, freshness: 4 s}",
}


@dataclass(frozen=True)
class RunningProject:
    folder: Path
    us: psycopg.Connection[Any]
    eu: psycopg.Connection[Any]
    out: pytest.CaptureFixture[str]

    def declare(self, *contracts: str, more: str = "") -> None:
        lines = [f"  {name}: {CONTRACTS[name]}\n" for name in contracts]
        (self.folder / "headrace.yml").write_text(PROJECT + "".join(lines) + more)

    def declare_users_only(self) -> None:
        """Nothing in the second database is read, or written, any more."""
        for view in VIEWS.keys() - {"some_users"}:
            (self.folder / "views" / f"{view}.sql").unlink()
        (self.folder / "headrace.yml").write_text(USERS_ONLY)

    def headrace(self, command: str, *arguments: str, status: int = 0) -> str:
        """What a command says."""
        return "".join(self._run(command, arguments, status))

    def _run(self, command: str, arguments: tuple[str, ...], status: int) -> tuple[str, str]:
        """Results and complaints. Commands that name a view have it before the folder."""
        names = [word for word in arguments if not word.startswith("-")]
        options = [word for word in arguments if word.startswith("-")]
        self.out.readouterr()
        ended = main.run([command, *names, str(self.folder), *options])
        said, complaints = self.out.readouterr()
        assert ended == status, f"{command}: {said}{complaints}"
        return said, complaints

    def document(self, command: str, *arguments: str, status: int = 0) -> Any:
        return json.loads(self._run(command, (*arguments, "--json"), status)[0])

    def events(self, *options: str) -> list[dict[str, Any]]:
        """All that happened, but for pushes and captures unless `--all` asks for them."""
        said, _ = self._run("events", ("--json", "--limit=100000", *options), 0)
        return [json.loads(line) for line in said.splitlines()]

    def up(self, engine: str = "local") -> Any:
        return self.document("up", "--detach", f"--engine={engine}")

    def process(self) -> Any:
        return json.loads((self.folder / ".headrace" / "service.json").read_text())

    def rows(self, view: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in self.document("show", view)["rows"])

    def expected(self, view: str) -> list[tuple[object, ...]]:
        """The view's query by hand: its tables are in two databases."""
        users = {uid: (name, country) for uid, name, country, *_ in self.us.execute("SELECT * FROM users")}
        posts = [
            (pid, *users[uid], body) for pid, uid, body, *_ in self.eu.execute("SELECT * FROM posts") if uid in users
        ]
        if view == "named":
            return sorted((name, pid, body) for pid, name, _, body in posts)
        if view == "counts":
            countries = {country for _, _, country, _ in posts}
            pids = {country: [pid for pid, _, other, _ in posts if other == country] for country in countries}
            return sorted((country, len(found), max(found)) for country, found in pids.items())
        called = {name: uid for uid, (name, _) in users.items()}
        return sorted((pid, called[body]) for pid, _, _, body in posts if body in called)

    def until_equal(self, *views: str) -> None:
        for view in views:
            until(lambda view=view: self.rows(view) == self.expected(view), f"{view} is as its query")  # type: ignore[misc]

    def change_something(self, number: int) -> None:
        """One transaction in each database."""
        self.eu.execute("INSERT INTO posts VALUES (%s, %s, %s)", (number, number % 20, f"name {number % 30}"))
        self.eu.execute("DELETE FROM posts WHERE pid = %s", (number - 40,))
        self.us.execute("UPDATE users SET country = %s WHERE uid = %s", (f"c{number % 3}", number % 20))


def made_in(session: psycopg.Connection[Any]) -> list[str]:
    """What we made in a database: slots, publications, copies."""
    rows = session.execute(
        "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database()"
        " UNION ALL SELECT pubname FROM pg_publication"
        " UNION ALL SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE '%_copy'"
    ).fetchall()
    return sorted(name for (name,) in rows)


@contextmanager
def load(project: RunningProject, first: int) -> Iterator[None]:
    """Changes all the time."""
    stop = threading.Event()

    def change() -> None:
        number = first
        while not stop.wait(0.05):
            number += 1
            project.change_something(number)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def recomputed(project: RunningProject) -> list[dict[str, Any]]:
    """Every view against its query. Exit 1 would also be said for promises that were broken on a busy machine."""
    project.out.readouterr()
    main.run(["audit", str(project.folder), "--recompute", "--json"])
    said = project.out.readouterr().out
    document = json.loads(said)
    assert "recompute" in document, said
    found: list[dict[str, Any]] = document["recompute"]
    return found


def passed(seconds: float) -> Callable[[], bool]:
    """For `until`: whether so much time has passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def children(pid: int) -> set[int]:
    """The processes that a process started and that still live."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and birth_of(int(entry.name)) is not None:
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.add(int(entry.name))
    return found


def mapped_files(pid: int) -> str:
    """The files that a process has in its memory, with the libraries that it has loaded."""
    return Path(f"/proc/{pid}/maps").read_text()


def until(holds: Callable[[], bool], what: str, within_s: float = 120.0, every_s: float = 0.1) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, f"not within {within_s} s: {what}"
        time.sleep(every_s)


@contextmanager
def a_project(
    folder: Path, us: str, eu: str, monkeypatch: pytest.MonkeyPatch, out: pytest.CaptureFixture[str]
) -> Iterator[RunningProject]:
    """Whatever still runs in the end is ended."""
    (folder / "views").mkdir()
    for name, query in VIEWS.items():
        (folder / "views" / f"{name}.sql").write_text(query)
    monkeypatch.setenv("US_DSN", us)
    monkeypatch.setenv("EU_DSN", eu)
    with psycopg.connect(us, autocommit=True) as in_us, psycopg.connect(eu, autocommit=True) as in_eu:
        in_us.execute("CREATE TABLE users (uid bigint PRIMARY KEY, name text, country text)")
        in_eu.execute("CREATE TABLE posts (pid bigint PRIMARY KEY, uid bigint, body text)")
        in_us.execute("INSERT INTO users SELECT i, 'name ' || i, 'c' || i % 3 FROM generate_series(0, 19) i")
        in_eu.execute("INSERT INTO posts SELECT i, i % 20, 'name ' || i % 30 FROM generate_series(1, 200) i")
        project = RunningProject(folder, in_us, in_eu, out)
        try:
            yield project
        finally:
            main.run(["down", str(folder)])
