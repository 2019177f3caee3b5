"""Does a link that is cut delay those alone who need it, and does it bring what was missed, once and nothing else?

Three sites that have joined a project, each in a network namespace, and people who write to two databases all the
time. For as long as the link is to be cut, its bytes are counted while it is whole. Then it is cut, or with --slow
carries 400 bytes a second, and is healed again. After that:

    contracts without that link    have kept their promise all the time
    contracts that need it         were late, said why, and are kept again within a minute
    bytes                          are at most 1.1 times those of as much time with a whole link, by the kernel's count
    loads                          there are none but those of contracts that were moved away from a slow link, or back;
                                   with --budget, the views whose changes had no room are loaded anew

    headrace bench sites-cut [--for 1min] [--slow] [--budget] [--rate 20] [--seed 1] [--keep FOLDER]

In the end each view is compared with its query on the rows of the databases, by DuckDB. Ends with status 1 if something
is not so. Needs root. Acceptance is with --for 10min.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

from bench.beside import Beside
from bench.kills_watch import Watch, episodes
from bench.sites_judge import RECOVERED_WITHIN_S, find_paths
from bench.sites_settle import LOOK_EVERY_S, compare_with_sources, is_well, start_all, wait_until
from bench.sites_world import COORDINATOR, SITES, SitesWorld, open_sites
from bench.workloads.posts_and_people import CONTRACTS, DATABASES, Writer
from bench.world_of_sites import why_impossible
from headrace.app.demo import read_duration

ENDS = ("posts", "office")
SLOW_BYTES_S = 400.0
BUDGET = "1 MB"
"""Of the disk where changes are kept for the other end. Contracts are forced: no plan has room for so little."""
MOST_BYTES = 1.1
WELL_FOR_S = 20.0
"""Before anything is measured: for as long all is well."""


@dataclass
class Reasons(Beside):
    """What `status` gives as a reason while contracts are late, by contract: the last of each that names an end of the
    link, or else the last.
    """

    here: SitesWorld
    found: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__("reasons")

    def run(self) -> None:
        while not self.stopping.wait(LOOK_EVERY_S):
            for site in SITES:
                status: Mapping[str, Any] = self.here.read_status(site) or {"contracts": ()}
                late = [one for one in status["contracts"] if one["state"] != "kept" and one.get("reason")]
                for one in late:
                    if names_link(one["reason"]) or not names_link(self.found.get(one["id"], "")):
                        self.found[one["id"]] = one["reason"]


def names_link(reason: str) -> bool:
    return any(site in reason for site in ENDS)


@dataclass(frozen=True, slots=True)
class CutSeen:
    """Seconds since 1970 at which the link was cut and healed, and when all was well again; None if it was not. Bytes
    that the link carried in as much time before the cut, and from its end until all was well.
    """

    cut: float
    healed: float
    well: float | None
    bytes_before: int
    bytes_after: int

    @property
    def share(self) -> float:
        """Bytes after the cut for each that the changes since its beginning have taken while it was whole."""
        lasted = self.healed - self.cut
        until = self.healed if self.well is None else self.well
        return self.bytes_after / (self.bytes_before * (until - self.cut) / lasted)


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
    """What is not as it should be."""
    watches = {site: Watch(here.folder_of(site).root / "status.json") for site in SITES}
    start_all(here, watches)
    if options.budget:
        _limit_disk(here)
    writers = [Writer(name, here.find_dsn(name), options.rate, options.seed) for name in DATABASES]
    reasons = Reasons(here)
    try:
        for writer in writers:
            writer.start()
        time.sleep(WELL_FOR_S)
        wait_until(lambda: all(is_well(watch) for watch in watches.values()), RECOVERED_WITHIN_S)
        needed = _find_needed(here)
        seen = _cut(here, watches, reasons, options)
    finally:
        for one in (*writers, *watches.values(), reasons):
            one.stop()
    yield from _judge(here, watches, reasons, needed, seen, options)
    equal, differing = compare_with_sources(here)
    print(f"views equal to their queries: {equal} of {len(CONTRACTS)}", flush=True)
    yield from differing


def _find_needed(here: SitesWorld) -> set[str]:
    """Contracts whose rows cross the link: in the plan that runs before the cut, since they may move away from it."""
    plan = here.folder_of(COORDINATOR).running()
    assert plan is not None, "the coordinator has told nobody what to run"
    return {name for name, path in find_paths(plan).items() if frozenset(ENDS) in path.links}


def _limit_disk(here: SitesWorld) -> None:
    file = here.project / "headrace.yml"
    site = f"  {ENDS[0]}: {{cpu: 0.34 $/core-hour"
    file.write_text(file.read_text().replace(site, f"{site}, disk_capacity: {BUDGET}"))
    here.ask("apply", str(here.project), *(f"--force={name}" for name in CONTRACTS), "--json")


def _cut(here: SitesWorld, watches: Mapping[str, Watch], reasons: Reasons, options: argparse.Namespace) -> CutSeen:
    before = _count(here)
    time.sleep(options.lasts_s)
    before = _count(here) - before
    print(f"{before / options.lasts_s:.0f} bytes/s crossed between {' and '.join(ENDS)} while their link was whole")
    network, cut = here.network, time.time()
    if options.slow:
        for origin, site in (ENDS, ENDS[::-1]):
            network.set_rate(origin, site, SLOW_BYTES_S)
    else:
        network.cut(*ENDS)
    print(f"the link {f'carries {SLOW_BYTES_S:.0f} bytes/s' if options.slow else 'is cut'} for {options.lasts_s:.0f} s")
    sys.stdout.flush()
    reasons.start()
    time.sleep(options.lasts_s)
    reasons.stop()  # then they are late because there is much to do
    counted, healed = _count(here), time.time()
    network.heal(*ENDS)

    def is_well_again() -> bool:
        return all(is_well(watch) and watch.looks[-1].at > healed + 1.0 for watch in watches.values())

    is_there = wait_until(is_well_again, 2 * RECOVERED_WITHIN_S)
    return CutSeen(cut, healed, time.time() if is_there else None, before, _count(here) - counted)


def _count(here: SitesWorld) -> int:
    return sum(here.network.count_bytes(*ends) for ends in (ENDS, ENDS[::-1]))


def _judge(
    here: SitesWorld,
    watches: Mapping[str, Watch],
    reasons: Reasons,
    needed: set[str],
    seen: CutSeen,
    options: argparse.Namespace,
) -> Iterator[str]:
    late = [one for watch in watches.values() for one in episodes(look for look in watch.looks if look.at >= seen.cut)]
    names = {one.contract for one in late}
    for name in CONTRACTS:
        times = sum(one.contract == name for one in late)
        print(f"  {name:12} {'needs the link' if name in needed else '':14} {times} times late")
        if name in reasons.found:
            print(fill(reasons.found[name], 76, initial_indent=" " * 6, subsequent_indent=" " * 6))
    if not options.budget:  # with it, who loads anew keeps others of the site waiting
        for name in sorted(names - needed):
            yield f"{name} was late, and does not need the link"
        for name in sorted(needed & names):
            if not names_link(reasons.found.get(name, "")):
                yield f"{name} was late, and did not say that the link is why: {reasons.found.get(name)}"
    if seen.well is None or seen.well > seen.healed + RECOVERED_WITHIN_S:
        yield f"promises were not kept again within {RECOVERED_WITHIN_S:.0f} s"
    else:
        print(f"all promises were kept again {seen.well - seen.healed:.1f} s after the link was back")
    moved = find_moved(here.read_status(COORDINATOR) or {}, seen.cut)
    for name, why in moved.items():
        print(fill(f"{name} was moved: {why}", 76, subsequent_indent=" " * 6))
    sent, found = f"{seen.bytes_after / 1e3:.0f} kB", _find_loaded(here, seen)
    loaded = [name for name in found if name not in moved]  # a move loads what is new where it leads to
    print(f"{sent} crossed it then: {seen.share:.2f} of what its changes take while it is whole (bar {MOST_BYTES})")
    print(f"loaded anew without being moved: {', '.join(loaded) or 'nothing'}", flush=True)
    if options.budget and not loaded:
        yield f"no view was loaded anew, although its changes have {BUDGET}: use --for, or a larger --rate"
    elif not options.budget and loaded:
        yield f"{', '.join(loaded)} was loaded anew"
    elif not options.budget and moved and not options.slow:
        yield f"{', '.join(moved)} was moved, although a link that is cut says nothing about what it carries"
    elif not options.budget and not moved and seen.share > MOST_BYTES:
        yield f"{sent} crossed the link after the cut, which is too much"


def find_moved(status: Mapping[str, Any], since: float) -> dict[str, str]:
    """Contracts that are made in another way since a time, as the coordinator tells of it, and why."""
    return {
        name: "; ".join(one["because"])
        for one in status.get("moves", ())
        if one["at"] >= since and one["error"] is None
        for name in one["contracts"]
    }


def _find_loaded(here: SitesWorld, seen: CutSeen) -> list[str]:
    """Contracts that were left out since the cut because their changes were gone, as `events` name them."""
    found = set()
    for site in SITES:
        said = here.ask("events", str(here.folder_of(site).project), "--json", "--limit=100000", at=site)
        for one in map(json.loads, said.splitlines()):
            if one["kind"] in ("left out", "loaded") and one["at"] >= seen.cut:
                found |= set(one["about"]["contracts"])
    return sorted(found)


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench sites-cut", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--for", dest="lasts_s", type=read_duration, default=60.0, help="how long the link is cut")
    parser.add_argument("--slow", action="store_true", help=f"the link carries {SLOW_BYTES_S:.0f} bytes/s instead")
    parser.add_argument("--budget", action="store_true", help=f"changes have {BUDGET} of disk, and are lost")
    parser.add_argument("--rate", type=float, default=20.0, help="transactions per second in each database")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copies the project with its logs there")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
