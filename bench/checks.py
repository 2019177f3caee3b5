"""What do background checks cost a service that keeps 25 contracts, and how long does a pass over everything take?

The contracts of Table 1 (`workloads/live_table1.py`) run in this process without Spark, on a PostgreSQL of their own,
while people tweet. Stretches with and without checks take turns, so that a busy machine slows both down alike. Seconds
are processor time, of the service and of the database. In the end every view is compared with its query.

    python -m bench.checks [--contracts 25] [--tweets 20000] [--rate 10] [--stretches 6] [--seconds 40]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bench.contracts_run import Cpu, unequal_views
from bench.contracts_world import POSTGRES, Kept, Machine, keeping
from bench.workloads.live_table1 import Live, Tweeting
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.coordinate.host import Prepared, ServiceHost
from headrace.model.plan import PlanOptions
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform

PARTS = ("service", "postgres")


@contextmanager
def here_machine() -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(prefix="checks-"))
    try:
        with EmbeddedPostgres(folder / "postgres", POSTGRES) as postgres:
            # Without Spark: what checks cost is easier to see.
            yield Machine(folder, postgres, HereRunner(perform))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(kept: Kept, host: ServiceHost, live: Live, stretches: int, seconds: float) -> None:
    used: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    tweeting = Tweeting(kept.dsn, live, lambda _: live.tweets_per_s)
    tweeting.start()
    checked_s = cost_s = 0.0
    for number in range(2 * stretches):
        on = bool(number % 2)
        with host.checking() if on else nullcontext():
            cpu = Cpu()
            time.sleep(seconds)
            cpu.look()
            checks = host.status()["checks"]
        used[on].append(cpu.by_part)
        if on:
            checked_s, cost_s = checked_s + seconds, cost_s + checks["seconds"]
        print(f"{'with' if on else 'without':8} {_cores(cpu.by_part, seconds)}", flush=True)
    tweeting.stop()
    _tell(used, seconds)
    subjects = checks["subjects"]
    print(f"checks count {cost_s / checked_s:.2%} of a core, waiting for databases included")
    print(
        f"checked at least once: {sum(one['checked'] is not None for one in subjects)} of {len(subjects)}; a pass takes"
    )
    print(f"{checks['pass_s']:.0f} s as far as known; too large or of another kind:")
    for one in subjects:
        if one["found"] in ("not checked", "different"):
            print(f"  {one['kind']} {one['name']}: {one['found']}: {one['reason']}")


def _tell(used: dict[bool, list[dict[str, float]]], seconds: float) -> None:
    print(f"{'part':10} {'without':>9} {'with':>9} {'more':>9}   median share of a core")
    for part in PARTS:
        without, with_ = (statistics.median(one.get(part, 0.0) / seconds for one in used[on]) for on in (False, True))
        print(f"{part:10} {without:9.2%} {with_:9.2%} {with_ - without:+9.2%}")


def _cores(used: dict[str, float], seconds: float) -> str:
    return ", ".join(f"{part} {spent / seconds:.1%}" for part, spent in sorted(used.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contracts", type=int, default=25)
    parser.add_argument("--tweets", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=10.0, help="tweets per second")
    parser.add_argument("--stretches", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    live = Live(options.contracts, options.tweets, options.rate)
    with here_machine() as machine:
        machine.fill(live)
        with keeping(machine, live, PlanOptions()) as kept:
            print(f"{len(kept.plan.contracts)} contracts, {options.tweets} tweets, {options.rate:g} more each second")
            host = ServiceHost(kept.service, kept.service.folder, lambda _: Prepared(kept.plan, {}, None, ()))
            measure(kept, host, live, options.stretches, options.seconds)
            print(f"views that differ from their queries: {', '.join(unequal_views(kept)) or 'none'}")


if __name__ == "__main__":
    main()
