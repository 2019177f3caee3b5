"""Do sites keep every promise whose path is whole, and all rows, while links and processes fail around them?

Three sites that have joined a project, each in a network namespace with links of their own to the others, and people
who write to two databases all the time. Links are cut, cut in one direction, taken down and slowed, agents, their
captures and the coordinator are killed, all of them are replaced one by one as for an upgrade, and clocks of sites
jump: at random and several at once, `--group` faults in a row and then none until all has been well for a minute. In
the end everything is healed, and each view is compared with its query on the rows of the databases, by DuckDB.

    headrace bench sites-faults [--minutes 10] [--every 10] [--group 4] [--rate 20] [--seed 1] [--only KIND,KIND]
                                [--keep FOLDER]

A contract is late without a reason if nothing that its rows come from or over has failed since it was kept, and for as
long as a recovery may take. For the rest of the time it is judged, which is told of each. Ends with status 1 if one was
late without a reason, or if a view differs from its query. Needs root.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, cycle
from pathlib import Path

from bench.kills_watch import Episode, Watch, episodes
from bench.sites_judge import (
    LINK_KINDS,
    PROCESS_KINDS,
    RECOVERED_WITHIN_S,
    ContractPath,
    Trouble,
    count_judged_s,
    find_paths,
    without_reason,
)
from bench.sites_settle import LOOK_EVERY_S, compare_with_sources, is_well, start_all, wait_until
from bench.sites_world import COORDINATOR, SITES, SitesWorld, open_sites
from bench.workloads.posts_and_people import CONTRACTS, DATABASES, Writer
from bench.world_of_sites import why_impossible

SETTLED_WITHIN_S = 180.0
CALM_S = 60.0
"""After a group of faults and a recovery: contracts over links are judged for this long before the next group."""
SLOW_BYTES_S = 2_000.0
MOST_AHEAD_S = 2.0
"""How far a clock jumps at most, either way: contracts that need rows of two sites are late by as much."""


@dataclass
class Faults:
    """Provokes and heals, some at once: but no link or process has two at a time."""

    here: SitesWorld
    chance: random.Random
    kinds: Sequence[str]
    all: list[Trouble] = field(default_factory=list)
    now: list[Trouble] = field(default_factory=list)
    upgraded: Iterator[str] = field(default_factory=lambda: cycle((*SITES, COORDINATOR)))
    """As people upgrade: sites one by one, and the coordinator last."""

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
        elif kind == "clock":
            site = self.chance.choice(SITES)
            if any(trouble.kind == kind and site in trouble.sites for trouble in self.now):
                return None
            clock = self.here.clocks[site]
            trouble = Trouble(kind, frozenset((site,)), now, now + lasts_s, clock.set)
            clock.set(self.chance.choice((-1.0, 1.0)) * self.chance.uniform(0.5, MOST_AHEAD_S))
            self.now.append(trouble)
        else:
            trouble = self._strike(kind, now)
        self.all.append(trouble)
        return trouble

    def _strike(self, kind: str, now: float) -> Trouble:
        """Ends processes, which are there again at once."""
        match kind:
            case "capture":
                site = self.chance.choice(SITES[:2])
                for pid in self.here.find_captures(site):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            case "upgrade":
                site = next(self.upgraded)
                self.here.replace(site)
            case _:
                site = COORDINATOR if kind == "coordinator" else self.chance.choice(SITES)
                self.here.kill(site)
                self.here.start(site)
        return Trouble(kind, frozenset((site,)), now, time.time() if kind == "upgrade" else now)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _read_options(arguments)
    if (why := why_impossible()) is not None:
        sys.exit(f"this needs a network of its own: {why}")
    if "clock" in options.only and shutil.which("cc") is None and shutil.which("gcc") is None:
        sys.exit("a clock that jumps needs a C compiler: leave it out with --only")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left then either
    with open_sites(keep=options.keep, with_clocks="clock" in options.only) as here:
        wrong = list(_run(here, options))
    print(*wrong, sep="\n")
    sys.exit(1 if wrong else 0)


def _run(here: SitesWorld, options: argparse.Namespace) -> Iterator[str]:
    """What is wrong, after everything has settled."""
    watches = {site: Watch(here.folder_of(site).root / "status.json") for site in SITES}
    start_all(here, watches)
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
    settled = wait_until(lambda: all(is_well(watch) for watch in watches.values()), SETTLED_WITHIN_S)
    print(f"{time.time() - healed:.1f} s until all promises were kept again", flush=True)
    for watch in watches.values():
        watch.stop()
    late = [one for watch in watches.values() for one in episodes(look for look in watch.looks if look.at >= started)]
    unexplained = without_reason(late, paths, faults.all)
    equal, differing = compare_with_sources(here)
    _tell_judged(paths, faults.all, started, healed)
    yield from _tell(here, faults, writers, late, unexplained, equal)
    if not settled:
        yield from (f"{site}: {watch.looks[-1].wrong}" for site, watch in watches.items() if watch.looks[-1].wrong)
    yield from differing
    for one in unexplained:
        yield f"{one.contract} was late {one.at - started:.1f} s after the beginning, and its path was whole"


def _tell_judged(paths: Mapping[str, ContractPath], troubles: Sequence[Trouble], began: float, ended: float) -> None:
    print(f"seconds of {ended - began:.0f} in which nothing excused a broken promise:")
    for name, path in paths.items():
        ends = ", ".join(sorted("-".join(sorted(link)) for link in path.links)) or "no link"
        print(f"  {name:12} {count_judged_s(path, troubles, began, ended):6.0f}  {ends}")


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
    for name, times in Counter(one.contract for one in late).items():
        print(f"  {name:12} {times:6}")
    print(f"views equal to their queries: {equal} of {len(CONTRACTS)}", flush=True)
    for writer in writers:
        if writer.error is not None:
            yield f"nobody could write to {writer.database}: {writer.error}"


def _provoke(here: SitesWorld, faults: Faults, started: float, options: argparse.Namespace) -> None:
    until, due, chance = time.time() + options.minutes * 60, time.time(), faults.chance
    while (now := time.time()) < until:
        faults.heal_due(now)
        for site in here.start_ended():
            print(f"{now - started:7.1f} s  {site} had ended by itself, and is started again", flush=True)
        if now >= due and until - now > options.every:
            trouble = faults.begin(min(chance.uniform(0.5, 3.0) * options.every, until - now))
            if trouble is not None:
                print(trouble.line(started), flush=True)
                due = now + options.every * chance.uniform(0.5, 1.5)
                if len(faults.all) % options.group == 0:
                    due = max(one.until for one in faults.all) + RECOVERED_WITHIN_S + CALM_S
        time.sleep(LOOK_EVERY_S)
    faults.heal_due(float("inf"))


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    kinds = (*LINK_KINDS, *PROCESS_KINDS)
    parser = argparse.ArgumentParser(prog="headrace bench sites-faults", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds from one fault to the next, about")
    parser.add_argument("--group", type=int, default=4, help="faults in a row, before some time without any")
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
