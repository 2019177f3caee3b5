"""Do sites keep every promise whose path is whole, and all rows, while links and processes fail around them?

Three sites that have joined a project, each in a network namespace with links of their own to the others, and people
who write to two databases all the time. Links are cut, cut in one direction, taken down and slowed, and agents, their
captures and the coordinator are killed, at random and several at once. In the end everything is healed, and each view
is compared with its query on the rows of the databases, by DuckDB.

    headrace bench sites-faults [--minutes 10] [--every 15] [--rate 20] [--seed 1] [--only KIND,KIND] [--keep FOLDER]

A contract is late without a reason if nothing that its rows come from or over has failed since it was kept, and for as
long as a recovery may take. Ends with status 1 if one was, or if a view differs from its query. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from bench.kills_watch import Episode, Watch, episodes
from bench.sites_world import COORDINATOR, SITES, SitesWorld, open_sites
from bench.workloads.posts_and_people import CONTRACTS, DATABASES, Writer
from bench.world_of_sites import why_impossible
from headrace.model.plan import Plan

STARTED_WITHIN_S, SETTLED_WITHIN_S, EQUAL_WITHIN_S = 240.0, 180.0, 60.0
RECOVERED_WITHIN_S = 60.0
LOOK_EVERY_S = 0.2
SLOW_BYTES_S = 2_000.0
TABLES = {"people": ("users", "places"), "posts": ("posts", "likes")}
LINK_KINDS, PROCESS_KINDS = ("cut", "one way", "down", "slow"), ("agent", "capture", "coordinator")


@dataclass
class Trouble:
    """What fails from when to when; `sites` are those it concerns: two of a link, one of a process."""

    kind: str
    sites: frozenset[str]
    began: float
    until: float
    heal: Callable[[], None] = lambda: None

    def line(self, started: float) -> str:
        lasts = f" for {self.until - self.began:.0f} s" if self.until > self.began else ""
        return f"{self.began - started:7.1f} s  {self.kind:12} {' - '.join(sorted(self.sites))}{lasts}"


@dataclass(frozen=True, slots=True)
class ContractPath:
    """What a contract's rows come from and over."""

    sites: frozenset[str]
    links: frozenset[frozenset[str]]

    def is_hit(self, trouble: Trouble) -> bool:
        if trouble.kind in LINK_KINDS:
            return trouble.sites in self.links
        return not trouble.sites.isdisjoint(self.sites)


@dataclass
class Faults:
    """Provokes and heals, some at once: but no link or process has two at a time."""

    here: SitesWorld
    chance: random.Random
    kinds: Sequence[str]
    all: list[Trouble] = field(default_factory=list)
    now: list[Trouble] = field(default_factory=list)

    def heal_due(self, now: float) -> None:
        for trouble in [one for one in self.now if one.until <= now]:
            trouble.heal()
            self.now.remove(trouble)

    def begin(self, lasts_s: float) -> Trouble | None:
        """One more; None if what was chosen has a trouble already."""
        kind, now, network = self.chance.choice(self.kinds), time.time(), self.here.network
        if kind in LINK_KINDS:
            one, other = self.chance.choice(list(combinations(SITES, 2)))
            ends = frozenset((one, other))
            if any(trouble.sites == ends for trouble in self.now):
                return None
            trouble = Trouble(kind, ends, now, now + lasts_s, lambda: network.heal(one, other))
            match kind:
                case "cut":
                    network.cut(one, other)
                case "one way":
                    network.cut_one_way(*self.chance.sample((one, other), 2))
                case "down":
                    network.take_down(one, other)
                case _:
                    network.set_rate(one, other, SLOW_BYTES_S)
                    network.set_rate(other, one, SLOW_BYTES_S)
            self.now.append(trouble)
        else:
            site = (
                COORDINATOR if kind == "coordinator" else self.chance.choice(SITES[:2] if kind == "capture" else SITES)
            )
            if kind == "capture":
                for pid in self.here.find_captures(site):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            else:
                self.here.kill(site)
                self.here.start(site)
            trouble = Trouble(kind, frozenset((site,)), now, now)
        self.all.append(trouble)
        return trouble


def find_paths(plan: Plan) -> dict[str, ContractPath]:
    vertices, edges = plan.graph.vertices, plan.graph.edges
    found: dict[str, ContractPath] = {}
    for contract in plan.contracts:
        seen: set[str] = set()
        waiting = [contract.vertex]
        links: set[frozenset[str]] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            for read in edges[name].inputs if name in edges else ():
                ends = frozenset((vertices[read].site, vertices[name].site))
                links |= {ends} if len(ends) == 2 else set()
                waiting.append(read)
        found[contract.contract] = ContractPath(frozenset(vertices[name].site for name in seen), frozenset(links))
    return found


def without_reason(
    late: Sequence[Episode], paths: Mapping[str, ContractPath], troubles: Sequence[Trouble]
) -> list[Episode]:
    """Episodes of contracts whose path was whole for long enough before."""
    return [
        one
        for one in late
        if not any(
            trouble.began <= one.at <= trouble.until + RECOVERED_WITHIN_S and paths[one.contract].is_hit(trouble)
            for trouble in troubles
        )
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _read_options(arguments)
    if (why := why_impossible()) is not None:
        sys.exit(f"this needs a network of its own: {why}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left then either
    with open_sites(keep=options.keep) as here:
        wrong = list(_run(here, options))
    print(*wrong, sep="\n")
    sys.exit(1 if wrong else 0)


def _run(here: SitesWorld, options: argparse.Namespace) -> Iterator[str]:
    """What is wrong, after everything has settled."""
    watches = {site: Watch(here.folder_of(site).root / "status.json") for site in SITES}
    _start_all(here, watches)
    plan = here.folder_of(COORDINATOR).running()
    assert plan is not None, "the coordinator has told nobody what to run"
    paths = find_paths(plan)
    writers = [Writer(name, here.find_dsn(name), options.rate, options.seed) for name in DATABASES]
    for writer in writers:
        writer.start()
    time.sleep(options.every)
    started = time.time()
    faults = Faults(here, random.Random(options.seed), options.only)
    _provoke(here, faults, started, options)
    for writer in writers:
        writer.stop()
    healed = time.time()
    settled = _wait_for(lambda: all(_is_well(watch) for watch in watches.values()), SETTLED_WITHIN_S)
    print(f"{time.time() - healed:.1f} s until all promises were kept again", flush=True)
    for watch in watches.values():
        watch.stop()
    late = [one for watch in watches.values() for one in episodes(look for look in watch.looks if look.at >= started)]
    unexplained = without_reason(late, paths, faults.all)
    equal, differing = _compare(here)
    yield from _tell(here, faults, writers, late, unexplained, equal)
    if not settled:
        yield from (f"{site}: {watch.looks[-1].wrong}" for site, watch in watches.items() if watch.looks[-1].wrong)
    yield from differing
    for one in unexplained:
        yield f"{one.contract} was late {one.at - started:.1f} s after the beginning, and its path was whole"


def _tell(
    here: SitesWorld,
    faults: Faults,
    writers: Sequence[Writer],
    late: Sequence[Episode],
    unexplained: Sequence[Episode],
    equal: int,
) -> Iterator[str]:
    counts = Counter(trouble.kind for trouble in faults.all)
    print("failed: " + ", ".join(f"{kind} {count} times" for kind, count in sorted(counts.items())))
    print("transactions written: " + ", ".join(f"{one.written} in {one.database}" for one in writers))
    for ends in ((one, other) for one in SITES for other in SITES if one != other):
        print(f"{ends[0]} to {ends[1]}: {here.network.count_bytes(*ends) / 1e6:.2f} MB, as the kernel counts them")
    print(f"promises broken: {len(late)} times, {len(unexplained)} of them with a path that was whole")
    print(f"views equal to their queries: {equal} of {len(CONTRACTS)}", flush=True)
    for writer in writers:
        if writer.error is not None:
            yield f"nobody could write to {writer.database}: {writer.error}"


def _start_all(here: SitesWorld, watches: Mapping[str, Watch]) -> None:
    began = time.monotonic()
    here.start(COORDINATOR)
    if not _wait_for(lambda: here.read_status(COORDINATOR) is not None, STARTED_WITHIN_S):
        raise RuntimeError((here.root / f"{COORDINATOR}.out").read_text())
    for site in SITES:
        here.start(site)
    for watch in watches.values():
        watch.start()
    if not _wait_for(lambda: all(_is_well(watch) for watch in watches.values()), STARTED_WITHIN_S):
        said = [(here.root / f"{site}.out").read_text() for site in (COORDINATOR, *SITES)]
        raise RuntimeError("the sites do not run: " + "\n".join(said))
    print(f"all views are there after {time.monotonic() - began:.1f} s", flush=True)


def _provoke(here: SitesWorld, faults: Faults, started: float, options: argparse.Namespace) -> None:
    until, due, chance = time.time() + options.minutes * 60, time.time(), faults.chance
    while (now := time.time()) < until:
        faults.heal_due(now)
        for site in here.start_ended():
            print(f"{now - started:7.1f} s  {site} had ended by itself, and is started again", flush=True)
        if now >= due and until - now > options.every:
            trouble = faults.begin(min(chance.uniform(0.5, 4.0) * options.every, until - now))
            if trouble is not None:
                print(trouble.line(started), flush=True)
                due = now + options.every * chance.uniform(0.5, 1.5)
        time.sleep(LOOK_EVERY_S)
    faults.heal_due(float("inf"))


def _is_well(watch: Watch) -> bool:
    return bool(watch.looks) and watch.looks[-1].wrong is None


def _wait_for(is_true: Callable[[], bool], within_s: float) -> bool:
    until = time.monotonic() + within_s
    while not is_true():
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def _compare(here: SitesWorld) -> tuple[int, list[str]]:
    """How many views are as their queries, and what the others lack or have too much."""
    expected = _query_sources(here)
    wrong: dict[str, str] = {}
    until = time.monotonic() + EQUAL_WITHIN_S
    for name, (site, _, _) in CONTRACTS.items():
        while True:
            found = Counter(map(tuple, _read_view(here, site, name)))
            if found == expected[name]:
                wrong.pop(name, None)
                break
            missing, extra = sum((expected[name] - found).values()), sum((found - expected[name]).values())
            wrong[name] = f"{name} is not as its query: {missing} rows are missing, and {extra} too many"
            if time.monotonic() > until:
                break
            time.sleep(1.0)
    return len(CONTRACTS) - len(wrong), list(wrong.values())


def _read_view(here: SitesWorld, site: str, name: str) -> list[list[Any]]:
    words = ["show", name, str(here.folder_of(site).project), "--limit", "1000000", "--json"]
    found: list[list[Any]] = json.loads(here.ask(*words, at=site))["rows"]
    return found


def _query_sources(here: SitesWorld) -> dict[str, Counter[tuple[Any, ...]]]:
    with duckdb.connect() as duck:
        for database, tables in TABLES.items():
            with psycopg.connect(here.find_dsn(database)) as connection:
                for table in tables:
                    cursor = connection.execute(f"SELECT * FROM {table}".encode())
                    columns = [
                        f"{one.name} {'BIGINT' if one.type_code == 20 else 'TEXT'}" for one in cursor.description or ()
                    ]
                    duck.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
                    duck.executemany(
                        f"INSERT INTO {table} VALUES ({', '.join('?' for _ in columns)})", cursor.fetchall()
                    )
        return {name: Counter(duck.execute(query).fetchall()) for name, (_, _, query) in CONTRACTS.items()}


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    kinds = (*LINK_KINDS, *PROCESS_KINDS)
    parser = argparse.ArgumentParser(prog="headrace bench sites-faults", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=15.0, help="seconds from one fault to the next, about")
    parser.add_argument("--rate", type=float, default=20.0, help="transactions per second in each database")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", type=lambda text: tuple(text.split(",")), default=kinds, help=f"of {', '.join(kinds)}"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copies the project with its logs there")
    options = parser.parse_args(arguments)
    unknown = [kind for kind in options.only if kind not in kinds]
    if unknown:
        parser.error(f'there is no "{unknown[0]}", only {", ".join(kinds)}')
    return options


if __name__ == "__main__":
    main()
