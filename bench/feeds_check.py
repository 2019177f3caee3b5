"""Runs two feeds while people change and read them and processes are killed, and compares every page with SQL."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from bench.feeds_compare import Compared, compare_pages
from bench.feeds_history import WRITTEN, Version, find_strange, read_history
from bench.feeds_people import FEEDS, PEOPLE, Reading, SeenPage, Writing
from bench.feeds_world import FeedWorld
from bench.kills_watch import Watch

STARTED_WITHIN_S, SETTLED_WITHIN_S, FOUND_WITHIN_S = 180.0, 120.0, 20.0
SHOWN_EXAMPLES = 3


@dataclass
class Findings:
    pages: list[SeenPage]
    history: dict[str, list[Version]]
    kills: Counter[str]
    done: Counter[str]
    seconds: list[float]
    wrong: list[str] = field(default_factory=list)


def run_check(world: FeedWorld, options: argparse.Namespace) -> Findings:
    writing = Writing(world, options.rate, options.seed)
    writing.begin("wall")
    began = time.monotonic()
    world.start()
    watch = Watch(world.folder.root / "status.json")
    watch.start()
    if not watch.wait_until_well(STARTED_WITHIN_S):
        raise RuntimeError(f"the project does not run: {world.output.read_text()}")
    print(f"the feeds are there after {time.monotonic() - began:.1f} s", flush=True)
    plan = world.folder.running()
    assert plan is not None
    if plan.rejected:
        raise RuntimeError(f"a feed is refused: {world.output.read_text()}")
    writing.sources = dict(plan.catalogue.sources)
    writing.begin("home")
    consumers = [PEOPLE[number :: options.readers] for number in range(options.readers)]
    readings = [Reading(world, mine, options.seed + at, options.pause) for at, mine in enumerate(consumers)]
    for one in (writing, *readings):
        one.start()
    kills = _kill_for(world, options)
    for one in (writing, *readings):
        one.stop()
    is_well = watch.wait_until_well(SETTLED_WITHIN_S)
    for reading in readings:
        for consumer in reading.consumers:
            for feed in FEEDS:
                reading.read(feed, consumer, 3)
    writing.close()
    for reading in readings:
        reading.close()
    watch.stop()
    world.stop()
    found = Findings(
        [page for reading in readings for page in reading.pages],
        {},
        kills,
        sum((reading.counts for reading in readings), writing.counts),
        [seconds for reading in readings for seconds in reading.seconds],
        [line for reading in readings for line in reading.wrong],
    )
    if writing.error is not None:
        found.wrong.append(f"nobody could write: {writing.error!r}")
    if not is_well:
        found.wrong.append(
            f"the project is not well {SETTLED_WITHIN_S:g} s after the last change: {watch.look().wrong}"
        )
    _read_histories(world, writing, found)
    return found


def _kill_for(world: FeedWorld, options: argparse.Namespace) -> Counter[str]:
    """Kills one process after the other, none again before each was once; a service that ended is started."""
    chance, kills, left = random.Random(options.seed), Counter[str](), list[str]()
    kinds = world.kinds if options.kill is None else options.kill
    end = time.monotonic() + options.seconds
    while (rest := end - time.monotonic()) > 0:
        time.sleep(min(rest, options.kill_every * chance.uniform(0.7, 1.3)))
        if time.monotonic() >= end or not kinds:
            continue
        left = left or chance.sample(kinds, len(kinds))
        kind = left.pop()
        pids = _await_process(world, kind)
        if pids:
            world.kill(kind, chance.choice(pids))
            kills[kind] += 1
            print(f"{options.seconds - rest:6.0f} s: killed {kind}", file=sys.stderr)
        else:
            print(f"{options.seconds - rest:6.0f} s: there is no {kind} to be killed", file=sys.stderr)
        if (said := world.read_ended()) is not None:
            print(f"the service ended: {said}", file=sys.stderr)
            kills["ended by itself"] += 1
            world.start()
    return kills


def _await_process(world: FeedWorld, kind: str) -> list[int]:
    until = time.monotonic() + FOUND_WITHIN_S
    while not (found := world.find(kind)) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def _read_histories(world: FeedWorld, writing: Writing, found: Findings) -> None:
    for name, written in WRITTEN.items():
        found.history[name], _ = read_history(world.folder, name)
        strange = find_strange(found.history[name], writing.changes[name], written.key)
        if strange is not None:
            found.wrong.append(f"{name}: {strange}")


def report_check(found: Findings) -> bool:
    """Prints what was found; whether all is as it should be."""
    done = ", ".join(f"{count} {what}" for what, count in sorted(found.done.items()))
    killed = ", ".join(f"{what} {count}" for what, count in sorted(found.kills.items()))
    print(f"done: {done}")
    print(f"kills: {sum(found.kills.values())} ({killed or 'none'})")
    ordered = sorted(found.seconds) or [0.0]
    slow = ordered[int(0.95 * (len(ordered) - 1))]
    print(f"a page took {1000 * statistics.median(ordered):.0f} ms, 95 % of them at most {1000 * slow:.0f} ms")
    print(
        f"\n{'feed':6} {'pages':>7} {'follow':>7} {'stored':>7} {'differ':>7} {'gaps':>5} {'twice':>6} {'disorder':>9}"
    )
    good = not found.wrong
    for feed in FEEDS:
        compared = compare_pages([page for page in found.pages if page.feed == feed], found.history, feed)
        print(_tell(feed, compared))
        for line in compared.examples[:SHOWN_EXAMPLES]:
            print(f"  {line}")
        good = good and not compared.counts
    for line in found.wrong[:SHOWN_EXAMPLES]:
        print(f"wrong: {line}")
    if len(found.wrong) > SHOWN_EXAMPLES:
        print(f"and {len(found.wrong) - SHOWN_EXAMPLES} more")
    return good


def _tell(feed: str, compared: Compared) -> str:
    """`follow` are pages after another, `stored` is the share of entries that were stored ahead."""
    share = 100 * compared.stored / max(1, compared.entries)
    counts = compared.counts
    return (
        f"{feed:6} {compared.pages:7} {compared.later:7} {share:5.0f} % {counts['differ']:7} {counts['gaps']:5}"
        f" {counts['duplicates']:6} {counts['disorder']:9}"
    )
