"""What does a page cost somebody who follows 100, 10,000 or 100,000 producers, all of them on read?

Walking newest events (`connect/postgres/feed_pages.py`) next to the statement that looks at everybody who is followed,
on a PostgreSQL of its own with 100,000 producers of three events each. Both get the same pages, first and second ones
in turn, and both answers are compared. Processor seconds are those of the database's session.

    python -m bench.feeds_follows [--producers 100000] [--repeats 5]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import psutil
import psycopg
import pyarrow as pa

from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.postgres.feed_reader import PostgresFeedReader
from headrace.connect.postgres.feed_store import PostgresFeedStore
from headrace.run.feeds.batch import EVENTS, PAIRS, STORED, PartRows, part_of
from headrace.run.feeds.page import SECOND, FeedPage, PageRules, make_page

FOLLOWS = (100, 10_000, 100_000)
EVENTS_EACH = 3
NOW = 1_790_000_000 * SECOND
RULES = PageRules(limit=20, per_producer=5)
FEED = "home"
EVERYBODY = 2**31
"""A number of producers that nobody follows: all of them are looked at one after the other."""


@contextmanager
def open_database() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder))
        server.start()
        try:
            yield server.dsn()
        finally:
            server.stop()


def fill_store(dsn: str, producers: int) -> None:
    """Everybody has posted at some time of the last month; each consumer follows some, drawn from all."""
    random = Random(7)
    names = [f"producer{number}" for number in range(producers)]
    rows = [
        (name, NOW - random.randrange(30 * 86_400) * SECOND, str(number), '{"text": "' + "x" * 100 + '"}')
        for name in names
        for number in range(EVENTS_EACH)
    ]
    events = pa.table([list(column) for column in zip(*rows, strict=True)], schema=EVENTS)
    with closing(PostgresFeedStore(dsn, FEED, "bench", "v1", 1)) as store:
        store.take_over()
        store.start_events(events, NOW)
        for follows in FOLLOWS:
            if follows <= producers:
                consumer = name_consumer(follows)
                pairs = [(consumer, name, False, NOW) for name in random.sample(names, follows)]
                table = pa.table([list(column) for column in zip(*pairs, strict=True)], schema=PAIRS)
                store.start(PartRows(part_of(consumer), table, STORED.empty_table()), NOW)
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("VACUUM ANALYZE")


def name_consumer(follows: int) -> str:
    return f"follows{follows}"


def read_two_pages(reader: PostgresFeedReader, consumer: str) -> list[FeedPage]:
    pages: list[FeedPage] = []
    for _ in range(2):
        cursor = pages[-1].next if pages else None
        read = reader.read_page(consumer, RULES, cursor)
        assert read is not None
        pages.append(make_page(RULES, read, cursor))
    return pages


def measure(reader: PostgresFeedReader, read: Callable[[], object], times: int) -> tuple[float, float]:
    """Seconds and processor seconds of the session, for one page."""
    backend = psutil.Process(reader.backend_pid)
    before, began = backend.cpu_times(), time.perf_counter()
    for _ in range(times):
        read()
    took, after = time.perf_counter() - began, backend.cpu_times()
    cpu = after.user + after.system - before.user - before.system
    return took / (2 * times), cpu / (2 * times)


def compare(dsn: str, follows: int, repeats: int) -> str:
    consumer, times = name_consumer(follows), max(3, 200_000 // (follows + 2_000))
    found: dict[str, list[tuple[float, float]]] = {"one by one": [], "walking": []}
    with (
        closing(PostgresFeedReader(dsn, FEED, most_few=EVERYBODY)) as naive,
        closing(PostgresFeedReader(dsn, FEED)) as walking,
    ):
        assert read_two_pages(naive, consumer) == read_two_pages(walking, consumer), "both must read the same pages"
        for _ in range(repeats):
            for name, reader in (("one by one", naive), ("walking", walking)):

                def read(reader: PostgresFeedReader = reader) -> object:
                    return read_two_pages(reader, consumer)

                found[name].append(measure(reader, read, times))
    (naive_s, naive_cpu), (walk_s, walk_cpu) = (
        tuple(statistics.median(column) for column in zip(*runs, strict=True)) for runs in found.values()
    )
    spread = [one[1] / other[1] for one, other in zip(found["walking"], found["one by one"], strict=True) if other[1]]
    return (
        f"{follows:>9,} {1e3 * naive_s:>10.2f} {1e3 * walk_s:>10.2f} {1e3 * naive_cpu:>10.2f} {1e3 * walk_cpu:>10.2f}"
        f" {walk_cpu / naive_cpu if naive_cpu else float('nan'):>7.3f}   {min(spread):.3f}..{max(spread):.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    with open_database() as dsn:
        fill_store(dsn, asked.producers)
        print(f"{asked.producers:,} producers of {EVENTS_EACH} events, pages of {RULES.limit}, seed 7; one page takes")
        print("            milliseconds          ms of a core, in the database")
        print("  follows one by one    walking one by one    walking   ratio   in each run")
        for follows in FOLLOWS:
            if follows <= asked.producers:
                print(compare(dsn, follows, asked.repeats), flush=True)


if __name__ == "__main__":
    main()
