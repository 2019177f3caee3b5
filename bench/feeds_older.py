"""What does a page cost that goes beyond the events a feed's store keeps, as a producer's history grows?

Reads the next 20 events of one producer, far behind the newest, from the relation behind a feed
(`run/feeds/older.py`), for producers with 1,000, 15,000 and 100,000 events. What is read is compared with the rows that
were written.

    python -m bench.feeds_older [--repeats 5]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.cpu import timed
from bench.engine_world import EngineWorld, inserts
from headrace.app.preparing import prepare
from headrace.model.options import ApplyWishes
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.feeds.find import find_feeds

SIZES: Mapping[str, int] = {"quiet": 1_000, "busy": 15_000, "loud": 100_000}
SHOWN = 20
SECOND = 1_000_000
PROJECT = """
project: social
sites: {us: {}}
sources:
  posts: {kind: table, at: us, key: pid, columns: {pid: bigint, author: string, ts: timestamp, body: string},
          rows: 100k rows, rate: 1 /s}
feeds:
  home: {events: {source: posts, producer: author, time: ts}, follows: api, freshness: 5 s}
"""


def make_posts() -> pa.Table:
    """Posts of all producers, mixed; the time of a post is its number, in seconds."""
    authors = np.repeat(list(SIZES), list(SIZES.values()))
    np.random.default_rng(7).shuffle(authors)
    numbers = np.arange(len(authors))
    times = pa.array(numbers * SECOND).cast(pa.timestamp("us", "UTC"))
    return pa.table({"pid": numbers, "author": authors.tolist(), "ts": times, "body": ["x" * 200] * len(authors)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    posts = make_posts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "headrace.yml").write_text(PROJECT)
        world = EngineWorld(prepare(folder, {}, ApplyWishes()).plan.catalogue, folder, HereRunner(perform))
        world.capture({"posts": inserts(posts)})
        world.engine.load()
        world.keep_up()
        (kept,) = find_feeds(world.plan, world.program, folder, {})
        older = kept.older
        assert older is not None
        log = world.ledger.logs([older.log])[older.log]
        print(f"the next {SHOWN} events of a producer beyond those kept; ms of a core, and ms, the median of {repeats}")
        for author, size in SIZES.items():
            own = [
                pid
                for pid, who in zip(posts["pid"].to_pylist(), posts["author"].to_pylist(), strict=True)
                if who == author
            ]
            below = {author: (own[size // 2] * SECOND, "")}
            read = partial(older.read, world.store, log, below, log.t, SHOWN)
            assert [one.time // SECOND for one in read()] == own[size // 2 - SHOWN : size // 2][::-1]
            took = timed(read, repeats)
            print(f"{size:>9,} events {1e3 * took.cpu:>8.1f} {1e3 * took.wall:>8.1f}")


if __name__ == "__main__":
    main()
