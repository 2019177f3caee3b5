"""How soon does anybody see that a link has become ten times slower, and do contracts leave it, and return, once?

Two sites, each an agent in a network namespace of its own, and between them a link of which `tc tbf` lets 100 Mbit/s
through, then 10, then 100 again. Posts arise at one site; a view counts them at the other, where computing is cheaper:
so that all posts cross the link until it is too slow for them. What `headrace status` says of the link is read over and
over, as a person would read it. Needs root.

    headrace bench link-drop [--slow-for 90] [--healed-for 720]
"""

from __future__ import annotations

import argparse
import base64
import datetime
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.sites_world import COORDINATOR, SitesWorld
from bench.world_of_sites import WorldOfSites, why_impossible

SITES = ("us", "eu")
FAST, SLOW = 12.5e6, 1.25e6
POSTS_S, BODY = 600, 3000
"""Posts a second, and the random bytes of each: 1.8 MB/s that cannot be compressed, of which the slow link carries two
thirds.
"""
KINDS = 7
SEEN_WITHIN_S, MOVED_WITHIN_S, ERROR = 10.0, 60.0, 0.15
READY_WITHIN_S, LOOK_EVERY_S = 240.0, 0.5

PROJECT = f"""
project: drop
sites: {{us: {{cpu: 9 $/core-hour}}, eu: {{cpu: 0.01 $/core-hour}}}}
links: [{{between: [us, eu], bandwidth: 100 Mbps, latency: 1 ms, price: 0.0001 $/GB}}]
sources:
  posts:
    kind: stream
    at: us
    time: ts
    retention: 1 h
    rate: {POSTS_S} /s
    columns:
      {{pid: bigint, ts: timestamp, kind: {{type: bigint, distinct: {KINDS}}}, body: {{type: string, width: 4000}}}}
    files: {{path: "${{DROP_POSTS}}", format: parquet}}
contracts:
  volume: {{view: volume, at: eu, freshness: 4 s}}
"""
VOLUME = "SELECT kind, count(*) AS posts, sum(length(body)) AS volume FROM posts GROUP BY kind"


class DropWorld:
    """The project as a person sees it, and the link from `us` to `eu`."""

    def __init__(self, sites: SitesWorld) -> None:
        self.sites = sites

    def set_rate(self, bytes_s: float) -> None:
        for ends in (SITES, SITES[::-1]):
            self.sites.network.set_rate(*ends, bytes_s)

    def read_status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.sites.ask("status", str(self.sites.project), "--json"))
        return found

    def read_link(self) -> Mapping[str, Any]:
        links = self.read_status()["links"]
        return next((one for one in links if (one["from"], one["to"]) == SITES), {})

    def sees(self, bytes_s: float) -> bool:
        found = self.read_link().get("capacity_bytes_s")
        return found is not None and abs(found - bytes_s) <= ERROR * bytes_s

    def reacts(self) -> bool:
        """Whether the contract was moved, or is late and the link is named as the reason."""
        status = self.read_status()
        late = [one for one in status["contracts"] if one["state"] == "late" and "link" in (one.get("reason") or "")]
        return bool(status["moves"] or late)


def main() -> None:
    parser = argparse.ArgumentParser(prog="headrace bench link-drop", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--slow-for", type=float, default=90.0, help="seconds")
    parser.add_argument(
        "--healed-for", type=float, default=720.0, help="seconds in which contracts may return; 0: none"
    )
    options = parser.parse_args()
    impossible = why_impossible()
    if impossible is not None:
        raise SystemExit(f"no networks can be made here: {impossible}")
    with open_world() as world:
        wait_until(lambda: world.sees(FAST), READY_WITHIN_S)
        say("100 Mbit/s, as seen in `status`", world.read_link().get("capacity_bytes_s"))
        world.set_rate(SLOW)
        dropped = time.monotonic()
        seen_s = wait_until(lambda: world.sees(SLOW), SEEN_WITHIN_S * 3)
        say("10 Mbit/s, as seen in `status`", world.read_link().get("capacity_bytes_s"))
        tell("seen", seen_s, SEEN_WITHIN_S)
        reacted_s = wait_until(world.reacts, max(1.0, dropped + options.slow_for - time.monotonic()))
        tell("moved, or late and said why", None if reacted_s is None else time.monotonic() - dropped, MOVED_WITHIN_S)
        time.sleep(max(0.0, dropped + options.slow_for - time.monotonic()))
        there = len(world.read_status()["moves"])
        print(f"moves while it was slow: {there}", flush=True)
        if options.healed_for:
            world.set_rate(FAST)
            returned_s = wait_until(lambda: len(world.read_status()["moves"]) > there, options.healed_for)
            print(f"returned after {'-' if returned_s is None else f'{returned_s:.0f} s'}", flush=True)
            time.sleep(60.0 if returned_s is not None else 0.0)
            moves = world.read_status()["moves"]
            print(f"moves in all, a minute later: {len(moves)}")
            for move in moves:
                print(f"  {', '.join(move['contracts'])}: {'; '.join(move['because'])}")


def say(what: str, bytes_s: float | None) -> None:
    print(f"{what}: {'nothing yet' if bytes_s is None else f'{bytes_s * 8 / 1e6:.1f} Mbit/s'}", flush=True)


def tell(what: str, took_s: float | None, within_s: float) -> None:
    said = "reached" if took_s is not None and took_s <= within_s else "NOT REACHED"
    print(
        f"{what} after {'-' if took_s is None else f'{took_s:.1f} s'} (asked for: {within_s:g} s): {said}", flush=True
    )


def wait_until(holds: Callable[[], bool], within_s: float) -> float | None:
    """Seconds until something held; None if it did not in time."""
    began = time.monotonic()
    while time.monotonic() - began <= within_s:
        if holds():
            return time.monotonic() - began
        time.sleep(LOOK_EVERY_S)
    return None


@contextmanager
def open_world() -> Iterator[DropWorld]:
    with ExitStack() as ending:
        root = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="drop-")))
        network = ending.enter_context(WorldOfSites([COORDINATOR, *SITES]))
        sites = SitesWorld(root, network, {})
        ending.callback(sites.stop)
        os.environ["DROP_POSTS"] = str(root / "posts")
        (root / "posts").mkdir()
        (sites.project / "views").mkdir(parents=True)
        (sites.project / "headrace.yml").write_text(PROJECT)
        (sites.project / "views" / "volume.sql").write_text(VOLUME)
        world = DropWorld(sites)
        world.set_rate(FAST)
        sites.start(COORDINATOR)
        wait_until(lambda: sites.read_status(COORDINATOR) is not None, READY_WITHIN_S)
        for site in SITES:
            sites.start(site)
        ending.enter_context(write_posts(root / "posts"))
        yield world


@contextmanager
def write_posts(folder: Path) -> Iterator[None]:
    """Adds a file a second."""
    stop = threading.Event()

    def write() -> None:
        rng, began, number = random.Random(1), time.monotonic(), 0
        while not stop.wait(max(0.0, began + number - time.monotonic())):
            ids = range(number * POSTS_S, (number + 1) * POSTS_S)
            now = [datetime.datetime.now(datetime.UTC).replace(tzinfo=None)] * POSTS_S
            bodies = [base64.b64encode(rng.randbytes(BODY)).decode() for _ in ids]
            rows = {"pid": list(ids), "ts": now, "kind": [one % KINDS for one in ids], "body": bodies}
            beside = folder / f"{number:07}.tmp"
            pq.write_table(pa.table(rows), beside)
            beside.rename(beside.with_suffix(".parquet"))
            number += 1

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":
    main()
