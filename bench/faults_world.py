"""A project that runs as people run it, in a world of its own: a PostgreSQL with two databases, writers, copies.

Every fault gets a new one, so that no fault sees what an earlier one left behind.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from bench.beside import Beside
from bench.faults_model import CannotTry, Comparison, Look, Part
from headrace.connect.free_port import free_port
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.site.folder import Folder
from headrace.site.last_status import current_status
from headrace.site.process import ServiceProcess, running_process

ROLE, PASSWORD = "keeper", "keeps"
ORDERS, CUSTOMERS = 2_000, 100
SMALL_DISK = "48m"
TABLES = {
    "us": """
CREATE TYPE mood AS ENUM ('new', 'paid', 'gone');
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL, amount bigint, weight numeric(12, 4), note text,
    code char(4), state mood, at timestamptz);
INSERT INTO orders SELECT i, i % 100, i % 1000, i / 8.0, 'note ' || i, 'a' || i % 10, 'new', to_timestamp(1e9 + i)
    FROM generate_series(1, 2000) i;
""",
    "eu": """
CREATE TABLE customers (id bigint PRIMARY KEY, name text, country text);
INSERT INTO customers SELECT i, 'name ' || i, 'c' || i % 7 FROM generate_series(0, 99) i;
""",
}
PROJECT = """\
project: faults
{engine}
sites: {{us: {{cpu: 0.34 $/core-hour}}, eu: {{cpu: 0.34 $/core-hour}}}}
links: [{{between: [us, eu], bandwidth: 100 Mbps, latency: 10 ms, price: 0.01 $/GB}}]
sources:
  orders: {{kind: table, at: us, postgres: {{dsn: "${{US_DSN}}", table: public.orders}}, key: [id]}}
  customers: {{kind: table, at: eu, postgres: {{dsn: "${{EU_DSN}}", table: public.customers}}, key: [id]}}
{sources}
contracts:
  totals: {{view: totals, at: us, freshness: {fresh}}}
  wide: {{view: wide, at: us, freshness: {fresh}}}
  named: {{view: named, at: eu, freshness: {fresh}, deliver: {{postgres: {{dsn: "${{EU_DSN}}", table: named_copy}}}}}}
  people: {{view: people, at: eu, freshness: {fresh}}}
{contracts}
"""
CLUSTER = """\
engine:
  master: {master}
  memory: 512 MB
  properties: {{spark.driver.host: 127.0.0.1, spark.driver.bindAddress: 127.0.0.1}}"""
VIEWS = {
    "totals": "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer",
    "wide": "SELECT id, customer, amount, weight, note, code, state, at FROM orders",
    "named": "SELECT o.id, c.name, o.amount FROM orders o JOIN customers c ON o.customer = c.id",
    "people": "SELECT id, name, country FROM customers",
}


@dataclass
class World:
    root: Path
    server: EmbeddedPostgres
    part: Part
    began: float = field(default_factory=time.time)
    second: EmbeddedPostgres | None = None
    """The server of the database `eu`, if that is another one."""
    spare: EmbeddedPostgres | None = None
    """Another server that the address of the database `us` names."""
    set_clock: Callable[[float], None] = lambda _: None
    """Sets how many seconds the clock of the second server is ahead."""
    master: str | None = None
    """The address of Spark's cluster, if it is one."""

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def folder(self) -> Folder:
        return Folder(self.project)

    def server_of(self, database: str) -> EmbeddedPostgres:
        return self.second if self.second is not None and database == "eu" else self.server

    def dsn(self, database: str, role: str | None = None) -> str:
        admin = self.server_of(database).dsn(database)
        return admin if role is None else make_conninfo(admin, user=role, password=PASSWORD)

    @property
    def environment(self) -> dict[str, str]:
        us = self.dsn("us", ROLE)
        if self.spare is not None:
            us = make_conninfo(us, host="127.0.0.1,127.0.0.1", port=f"{self.server.port},{self.spare.port}")
        return {**os.environ, "US_DSN": us, "EU_DSN": self.dsn("eu", ROLE)}

    # Databases

    def us(self, statements: str) -> list[tuple[Any, ...]]:
        """Run by the database's owner, all in one transaction; the rows of the last statement."""
        return self._run("us", statements)

    def eu(self, statements: str) -> list[tuple[Any, ...]]:
        return self._run("eu", statements)

    def _run(self, database: str, statements: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn(database), connect_timeout=5) as session:
            session.execute("SET lock_timeout = '20s'")
            found = session.execute(statements.encode())
            while found.nextset():
                pass
            return found.fetchall() if found.description else []

    def run_alone(self, database: str, statement: str) -> None:
        """A statement that cannot be part of a transaction."""
        with psycopg.connect(self.dsn(database), autocommit=True, connect_timeout=5) as session:
            session.execute(statement.encode())

    def publication_of(self, table: str) -> str:
        return str(self.us(f"SELECT pubname FROM pg_publication_tables WHERE tablename = '{table}'")[0][0])

    # The service

    def headrace(self, *words: str, within_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "headrace", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=within_s,
            cwd=self.root,
        )

    def up(self) -> subprocess.CompletedProcess[str]:
        return self.headrace("up", str(self.project), "--detach", "--engine", self.part.engine)

    def service(self) -> ServiceProcess:
        found = running_process(self.folder)
        assert found is not None, "the service does not run"
        return found

    def kill_service(self) -> None:
        os.kill(self.service().pid, signal.SIGKILL)

    # Looking

    def look(self, since: float) -> Look:
        found = current_status(self.folder)
        if found is None:
            return Look(time.time() - since, {}, "there is no status")
        states = {one["id"]: str(one["state"]) for one in found["contracts"]}
        told = [trouble["what"] for trouble in found["troubles"]]
        told += [f"{one['id']} is {one['state']}: {one['reason']}" for one in found["contracts"] if one.get("reason")]
        return Look(time.time() - since, states, told[0] if told else None)

    def happened(self, since: float) -> list[dict[str, Any]]:
        answer = self.headrace("events", str(self.project), "--json", "--limit", "1000")
        events = [json.loads(line) for line in answer.stdout.splitlines()]
        return [event for event in events if event["at"] >= since]

    def compare(self, since: float) -> Comparison:
        """Every view against its query, with what `status` said before and after."""
        before = self.look(since)
        try:
            answer = self.headrace("audit", str(self.project), "--recompute", "--json", within_s=120.0)
            compared = json.loads(answer.stdout).get("recompute", ())
        except (subprocess.TimeoutExpired, ValueError):
            compared = ()
        equal = dict.fromkeys(before.states) | {one["contract"]: one["equal"] for one in compared}
        return Comparison(equal, before, self.look(since))

    def copy_is_equal(self) -> bool:
        """Whether the copy in PostgreSQL holds what its view's query gives, within some seconds."""
        orders = "SELECT id, customer, amount FROM orders"
        for _ in range(20):
            names = dict(self.eu("SELECT id, name FROM customers"))
            wanted = sorted((id_, names[customer], amount) for id_, customer, amount in self.us(orders))
            with suppress(psycopg.Error):
                if sorted(self.eu("SELECT id, name, amount FROM named_copy")) == wanted:
                    return True
            time.sleep(1.0)
        return False


class Writer(Beside):
    """Changes a few rows ten times a second, as an application does; what fails is not tried again."""

    def __init__(self, world: World) -> None:
        super().__init__("writer")
        self._world, self._chance = world, random.Random(1)

    def run(self) -> None:
        while not self.stopping.wait(0.1):
            with suppress(psycopg.Error), psycopg.connect(self._world.dsn("us"), connect_timeout=2) as session:
                session.execute("SET lock_timeout = '500ms'; SET statement_timeout = '2s'")
                self._change(session)

    def _change(self, session: psycopg.Connection[Any]) -> None:
        id_, amount = self._chance.randrange(1, ORDERS), self._chance.randrange(1000)
        match self._chance.randrange(3):
            case 0:
                session.execute("UPDATE orders SET amount = %s WHERE id = %s", (amount, id_))
            case 1:
                session.execute("DELETE FROM orders WHERE id = %s", (id_,))
            case _:
                statement = "INSERT INTO orders (id, customer, amount) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
                session.execute(statement, (id_, id_ % CUSTOMERS, amount))


@contextmanager
def open_world(part: Part, binaries: Path | None = None) -> Iterator[World]:
    """A project that is written and does not run yet; nothing of it is left afterwards."""
    root, port = Path(tempfile.mkdtemp(prefix="faults-")), free_port()
    if part.extension is not None and binaries is None:
        binaries = _find_server_with(part.extension)
    server = EmbeddedPostgres(root / "server", {"fsync": "off"}, lambda: port, binaries)
    world = World(root, server, part)
    with ExitStack() as closing:
        closing.callback(_remove_world, world)
        server.start()
        if part.other_clock:
            world.second, world.set_clock = closing.enter_context(_open_second_server())
        if part.two_hosts:
            world.second = closing.enter_context(_open_another_server(root / "second"))
        _fill_databases(world)
        if part.two_hosts:
            world.spare = closing.enter_context(_open_another_server(root / "spare"))
            _fill_spare(world, world.spare)
        if part.cluster:
            world.master = closing.enter_context(_open_cluster(root))
        _write_project(world)
        if part.small_disk:
            _mount_small_disk(world.folder.root)
        closing.callback(_end_service, world)
        yield world


@contextmanager
def _open_second_server() -> Iterator[tuple[EmbeddedPostgres, Callable[[float], None]]]:
    from tests.shifted_clock import postgres_with, shifted_clock  # a library in C, for the tests of clocks

    if shutil.which("cc") is None:
        raise CannotTry("a clock that can be set needs a C compiler")
    with shifted_clock() as clock, postgres_with(clock) as server:
        yield server, clock.set


@contextmanager
def _open_another_server(folder: Path) -> Iterator[EmbeddedPostgres]:
    port = free_port()
    server = EmbeddedPostgres(folder, {"fsync": "off"}, lambda: port)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


def _fill_spare(world: World, spare: EmbeddedPostgres) -> None:
    """As a copy of the first server that was restored some time ago, and is down."""
    first, world.server = world.server, spare
    try:
        _make_roles(spare)
        _fill_database(world, "us")
        world.us("UPDATE orders SET amount = amount + 5; DELETE FROM orders WHERE id % 5 = 0")
    finally:
        world.server = first
    spare.stop()


@contextmanager
def _open_cluster(folder: Path) -> Iterator[str]:
    from tests.live.standalone_cluster import cluster

    with cluster(folder / "cluster") as (master, _):
        yield master


def _find_server_with(extension: str) -> Path:
    """The binaries of a server on this machine that has an extension: the embedded one has none."""
    for binaries in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        shared = Path("/usr/share/postgresql") / binaries.parent.name / "extension"
        if (shared / f"{extension}.control").exists():
            return binaries
    raise CannotTry(f'no PostgreSQL of this machine has the extension "{extension}"')


def _end_service(world: World) -> None:
    """Ends it as it should end; one that does not is killed."""
    with suppress(subprocess.TimeoutExpired):
        world.headrace("down", str(world.project), within_s=60.0)
    found = running_process(world.folder)
    if found is not None:
        with suppress(ProcessLookupError):
            os.kill(found.pid, signal.SIGKILL)


def _remove_world(world: World) -> None:
    if world.part.small_disk:
        subprocess.run(["umount", "-l", str(world.folder.root)], capture_output=True, check=False)
    world.server.stop()
    for folder in (world.server.folder, world.root):
        shutil.rmtree(folder, ignore_errors=True)


def _fill_databases(world: World) -> None:
    for server in {world.server_of(name) for name in TABLES}:
        _make_roles(server)
    for name in TABLES:
        _fill_database(world, name)


def _make_roles(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as session:
        session.execute(f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD '{PASSWORD}'".encode())
        session.execute(f"CREATE ROLE app; GRANT app TO {ROLE}".encode())


def _fill_database(world: World, name: str) -> None:
    with psycopg.connect(world.server_of(name).dsn(), autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name} OWNER app".encode())
    world.run_alone(name, f"GRANT CREATE ON DATABASE {name} TO {ROLE}")
    world.run_alone(name, f"GRANT CREATE, USAGE ON SCHEMA public TO app, {ROLE}")
    try:
        with psycopg.connect(world.dsn(name)) as session:
            session.execute((TABLES[name] + (world.part.sql if name == "us" else "")).encode())
            session.execute(_OWN.encode())
    except psycopg.errors.FeatureNotSupported as error:
        raise CannotTry(error.diag.message_primary or "the server lacks something") from error


_OWN = """
DO $$ DECLARE t record; BEGIN
FOR t IN SELECT c.oid::regclass AS name FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
    AND c.relkind IN ('r', 'p') LOOP EXECUTE format('ALTER TABLE %s OWNER TO app', t.name); END LOOP;
END $$
"""


def _write_project(world: World) -> None:
    (world.project / "views").mkdir(parents=True)
    engine = "" if world.master is None else CLUSTER.format(master=world.master)
    part = world.part
    text = PROJECT.format(engine=engine, fresh=part.freshness, sources=part.sources, contracts=part.contracts)
    (world.project / "headrace.yml").write_text(text)
    for name, query in {**VIEWS, **world.part.views}.items():
        (world.project / "views" / f"{name}.sql").write_text(query)


def _mount_small_disk(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK},mode=700", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise CannotTry(f"no small disk can be mounted here: {made.stderr.strip()}")
