"""What do streams of feeds cost while their clients wait, and when somebody says something?

The follows of the paper's Table 2 at a small size, in a store that runs, and one process that serves. Every second some
producers post, or when what was posted before has arrived, if that takes longer. Posts without streams come first, then
with streams open. Processor milliseconds per second: of the process that serves, and of the store.

    headrace bench feed-streams [--streams 500] [--seconds 20] [--posts 5] [--size 0.01] [--seed 1]

Every stream has to be told exactly the entries that its consumer's follows say.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress

import numpy as np

from bench.cpu import Process, processes
from bench.feed_pages import TOKEN, find_store, serving
from bench.feeds_ways import WaysWorld, ways_world
from bench.workloads.follows import draw, make_follows

TOLD_WITHIN_S = 60.0


class Clients:
    """Streams in a thread of their own, and how many entries each was told."""

    def __init__(self, port: int, consumers: Sequence[str]) -> None:
        self._port = port
        self._consumers = consumers
        self.opened = 0
        self.told: Counter[int] = Counter()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._listen()), daemon=True)
        self.thread.start()

    async def _listen(self) -> None:
        with suppress(ConnectionError):
            await asyncio.gather(*(self._hear(number, name) for number, name in enumerate(self._consumers)))

    async def _hear(self, number: int, consumer: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        asked = f"GET /feeds/home/{consumer}/stream HTTP/1.1\r\nHost: feeds\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        with closing(writer):
            writer.write(asked.encode())
            while line := await reader.readline():
                self.opened += line.startswith(b"event: open")
                self.told[number] += line.startswith(b"event: entry")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    with ways_world(make_follows(np.random.default_rng(options.seed), size=options.size)) as world:
        rng = np.random.default_rng(options.seed)
        readers = [f"c{one}" for one in draw(rng, world.feeds.query_rate.near, options.streams).tolist()]
        with serving(world, "short way", options) as served:
            idle, _ = _run(world, served.pid, options, rng)
            clients = Clients(served.port, readers)
            _until(lambda: clients.opened == len(readers), "all streams are open")
            busy, posted = _run(world, served.pid, options, rng)
            expected = _count_entries(world, readers, posted)
            _until(lambda: clients.told == expected, "everybody was told")
        clients.thread.join(TOLD_WITHIN_S)  # the server has ended, and its streams with it
    print(f"{options.streams} streams, size {options.size:g}, seed {options.seed}, twice {options.seconds:g} s")
    print(f"{len(posted)} posts with streams; {sum(expected.values())} entries were told, exactly those expected")
    print(f"{'ms of a processor per s':>24} {'serving':>8} {'store':>8}")
    for name, (serving_ms, store_ms) in (("without streams", idle), ("with streams", busy)):
        print(f"{name:>24} {serving_ms:8.1f} {store_ms:8.1f}")


def _run(
    world: WaysWorld, pid: int, options: argparse.Namespace, rng: np.random.Generator
) -> tuple[tuple[float, float], list[str]]:
    """Posts for a while; what that took, and who has posted."""
    before, posted = processes(), list[str]()
    began = time.monotonic()
    while (passed := time.monotonic() - began) < options.seconds:
        chosen = [f"p{one}" for one in draw(rng, world.feeds.event_rate.near, options.posts).tolist()]
        world.post(chosen)
        posted += chosen
        time.sleep(max(0.0, 1.0 - (time.monotonic() - began - passed)))
    now, seconds = processes(), time.monotonic() - began
    return (_spent(before, now, {pid}) / seconds, _spent(before, now, find_store(now)) / seconds), posted


def _spent(before: dict[int, Process], now: dict[int, Process], chosen: set[int]) -> float:
    return 1000.0 * sum(now[one].own - (before[one].own if one in before else 0.0) for one in chosen)


def _count_entries(world: WaysWorld, readers: Sequence[str], posted: Sequence[str]) -> Counter[int]:
    follows: dict[str, list[str]] = {}
    for consumer, producer in world.pairs:
        follows.setdefault(consumer, []).append(producer)
    often = Counter(posted)
    counted = {number: sum(often[one] for one in follows.get(name, ())) for number, name in enumerate(readers)}
    return Counter(counted)


def _until(holds: object, what: str) -> None:
    assert callable(holds)
    until = time.monotonic() + TOLD_WITHIN_S
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {TOLD_WITHIN_S:g} s: {what}")
        time.sleep(0.1)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("headrace bench feed-streams", description=__doc__.split("\n\n")[0])
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--posts", type=int, default=5, help="at a time")
    parser.add_argument("--size", type=float, default=0.01, help="of the paper's Table 2")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(parser="httptools")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
