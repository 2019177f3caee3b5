"""Faults of single values and types: rows that a view has no answer for, and values that Headrace cannot hold."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from bench.faults_model import CannotTry, Expected, Fault, Part, fault
from bench.faults_world import World

READ_ANEW, STOPPED, UNTOUCHED = Expected.READ_ANEW, Expected.STOPPED, Expected.UNTOUCHED

DIVIDING = Part(
    contracts="  shares: {view: shares, at: us, freshness: 8 s}",
    views={"shares": "SELECT id, 1000 / (amount + 1) AS share FROM orders WHERE amount IS NOT NULL"},
)


@fault("a row makes a view divide by zero, and is deleted", STOPPED, DIVIDING)
def divide_by_zero(world: World) -> Iterator[None]:
    world.us("INSERT INTO orders (id, customer, amount) VALUES (900001, 1, -1)")
    yield
    world.us("DELETE FROM orders WHERE id = 900001")


@fault("a time that is no key becomes infinite, which is held as the last day of the year 9999", UNTOUCHED)
def infinite_time(world: World) -> Iterator[None]:
    world.us("INSERT INTO orders (id, customer, amount, at) VALUES (900001, 1, 1, 'infinity')")
    yield
    world.us("DELETE FROM orders WHERE id = 900001")


TINY = Part(
    sql="CREATE TABLE tiny (k numeric PRIMARY KEY, v bigint); INSERT INTO tiny VALUES (1, 1), (2, 2);",
    sources='  tiny: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: public.tiny}, key: [k]}',
    contracts="  smalls: {view: smalls, at: us, freshness: 8 s}",
    views={"smalls": "SELECT k, v FROM tiny"},
)


@fault("two keys differ only far behind the decimal point", STOPPED, TINY)
def tiny_keys(world: World) -> Iterator[None]:
    world.us("INSERT INTO tiny VALUES (0.1000000000000000000000001, 1), (0.1000000000000000000000002, 2)")
    yield
    world.us("DELETE FROM tiny WHERE k < 1")


TIMED = Part(
    sql="CREATE TABLE timed (k timestamptz PRIMARY KEY, v bigint); INSERT INTO timed VALUES ('2026-01-01', 1);",
    sources='  timed: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: public.timed}, key: [k]}',
    contracts="  times: {view: times, at: us, freshness: 8 s}",
    views={"times": "SELECT k, v FROM timed"},
)


@fault("two keys that are times are beyond all that is held", STOPPED, TIMED)
def infinite_keys(world: World) -> Iterator[None]:
    world.us("INSERT INTO timed VALUES ('infinity', 2), ('20000-01-01', 3)")
    yield
    world.us("DELETE FROM timed WHERE v > 1")


def _extended(extension: str, value: str) -> Part:
    return Part(
        sql=f"CREATE EXTENSION {extension}; CREATE TABLE odd (id bigint PRIMARY KEY, v {extension});"
        f"INSERT INTO odd SELECT i, '{value}' FROM generate_series(1, 9) i;",
        sources='  odd: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: public.odd}, key: [id]}',
        contracts="  odds: {view: odds, at: us, freshness: 8 s}",
        views={"odds": "SELECT id FROM odd"},
        extension=extension,
    )


@fault("rows of a table with an hstore column change", UNTOUCHED, _extended("hstore", "a=>1"))
def hstore_column(world: World) -> Iterator[None]:
    world.us("UPDATE odd SET v = 'b=>2'; INSERT INTO odd VALUES (10, 'c=>3')")
    yield


@fault("rows of a table with a citext column change", UNTOUCHED, _extended("citext", "Aa"))
def citext_column(world: World) -> Iterator[None]:
    world.us("UPDATE odd SET v = 'AA'; INSERT INTO odd VALUES (10, 'b')")
    yield


@fault("a large transaction changes all rows, and a larger one is rolled back", UNTOUCHED)
def large_transactions(world: World) -> Iterator[None]:
    world.us("UPDATE orders SET note = repeat('x', 2000) || id")
    try:
        world.us("UPDATE orders SET amount = -amount; INSERT INTO orders (id, customer) VALUES (1, 1), (1, 1)")
    except psycopg.errors.UniqueViolation:
        yield
    else:
        raise CannotTry("the second transaction was not rolled back")


FAULTS: tuple[Fault, ...] = (
    *(divide_by_zero, infinite_time, infinite_keys, tiny_keys, hstore_column, citext_column, large_transactions),
)
