"""Faults of whole databases: locks, limits, timeouts, a server that stops, is killed or is restored."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg

from bench.faults_model import Expected, Fault, Part, fault
from bench.faults_world import ROLE, World

READ_ANEW, STOPPED, UNTOUCHED = Expected.READ_ANEW, Expected.STOPPED, Expected.UNTOUCHED
AWAY_S = 3.0
TWO_HOSTS = Part(two_hosts=True)


@fault("somebody holds an ACCESS EXCLUSIVE lock on a captured table", UNTOUCHED)
def lock_table(world: World) -> Iterator[None]:
    with psycopg.connect(world.dsn("us")) as session:
        session.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        yield


@fault("a writer leaves its transaction open", UNTOUCHED)
def open_transaction(world: World) -> Iterator[None]:
    with psycopg.connect(world.dsn("us")) as session:
        session.execute("UPDATE orders SET amount = 5 WHERE id = 1999")
        yield
        session.rollback()


@fault("the server is stopped, and started again", STOPPED)
def stop_server(world: World) -> Iterator[None]:
    world.server.stop()
    time.sleep(AWAY_S)
    yield
    world.server.start()


@fault("the server is killed, and recovers", STOPPED)
def kill_server(world: World) -> Iterator[None]:
    world.server.kill()
    time.sleep(AWAY_S)
    yield
    world.server.start()


@fault("the server is restored to an earlier copy that still has the slot", READ_ANEW)
def restore_server(world: World) -> Iterator[None]:
    data = world.server.folder / "data"
    world.server.stop()
    shutil.copytree(data, data.with_name("copy"), symlinks=True)
    _own_like(data, data.with_name("copy"))
    world.server.start()
    world.us("UPDATE orders SET amount = 424242 WHERE id < 700; INSERT INTO orders (id, customer) VALUES (777777, 1)")
    time.sleep(2 * AWAY_S)  # so that it is captured and confirmed
    world.server.stop()
    shutil.rmtree(data)
    data.with_name("copy").rename(data)
    world.server.start()
    world.us("INSERT INTO orders (id, customer, amount) SELECT i, 1, 1 FROM generate_series(800000, 800100) i")
    yield


def _own_like(data: Path, copy: Path) -> None:
    """A copy belongs to the user who made it, and PostgreSQL refuses to start there."""
    about = data.stat()
    for path in (copy, *copy.rglob("*")):
        os.chown(path, about.st_uid, about.st_gid, follow_symlinks=False)


@fault("our role may open no more connections", STOPPED)
def limit_connections(world: World) -> Iterator[None]:
    world.run_alone("postgres", f"ALTER ROLE {ROLE} CONNECTION LIMIT 0")
    _end_sessions(world)
    yield
    world.run_alone("postgres", f"ALTER ROLE {ROLE} CONNECTION LIMIT -1")


@fault("somebody else has taken all connections of the server", STOPPED)
def take_connections(world: World) -> Iterator[None]:
    held: list[psycopg.Connection[object]] = []
    _end_sessions(world)
    with suppress(psycopg.Error):
        while len(held) < 100:
            held.append(psycopg.connect(world.dsn("postgres"), connect_timeout=2))
    yield
    for session in held:
        session.close()


@fault("the role gets a transaction_timeout and a statement_timeout of two seconds", UNTOUCHED)
def short_timeouts(world: World) -> Iterator[None]:
    for setting in ("transaction_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
        with suppress(psycopg.errors.UndefinedObject):  # older servers do not know all of them
            world.run_alone("postgres", f"ALTER ROLE {ROLE} SET {setting} = '2s'")
    _end_sessions(world)
    yield


@fault("the password of the role is changed, and changed back", STOPPED)
def change_password(world: World) -> Iterator[None]:
    world.run_alone("postgres", f"ALTER ROLE {ROLE} PASSWORD 'another'")
    _end_sessions(world)
    yield
    world.run_alone("postgres", f"ALTER ROLE {ROLE} PASSWORD 'keeps'")


def _end_sessions(world: World) -> None:
    world.run_alone("postgres", f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'")


@fault("the process that sends us the log stands still", STOPPED)
def suspend_walsender(world: World) -> Iterator[None]:
    pids = [int(pid) for (pid,) in world.us("SELECT active_pid FROM pg_replication_slots WHERE active")]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@fault("the copy in PostgreSQL is locked by somebody", STOPPED, also=World.copy_is_equal)
def lock_copy(world: World) -> Iterator[None]:
    with psycopg.connect(world.dsn("eu")) as session:
        session.execute("LOCK TABLE named_copy IN ACCESS EXCLUSIVE MODE")
        yield


@fault("somebody truncates the copy in PostgreSQL", READ_ANEW, also=World.copy_is_equal)
def truncate_copy(world: World) -> Iterator[None]:
    world.eu("TRUNCATE named_copy")
    yield


@fault("somebody edits the copy in PostgreSQL", READ_ANEW, also=World.copy_is_equal)
def edit_copy(world: World) -> Iterator[None]:
    world.eu("UPDATE named_copy SET name = 'edited' WHERE id % 3 = 0; DELETE FROM named_copy WHERE id % 7 = 0")
    yield


@fault("somebody drops the copy in PostgreSQL", READ_ANEW, also=World.copy_is_equal)
def drop_copy(world: World) -> Iterator[None]:
    world.eu("DROP TABLE named_copy")
    yield


@fault("a hundred short transactions a second run beside a long one", UNTOUCHED)
def busy_writers(world: World) -> Iterator[None]:
    stop = threading.Event()

    def write(number: int) -> None:
        with psycopg.connect(world.dsn("us"), autocommit=True) as session:
            while not stop.wait(0.03):
                session.execute("UPDATE orders SET amount = amount + 1 WHERE id = %s", (number,))

    threads = [threading.Thread(target=write, args=(number,)) for number in (11, 12, 13)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


@fault("the clock of one database jumps an hour ahead, then two back", UNTOUCHED, Part(other_clock=True))
def skew_clock(world: World) -> Iterator[None]:
    world.set_clock(3600.0)
    change_both(world, 1)
    time.sleep(AWAY_S)
    world.set_clock(-3600.0)
    change_both(world, 2)
    yield
    world.set_clock(0.0)


@fault(
    "an address names two servers, and the second one, with other rows, takes over for a while", READ_ANEW, TWO_HOSTS
)
def answer_from_other_host(world: World) -> Iterator[None]:
    assert world.spare is not None
    world.server.stop()
    world.spare.start()
    yield
    world.spare.stop()
    world.server.start()


@fault("a database is killed while the clock of the other one is wrong", STOPPED, Part(other_clock=True))
def kill_server_with_skew(world: World) -> Iterator[None]:
    world.set_clock(1800.0)
    change_both(world, 1)
    world.server.kill()
    time.sleep(AWAY_S)
    yield
    world.server.start()
    world.set_clock(0.0)
    change_both(world, 2)


def change_both(world: World, number: int) -> None:
    world.us(f"UPDATE orders SET amount = {number} WHERE id < 100")
    world.eu(f"UPDATE customers SET name = 'name {number} ' || id WHERE id < 50")


FAULTS: tuple[Fault, ...] = (
    *(lock_table, open_transaction, stop_server, kill_server, restore_server, limit_connections, take_connections),
    *(short_timeouts, change_password, suspend_walsender, lock_copy, truncate_copy, edit_copy, drop_copy, busy_writers),
    *(skew_clock, kill_server_with_skew, answer_from_other_host),
)
