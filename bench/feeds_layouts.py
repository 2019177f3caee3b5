"""What does a feed cost in PostgreSQL as it is stored now, next to another version of Headrace?

Both run the trial that measures a feed's prices (`run/feeds/trial.py`), each with its own code, in one PostgreSQL and
in turns: rounds of the same windows, so that whatever else happens on the machine meets both. Prices are fitted as for
a feed that runs (`observe/feed_prices.py`), from readers with 5, 15 and 50 producers stored ahead or on read, at 3 and
20 events of each producer. Then the prices are put on the load of Feeding Frenzy's Table 2: cores for a thousand reads
a second when all is stored ahead, nothing, or what costs less for each pair.

    python -m bench.feeds_layouts --against COMMIT [--rounds 12] [--limit 20]

The other version's `src` is taken from git; without --against, only the one that is here is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

DEPTHS = (3, 20)
READERS = ((5, 0), (15, 0), (50, 0), (0, 5), (0, 15), (0, 50), (15, 15), (5, 50))
RATIOS = (1, 4, 16, 64)
READS_A_SECOND = 1_000.0
ROOT = Path(__file__).parent.parent


# In a process of its own, with one version's code


def serve_trial(dsn: str, feed: str, depth: int, limit: int) -> None:
    """Runs a round for every line that comes in, and answers with its windows."""
    from headrace.connect.files import FileStore
    from headrace.connect.postgres.feed_target import PostgresFeedTarget
    from headrace.model.feed_prices import FeedShape
    from headrace.run.feeds import trial
    from headrace.run.feeds.page import PageRules

    trial.READERS = READERS
    target = PostgresFeedTarget(dsn, "home", "bench", "v1").make_trial(feed)
    with tempfile.TemporaryDirectory() as folder:
        store, reader = target.open_store(1), target.open_reader()
        shape = FeedShape(depth, trial.FEWEST_QUIET, 0.0)
        run = trial.FeedTrial(target, store, reader, FileStore(Path(folder)), PageRules(limit), shape)
        run.fill()
        list(run.run_round(Random(0), trial._CountNothing()))  # opens sessions, and warms them up
        meter = target.open_meter()
        assert meter is not None, "the sessions of the store must be seen"
        for line in sys.stdin:
            windows = run.run_round(Random(int(line)), trial._CountProcessor(meter))
            print(json.dumps([{name: getattr(one, name) for name in one.__slots__} for one in windows]), flush=True)
        store.drop()


# Next to each other


@contextmanager
def open_trial(source: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The trial of one version; it ends with its input."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(source), str(ROOT)))}
    command = [sys.executable, "-m", "bench.feeds_layouts", "--serve", *words]
    with subprocess.Popen(
        command, env=environment, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def run_round(process: subprocess.Popen[str], number: int) -> list[dict[str, Any]]:
    assert process.stdin is not None and process.stdout is not None
    print(number, file=process.stdin, flush=True)
    windows: list[dict[str, Any]] = json.loads(process.stdout.readline())
    return windows


def run_in_turns(dsn: str, sources: Mapping[str, Path], depth: int, limit: int, rounds: int) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name in sources}
    with ExitStack() as stack:
        trials = {
            name: stack.enter_context(open_trial(source, dsn, f"trial~{name}", str(depth), str(limit)))
            for name, source in sources.items()
        }
        for number in range(rounds):
            for name in sorted(trials, reverse=bool(number % 2)):
                found[name] += run_round(trials[name], number)
    return found


def fit(windows: Sequence[Mapping[str, Any]]) -> Any:
    from headrace.observe.feed_prices import FeedWork, fit_prices

    work = [({name: one[name] for name in FeedWork.__slots__}, one["seconds"]) for one in windows]
    return fit_prices([(FeedWork(**counts), seconds) for counts, seconds in work])


@contextmanager
def take_source(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder) / "src"


# On the load of Table 2


def price_load(prices: Any, ratio: float) -> tuple[float, float, float, float]:
    """Cores when all is stored ahead, nothing, and whatever costs less for each pair; and the share of these pairs."""
    import numpy as np

    from bench.workloads.follows import Skew, make_follows, with_ratio

    feeds = with_ratio(make_follows(np.random.default_rng(1), Skew(), 0.1), ratio)
    reads, events = feeds.query_rate.near, feeds.event_rate.near
    second = READS_A_SECOND / reads.sum()
    ahead = second * (prices.entry * events[feeds.producer] + prices.found * reads[feeds.consumer])
    on_read = second * (prices.pull + prices.found) * reads[feeds.consumer]
    base = second * (prices.read * reads.sum() + prices.event * events.sum())
    pulling = second * prices.batch * reads

    def add(stored: Any) -> float:
        pulls = np.zeros(len(reads), dtype=bool)
        pulls[feeds.consumer[~stored]] = True
        return float(base + ahead[stored].sum() + on_read[~stored].sum() + pulling[pulls].sum())

    cheaper = ahead < on_read
    everything = np.ones(len(cheaper), dtype=bool)
    return add(everything), add(~everything), add(cheaper), float(cheaper.mean())


def tell_prices(name: str, depth: int, prices: Any) -> str:
    shown = "".join(f"{1e6 * price:>8.1f} ± {1e6 * error:<5.1f}" for price, error in prices.named.values())
    return f"{name:>8} {depth:>6}{shown}{1e6 * prices.found:>8.1f}"


def compare(dsn: str, sources: Mapping[str, Path], rounds: int, limit: int) -> None:
    print(f"pages of {limit}, {rounds} rounds in turns, us of a core in the database and its client, standard errors")
    print(" version events              H               L              L0            read           event   found")
    all_prices = {}
    for depth in DEPTHS:
        for name, windows in run_in_turns(dsn, sources, depth, limit, rounds).items():
            all_prices[name, depth] = fit(windows)
            print(tell_prices(name, depth, all_prices[name, depth]), flush=True)
            for stored, pulled in READERS:
                some = [
                    one
                    for one in windows
                    if one["reads"] and (one["found"], one["pulls"]) == (one["reads"] * stored, one["reads"] * pulled)
                ]
                took = sorted(1e6 * one["seconds"] / one["reads"] for one in some)
                print(
                    f"           a read of {stored:>2} stored ahead, {pulled:>2} on read: {took[len(took) // 2]:>6.0f}"
                )
    print(f"\ncores for {READS_A_SECOND:,.0f} reads a second of a tenth of Table 2, seed 1")
    print(" version events   queries per event   all ahead   all on read   by pair   of pairs stored ahead")
    for (name, depth), prices in all_prices.items():
        for ratio in RATIOS:
            every, none, hybrid, share = price_load(prices, ratio)
            print(f"{name:>8} {depth:>6} {ratio:>19} {every:>11.2f} {none:>13.2f} {hybrid:>9.2f} {share:>23.0%}")


def main() -> None:
    from bench.feeds_follows import open_database

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="a version to compare with")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve is not None:
        dsn, feed, depth, limit = asked.serve
        serve_trial(dsn, feed, int(depth), int(limit))
        return
    with ExitStack() as stack:
        sources = {"here": ROOT / "src"}
        if asked.against is not None:
            sources[asked.against[:7]] = stack.enter_context(take_source(asked.against))
        compare(stack.enter_context(open_database()), sources, asked.rounds, asked.limit)


if __name__ == "__main__":
    main()
