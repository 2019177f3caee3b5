"""What does it cost PostgreSQL to store one entry of a feed ahead, and how much room does it take, by layout?

    arrays            a row for each pair with its newest entries, as `connect/postgres/feed_tables.py` has it
    arrays, indexed   the same with an index of each pair's newest entry, so that pages would not look at all pairs
    rows              a row for each entry, in the order in which a page shows them

Each consumer has three producers stored ahead. In every step some pairs get a new entry and lose their oldest, as they
do all the time once there are as many as a page can show. All layouts do the same step one after the other, and
processor seconds are those of the database's session. The first half of the steps is not counted.

    python -m bench.feeds_writes [--consumers 10000] [--depth 20] [--pairs 1000] [--steps 40] [--seed 1]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from random import Random
from typing import LiteralString, TypeAlias

from psycopg import sql

from bench.feeds_follows import open_database
from headrace.connect.postgres.arrays import write_numbers, write_texts
from headrace.connect.postgres.feed_meter import PostgresFeedMeter
from headrace.connect.postgres.feed_tables import FILL_STORED, SHIFT_STORED, StoreTables, connect_feeds
from headrace.connect.postgres.sessions import Connection
from headrace.run.feeds.batch import part_of

PRODUCERS = 3
MAKE_ROWS: LiteralString = """
DROP TABLE {feed};
CREATE TABLE {feed} (
    part smallint NOT NULL, consumer text COLLATE "C" NOT NULL, ts bigint NOT NULL, id text COLLATE "C" NOT NULL,
    producer text COLLATE "C" NOT NULL, PRIMARY KEY (part, consumer, ts, id, producer))
"""
ADD_ROWS: LiteralString = """
INSERT INTO {feed} (part, consumer, producer, ts, id)
SELECT * FROM unnest(%(part)s::smallint[], %(consumer)s::text[], %(producer)s::text[], %(ts)s::bigint[], %(id)s::text[])
ON CONFLICT DO NOTHING
"""
DROP_ROWS: LiteralString = """
DELETE FROM {feed} f USING unnest(%(part)s::smallint[], %(consumer)s::text[], %(producer)s::text[],
    %(gone_ts)s::bigint[], %(gone_id)s::text[]) AS gone(part, consumer, producer, ts, id)
WHERE f.part = gone.part AND f.consumer = gone.consumer AND f.ts = gone.ts AND f.id = gone.id
    AND f.producer = gone.producer
"""
LAYOUTS: dict[str, tuple[LiteralString, LiteralString, tuple[LiteralString, ...]]] = {
    "arrays": ("SELECT", FILL_STORED, (SHIFT_STORED,)),
    "arrays, indexed": ("CREATE INDEX ON {feed} (part, consumer, (ts[1]))", FILL_STORED, (SHIFT_STORED,)),
    "rows": (MAKE_ROWS, ADD_ROWS, (DROP_ROWS, ADD_ROWS)),
}
"""What makes a layout of the tables that there are, what fills it, and what a step is."""

Entry: TypeAlias = tuple[str, str, int]
"""Consumer, producer, and the number of an entry among theirs."""


def name_pairs(consumers: int) -> list[tuple[str, str]]:
    return [(f"consumer{who}", f"producer{whom}") for who in range(consumers) for whom in range(PRODUCERS)]


def write_entries(entries: Sequence[Entry], depth: int) -> dict[str, str]:
    """The entries that come, and those that go, which are `depth` before them."""
    return {
        "part": write_numbers([part_of(consumer) for consumer, _, _ in entries]),
        "consumer": write_texts([consumer for consumer, _, _ in entries]),
        "producer": write_texts([producer for _, producer, _ in entries]),
        "ts": write_numbers([1_000_000 * number for _, _, number in entries]),
        "id": write_texts([f"{number:012d}" for _, _, number in entries]),
        "gone_ts": write_numbers([1_000_000 * (number - depth) for _, _, number in entries]),
        "gone_id": write_texts([f"{number - depth:012d}" for _, _, number in entries]),
    }


def fill_layout(session: Connection, name: str, tables: StoreTables, consumers: int, depth: int) -> None:
    make, fill, _ = LAYOUTS[name]
    with session.transaction():
        tables.make(session, "bench")
        for statement in make.split(";"):
            session.execute(tables.name_in(statement))
    pairs = name_pairs(consumers)
    for start in range(0, len(pairs), 2_000):
        entries = [(*pair, number) for pair in pairs[start : start + 2_000] for number in range(depth)]
        session.execute(tables.name_in(fill), write_entries(entries, depth))


def count_entries(session: Connection, tables: StoreTables, is_rows: bool) -> tuple[int, int]:
    """Entries, and the bytes that they take."""
    entries = "count(*)" if is_rows else "sum(cardinality(ts))::bigint"
    statement = sql.SQL("SELECT {} AS entries, pg_total_relation_size({}) AS bytes FROM {}").format(
        sql.SQL(entries), sql.Literal(tables.names["feed"].as_string(session)), tables.names["feed"]
    )
    found = session.execute(statement).fetchone()
    assert found is not None
    return found["entries"], found["bytes"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consumers", type=int, default=10_000)
    parser.add_argument("--depth", type=int, default=20, help="entries of a pair")
    parser.add_argument("--pairs", type=int, default=1_000, help="pairs that change in a step")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    random, newest = Random(asked.seed), dict.fromkeys(name_pairs(asked.consumers), asked.depth - 1)
    stores = {name: StoreTables(f"feed{number}") for number, name in enumerate(LAYOUTS)}
    found: dict[str, list[float]] = {name: [] for name in LAYOUTS}
    with open_database() as dsn, connect_feeds(dsn) as session:
        meter = PostgresFeedMeter((session.info.backend_pid,))
        for name, tables in stores.items():
            fill_layout(session, name, tables, asked.consumers, asked.depth)
        session.execute("VACUUM ANALYZE")
        for _ in range(asked.steps):
            chosen = random.sample(sorted(newest), asked.pairs)
            newest |= {pair: newest[pair] + 1 for pair in chosen}
            said = write_entries([(*pair, newest[pair]) for pair in chosen], asked.depth)
            for name, tables in stores.items():
                before = meter.read_seconds()
                with session.transaction():
                    for statement in LAYOUTS[name][2]:
                        session.execute(tables.name_in(statement), said)
                found[name].append((meter.read_seconds() - before) / asked.pairs)
        print(
            f"{asked.consumers:,} consumers, {asked.depth} entries of a pair, {asked.pairs:,} pairs in each of"
            f" {asked.steps} steps, seed {asked.seed}"
        )
        print("layout              us an entry   from .. to      bytes an entry")
        for name, tables in stores.items():
            took = [1e6 * one for one in found[name][asked.steps // 2 :]]
            entries, size = count_entries(session, tables, name == "rows")
            assert entries == len(newest) * asked.depth, "every layout must hold all entries"
            print(
                f"{name:<18} {statistics.median(took):>12.1f}   {min(took):>4.1f} .. {max(took):<6.1f}"
                f" {size / entries:>12.0f}"
            )


if __name__ == "__main__":
    main()
