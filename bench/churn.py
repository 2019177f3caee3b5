"""Do contracts that come and go disturb those that stay, and do they leave anything behind?

A service under load, whose contracts half stay for ever. The others come and go at random every few seconds, the way
`headrace apply` does it. Counts what promises were broken to those who stay (after the first minute), takes everything
away but them, lets upkeep do its work, and looks for what is left: logs, files, notes, slots, tables, threads, memory.
Views are compared with their queries before and after. Exit 1 if a promise was broken or something is left.

    headrace bench churn [--minutes 10] [--every 4] [--rate 20] [--contracts 16] [--rows 20000] [--seed 1]
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bench.churn_left import Footprint, Leftovers, footprint
from bench.contracts_world import Kept, keeping, machine
from bench.workloads.live_table1 import DATABASE, Live, Tweeting, live_catalogue
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.host import Prepared, ServiceHost
from headrace.coordinate.perform import find_steps
from headrace.model.catalogue import Catalogue, PostgresTable
from headrace.model.errors import HeadraceError
from headrace.model.options import ApplyWishes
from headrace.model.plan import PlanOptions
from headrace.plan.make import plan_on_running
from headrace.plan.share.difference import difference
from headrace.site.housekeeping import GRACE_S
from headrace.site.reading import ViewReader
from headrace.site.running import make_running

FRESHNESS_S = (20.0, 30.0, 45.0)
SETTLE_S = 60.0
LEFT_WITHIN_S = 3 * GRACE_S
"""How long upkeep may take to clear up."""
GROWN_BYTES, GROWN = 64_000_000, 0.25
"""Memory may grow by so much, or by this part, from the first minute on: Python gives back little."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked of the run."""

    seconds: float
    every_s: float
    seed: int

    @property
    def settle_s(self) -> float:
        return min(SETTLE_S, self.seconds / 3)


@dataclass
class Churn:
    """One run: who stays, who comes and goes, what applies took, and what was seen at first."""

    kept: Kept
    catalogue: Catalogue
    staying: tuple[str, ...]
    coming: tuple[str, ...]
    there: set[str] = field(default_factory=set)
    seconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        service = self.kept.service
        self.host = ServiceHost(service, service.folder, self._prepare)

    def _prepare(self, wishes: ApplyWishes) -> Prepared:
        running = self.kept.service.running
        assert running is not None
        plan = plan_on_running(running.plan, with_contracts(self.catalogue, {*self.staying, *self.there}))
        steps = find_steps(self.kept.service, make_running(plan))
        return Prepared(plan, {}, difference(running.plan, plan), steps)

    def turn(self, names: Sequence[str]) -> None:
        """Those who are there go, the others come."""
        self.there ^= set(names)
        started = time.perf_counter()
        try:
            applied = self.host.apply(ApplyWishes())
        except HeadraceError as error:
            self.failed.append(str(error))
            self.there ^= set(names)
            return
        self.seconds.append(time.perf_counter() - started)
        refused = [one.contract for one in applied.prepared.plan.rejected]
        self.there -= set(refused)
        self.failed += [f"{name} was refused" for name in refused]

    def broken(self) -> dict[str, tuple[int, float]]:
        """Episodes of broken promises of those who stay, and the largest lag as a share of the promise."""
        records = self.kept.service.auditor.records
        promised = {name: self.catalogue.contracts[name].freshness_s for name in self.staying}
        return {
            name: (records[name].episodes, records[name].worst_lag_s / promised[name])
            for name in self.staying
            if name in records
        }

    def unequal(self) -> tuple[str, ...]:
        service = self.kept.service
        assert service.rounds.state is not None
        reader = ViewReader(
            service.rounds.state.running.plan, service.rounds.state.program, service.ledger, service.store
        )
        compared = compare_views(reader, service.folder, service.environment, service.rounds.push_to)
        return tuple(view.contract for view in compared.views if not view.equal)


def with_contracts(catalogue: Catalogue, names: set[str]) -> Catalogue:
    return replace(catalogue, contracts={name: one for name, one in catalogue.contracts.items() if name in names})


def delivered(catalogue: Catalogue, names: Sequence[str]) -> Catalogue:
    """Some contracts also deliver to a table of the same database."""
    contracts = {
        name: replace(one, deliver=PostgresTable(f"${{{DATABASE}}}", f"copy_{name.lower()}")) if name in names else one
        for name, one in catalogue.contracts.items()
    }
    return replace(catalogue, contracts=contracts)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    logging.basicConfig(level=logging.WARNING, format="  %(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    live = Live(options.contracts, options.rows, options.rate, FRESHNESS_S)
    declared = live_catalogue(live)
    names = list(declared.contracts)
    staying, coming = tuple(names[::2]), tuple(names[1::2])
    catalogue = delivered(declared, coming[::3])
    terms = Terms(options.minutes * 60, options.every, options.seed)
    print(
        f"{len(staying)} contracts stay, {len(coming)} come and go every {options.every:g} s for {options.minutes:g}"
        f" minutes; {options.rate:g} tweets/s on {options.rows}, seed {options.seed}, {os.cpu_count()} cores,"
        f" load before {os.getloadavg()[0]:.1f}"
    )
    with machine(live.cores) as here:
        here.fill(live)
        with keeping(here, live, PlanOptions(), with_contracts(catalogue, set(staying))) as kept:
            churn = Churn(kept, catalogue, staying, coming)
            tweeting = Tweeting(kept.dsn, live, lambda _: live.tweets_per_s)
            tweeting.start()
            try:
                good = run(churn, terms)
            finally:
                tweeting.stop()
    if tweeting.error is not None:
        print(f"the load failed: {tweeting.error}")
    sys.exit(0 if good and tweeting.error is None else 1)


def run(churn: Churn, terms: Terms) -> bool:
    first = footprint(churn.kept)
    at_first, settled = come_and_go(churn, terms)
    churned = footprint(churn.kept)  # before views are compared, which takes memory of its own
    print_applies(churn)
    broken = print_broken(churn, at_first)
    wrong = churn.unequal()
    print(f"views before the others went: {', '.join(wrong) or 'none'} not equal to their queries")
    churn.turn(sorted(churn.there))
    left = until_clear(churn, first)
    print(left.text())
    grown = print_footprints(first, settled, churned, footprint(churn.kept))
    wrong_after = churn.unequal()
    print(f"views after the others went: {', '.join(wrong_after) or 'none'} not equal to their queries")
    failure = churn.kept.service.failure
    if failure is not None:
        print(f"the service failed: {failure}")
    return not (broken or wrong or wrong_after or left.found or grown or churn.failed or failure)


def come_and_go(churn: Churn, terms: Terms) -> tuple[dict[str, tuple[int, float]], Footprint]:
    """What was broken until the run had settled, and how large the service was then."""
    chance, started = random.Random(terms.seed), time.monotonic()
    broken: dict[str, tuple[int, float]] | None = None
    settled = footprint(churn.kept)
    while (at := time.monotonic() - started) < terms.seconds and churn.kept.service.failure is None:
        if broken is None and at >= terms.settle_s:
            broken, settled = churn.broken(), footprint(churn.kept)
        names = chance.sample(churn.coming, chance.choice((1, 1, 2)))
        until = time.monotonic() + chance.uniform(0.5, 1.5) * terms.every_s
        churn.turn(names)
        took = f"{churn.seconds[-1]:.1f} s" if churn.seconds else "failed"
        print(f"  {at:4.0f} s: {', '.join(sorted(names))} turned in {took}", file=sys.stderr)
        time.sleep(max(0.0, until - time.monotonic()))
    return broken or {}, settled


def print_applies(churn: Churn) -> None:
    took = churn.seconds
    print(
        f"applies: {len(took)} done, median {statistics.median(took):.2f} s, worst {max(took):.2f} s;"
        f" {len(churn.failed)} failed or refused"
    )
    for reason in sorted(set(churn.failed)):
        print(f"  {reason}")


def print_broken(churn: Churn, before: dict[str, tuple[int, float]]) -> int:
    """Episodes after the run had settled."""
    now = churn.broken()
    episodes = {name: count - before.get(name, (0, 0.0))[0] for name, (count, _) in now.items()}
    broken = {name: count for name, count in episodes.items() if count}
    worst = max(share for _, share in now.values())
    print(
        f"broken promises of the {len(churn.staying)} that stay, after the first minute: {sum(broken.values())}"
        f" ({', '.join(sorted(broken)) or 'none'}); largest lag of all {100 * worst:.0f} % of the promise"
    )
    return sum(broken.values())


def until_clear(churn: Churn, first: Footprint) -> Leftovers:
    """What is left when upkeep had its time."""
    left, started = Leftovers(churn.kept, first), time.monotonic()
    while time.monotonic() - started < LEFT_WITHIN_S:
        left.look()
        if time.monotonic() - started > GRACE_S and not left.found:
            break
        time.sleep(2.0)
    return left


def print_footprints(first: Footprint, settled: Footprint, churned: Footprint, last: Footprint) -> list[str]:
    """What has grown while contracts came and went."""
    print(f"{'':24} {'loaded':>13} {'first minute':>13} {'last minute':>13} {'end':>13}")
    for what in settled.amounts:
        amounts = [one.amounts[what] for one in (first, settled, churned, last)]
        print(f"{what:24}" + "".join(f" {amount:13,}" for amount in amounts))
    grown = [
        what
        for what in ("anonymous memory, bytes", "ledger, bytes")
        if churned.amounts[what] > max(settled.amounts[what] * (1 + GROWN), settled.amounts[what] + GROWN_BYTES)
    ]
    print(f"grown: {', '.join(grown) or 'nothing'}")
    return grown


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench churn", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="of coming and going")
    parser.add_argument("--every", type=float, default=4.0, help="seconds between changes, on average")
    parser.add_argument("--rate", type=float, default=20.0, help="tweets per second")
    parser.add_argument("--contracts", type=int, default=16, help="half of them stay")
    parser.add_argument("--rows", type=int, default=20_000, help="tweets that are stored before")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
