"""Does a project lose, double or delay anything when its processes are killed one after the other?

A real project folder, `headrace up` as its own process, two PostgreSQL servers, eight contracts over both, people who
insert, update and delete; and every minute one process, chosen by chance, gets kill -9: the service, Spark, its Python
daemon or a worker, a capture, a database. A killed database comes back after two seconds and a killed service is
started again at once; everything else the service has to mend. In the end every view is compared with its query.

    headrace bench kills [--minutes 10] [--every 60] [--rate 40] [--seed 1] [--only KIND,KIND] [--keep FOLDER]
                         [--applies] [--sites processes]

With `--sites processes` each site is a process of its own, which is killed too.

With `--applies` somebody adds and removes contracts all the time. Promises are then not judged, since most views are
being loaded; what counts is that every service starts, no command ends with an error of ours, and the rows are right.

Ends with status 1 if a view differs from its query, a recovery takes longer than 30 s, or a promise is broken that no
kill explains.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.kills_applies import Applier
from bench.kills_watch import AROUND_S, Episode, Watch, elsewhere, episodes
from bench.kills_world import KINDS, OF_SPARK, World, world
from bench.workloads.posts_and_people import DATABASES, Writer

RECOVERED_WITHIN_S = 30.0
STARTED_WITHIN_S = 300.0
SETTLED_WITHIN_S = 180.0
FOUND_WITHIN_S = 30.0


@dataclass
class Kill:
    """`at` is in seconds since 1970, infinite recovery is none before the next kill."""

    kind: str
    pid: int
    at: float
    recovery_s: float = float("inf")
    worst: tuple[float, str] = (0.0, "")

    def line(self, started: float) -> str:
        share, whose = self.worst
        lag = f"largest lag {100 * share:.0f} % of its promise ({whose})" if whose else ""
        what = f"{self.at - started:7.1f} s  {self.kind:15} pid {self.pid:<7}"
        known = self.recovery_s < float("inf")
        again = f"well again after {self.recovery_s:4.1f} s" if known else "not well before the next"
        return f"{what} {again}, {lag}"


@dataclass
class Findings:
    kills: list[Kill]
    unexplained: list[Episode]
    episodes: int
    written: dict[str, int]
    audit: dict[str, Any]
    faults: list[str] = field(default_factory=list)
    judged: bool = True
    """Whether it matters how soon the project is well again."""

    @property
    def unequal(self) -> list[str]:
        return [str(one["contract"]) for one in self.audit["recompute"] if not one["equal"]]

    def wrong(self) -> Iterator[str]:
        for kill in self.kills:
            if self.judged and kill.recovery_s > RECOVERED_WITHIN_S:
                yield f"{kill.kind} (pid {kill.pid}): not well again within {RECOVERED_WITHIN_S:g} s"
        for name in self.unequal:
            yield f"the view of {name} is not equal to its query"
        if len(self.audit["recompute"]) < len(self.audit["contracts"]):
            yield "not all views could be compared with their queries"
        yield from self.faults
        for one in self.unexplained if self.judged else ():
            yield f"{one.contract} was late without a kill in the {AROUND_S:g} s before"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    count = max(1, round(options.minutes * 60 / options.every))
    print(
        f"{count} kills, one every {options.every:g} s, {options.rate:g} transactions/s in each of {len(DATABASES)}"
        f" databases, seed {options.seed}, {os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left then either
    with world(options.engine, options.sites) as here:
        try:
            found = _run(here, options, count)
        finally:
            if options.keep is not None:
                here.stop()
                shutil.copytree(here.root, options.keep, dirs_exist_ok=True)
    wrong = list(found.wrong())
    print(*_table(found), *wrong, sep="\n")
    sys.exit(1 if wrong else 0)


def _run(here: World, options: argparse.Namespace, count: int) -> Findings:
    chance = random.Random(options.seed)
    watch = Watch(here.folder.root / "status.json")
    writers = [Writer(name, one.dsn(), options.rate, options.seed) for name, one in here.servers.items()]
    began = time.monotonic()
    here.start()
    watch.start()
    if not watch.wait_until_well(STARTED_WITHIN_S):
        raise RuntimeError(f"the project does not run: {here.output.read_text()}")
    print(f"all views are there after {time.monotonic() - began:.1f} s", flush=True)
    applier = Applier(here, options.seed)
    for one in (*writers, *([applier] if options.applies else [])):
        one.start()
    time.sleep(options.every / 2)
    started, kills = time.time(), list[Kill]()
    for kind in _chosen(chance, options.only, count):
        kills.append(_kill(here, watch, chance, kind, options.every))
        print(kills[-1].line(started), flush=True)
        if (said := here.read_ended()) is not None:
            applier.faults.append(f"the service ended: {said}")
            print(applier.faults[-1], flush=True)
            here.start()
    for one in (*writers, applier):
        one.stop()
    if options.applies:
        watch.wait_until_well(SETTLED_WITHIN_S)
        applier.apply_all()
        print(f"{applier.applied} plans were applied", flush=True)
    watch.wait_until_well(SETTLED_WITHIN_S)
    watch.stop()
    watch.write(here.root / "looks")
    late = list(episodes(look for look in watch.looks if look.at >= started))
    audit = _audit(here)
    written = {one.database: one.written for one in writers}
    for writer in writers:
        if writer.error is not None:
            raise RuntimeError(f"nobody could write to {writer.database}: {writer.error}")
    unexplained = elsewhere(late, [kill.at for kill in kills])
    return Findings(kills, unexplained, len(late), written, audit, applier.faults, not options.applies)


def _chosen(chance: random.Random, kinds: tuple[str, ...], count: int) -> Iterator[str]:
    """In any order, but none again before each was once."""
    left: list[str] = []
    for _ in range(count):
        left = left or chance.sample(kinds, len(kinds))
        yield left.pop()


def _kill(here: World, watch: Watch, chance: random.Random, kind: str, every_s: float) -> Kill:
    """Kills, and looks on until it is time for the next. What is not there yet after the kill before is waited for."""
    until = time.monotonic() + FOUND_WITHIN_S
    while not (found := here.find(kind)) and time.monotonic() < until:
        time.sleep(0.05)
    if not found:
        print(f"there is no {kind} to be killed, so the service is", flush=True)
        kind, found = "service", here.find("service")
    kill = Kill(kind, chance.choice(found), time.time())
    here.kill(kind, kill.pid)
    time.sleep(max(0.0, kill.at + every_s * chance.uniform(0.9, 1.1) - time.time()))
    until = time.time()
    kill.recovery_s, kill.worst = watch.recovery_s(kill.at, until), watch.worst(kill.at, until)
    return kill


def _audit(here: World) -> dict[str, Any]:
    """Promises were broken, so its status is 1; what counts is what it compared."""
    answer = here.command("audit", str(here.project), "--recompute", "--json")
    found: dict[str, Any] = json.loads(answer.stdout)
    if "recompute" not in found:
        raise RuntimeError(f"the views could not be compared with their queries: {answer.stdout}{answer.stderr}")
    return found


def _table(found: Findings) -> Iterator[str]:
    yield f"\n{'killed':16} {'times':>5} {'well again after at most':>25}"
    for kind in KINDS:
        took = [kill.recovery_s for kill in found.kills if kill.kind == kind]
        if took:
            yield f"{kind:16} {len(took):5} {max(took):23.1f} s"
    rows = ", ".join(f"{count} in {name}" for name, count in found.written.items())
    equal = len(found.audit["recompute"]) - len(found.unequal)
    yield f"transactions written: {rows}"
    yield f"views equal to their queries: {equal} of {len(found.audit['contracts'])}"
    without = len(found.unexplained)
    yield f"promises broken: {found.episodes} times, {without} of them more than {AROUND_S:g} s after a kill"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench kills", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds from one kill to the next, about")
    parser.add_argument("--rate", type=float, default=40.0, help="transactions per second in each database")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=_kinds, help=f"of {', '.join(KINDS)}")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    parser.add_argument("--sites", choices=("inside", "processes"), default="inside")
    parser.add_argument("--applies", action="store_true", help="add and remove contracts all the time")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copies the project with its logs there")
    options = parser.parse_args(arguments)
    absent = (*(() if options.engine == "spark" else OF_SPARK), *(() if options.sites == "processes" else ("site",)))
    options.only = options.only or tuple(kind for kind in KINDS if kind not in absent)
    return options


def _kinds(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(f'there is no "{unknown[0]}", only {", ".join(KINDS)}')
    return names


if __name__ == "__main__":
    main()
