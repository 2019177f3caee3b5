"""What do the modes of a wide area do on real links?

    headrace bench wide-area --real [--modes net sana ours] [--networks ample tight scarce changing] [--seconds 40] ...

Ten sites, each an agent in a network namespace of its own, with `tc` on every link; a coordinator with links that carry
everything. Twelve queries come one after the other by `headrace apply --wide-area MODE`, and some leave in the same way
when all is measured. Bytes are those that the kernel counts on each link. The throughput of a query is the rate of its
streams times the share of the time by which its view advances: 1 if it keeps up, less if its lag grows. Latency is by
event time, as `status` tells it. A query is interrupted if it kept its promise before another one came or went, and
then did not.

The model says what links carry and which share of each copy gets through, from the plan and from what sites have
measured of it: sizes of results, and bytes that a row takes on its way (`wide_area_model.py`).

On a network that changes, a link drops after a quarter of the time and is back after a half.

Contracts are forced where a mode has no room for them: other systems refuse nothing. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.sites_world import COORDINATOR, HEADRACE, SitesWorld
from bench.wide_area_lags import LagWatch, Turn, find_interrupted
from bench.wide_area_links import (
    DROPS,
    DROPS_TO,
    NETWORKS,
    Ends,
    RealNetwork,
    make_drawn_network,
    make_real_network,
    read_real_network,
)
from bench.wide_area_model import SENT_SHARE, predict_measured
from bench.wide_area_tables import PAPER, RealRun, network_lines, run_lines
from bench.workloads.wide_area_sql import (
    QUERIES,
    SITES,
    SOURCES,
    TweetWriter,
    WideRates,
    find_sources_of,
    read_texts,
    write_project,
)
from bench.world_of_sites import WorldOfSites, why_impossible
from headrace.coordinate.measured import read_measured

OURS = "ours"
MODES = ("default", "net", "mqo", "sana", "no-share", "strict-share", "max-share", OURS)
USUAL_MODES = ("default", "net", "max-share", "sana", OURS)
"""Each takes seven minutes or so, or three if all queries come together."""
STARTED_WITHIN_S, APPLIED_WITHIN_S, SETTLED_WITHIN_S = 600.0, 300.0, 60.0
LEAVE = 4
"""Queries that leave, one by one, the last that came first."""
GOES_OVER_LATER = "has not gone over to the plan"


@dataclass(frozen=True, slots=True)
class RealSettings:
    modes: Sequence[str] = USUAL_MODES
    networks: Sequence[str] = ("tight",)
    queries: Sequence[str] = tuple(QUERIES)
    pause_s: float = 10.0
    together: bool = False
    seconds: float = 60.0
    freshness: str = "6 s"
    tweets: float = 360.0
    posts: Path | None = None
    network: Path | None = None
    drawn: Sequence[int] = ()

    @property
    def rates(self) -> WideRates:
        return WideRates(self.tweets)


# Options


def add_real_options(parser: argparse.ArgumentParser) -> None:
    usual = RealSettings()
    parser.add_argument("--real", action="store_true", help="on real links, in network namespaces")
    parser.add_argument("--planned", action="store_true", help="what a model says of the plans for those links")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=usual.modes)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=usual.networks)
    parser.add_argument("--queries", nargs="+", choices=tuple(QUERIES), default=usual.queries)
    parser.add_argument("--network", type=Path, default=usual.network, help="a file with links, in place of --networks")
    parser.add_argument(
        "--drawn", type=int, nargs="+", default=usual.drawn, help="seeds of networks that are drawn, in place of them"
    )
    parser.add_argument("--pause", type=float, default=usual.pause_s, help="seconds between queries")
    parser.add_argument(
        "--together", action="store_true", help="all queries are there before the first tweet, and stay"
    )
    parser.add_argument("--seconds", type=float, default=usual.seconds, help="of measurement, for each mode")
    parser.add_argument("--freshness", default=usual.freshness, help="a time, or streaming")
    parser.add_argument("--tweets", type=float, default=usual.tweets, help="a second, at all sources together")
    parser.add_argument(
        "--posts", type=Path, default=usual.posts, help="a folder with tweets_*.parquet; without it texts are generated"
    )


def read_real_settings(options: argparse.Namespace) -> RealSettings:
    return RealSettings(
        options.modes,
        options.networks,
        options.queries,
        options.pause,
        options.together,
        options.seconds,
        options.freshness,
        options.tweets,
        options.posts,
        options.network,
        options.drawn,
    )


# Running


def run_real(settings: RealSettings) -> None:
    impossible = why_impossible()
    if impossible is not None:
        raise SystemExit(f"no networks can be made here: {impossible}")
    texts = [] if settings.posts is None else read_texts(settings.posts)
    print(f"{len(SITES)} sites, {settings.tweets:g} tweets/s at {len(SOURCES)} of them,", end=" ")
    print(f"{len(settings.queries)} queries {settings.pause_s:g} s apart,")
    print(f"freshness {settings.freshness}, {settings.seconds:g} s of measurement;", end=" ")
    print(f"texts: {f'{len(texts)} of real tweets' if texts else 'generated'};")
    print(f"{os.cpu_count()} cores that others use too")
    for network in find_networks(settings):
        runs: dict[str, RealRun] = {}
        for mode in settings.modes:
            runs[mode] = _run_mode(settings, network, mode, texts)
            print("\n".join(run_lines(network.name, mode, runs[mode])), flush=True)
        print("\n".join(network_lines(network.name, runs)), flush=True)
    for line in PAPER:
        print(line)


def find_networks(settings: RealSettings) -> list[RealNetwork]:
    if settings.network is not None:
        return [read_real_network(settings.network)]
    if settings.drawn:
        return [make_drawn_network(seed, settings.tweets) for seed in settings.drawn]
    return [make_real_network(name, settings.tweets) for name in settings.networks]


def _run_mode(settings: RealSettings, network: RealNetwork, mode: str, texts: Sequence[str]) -> RealRun:
    declared = {ends: size / SENT_SHARE for ends, size in network.rates.items()}
    with ExitStack() as ending:
        root = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="wide-")))
        links = WorldOfSites([COORDINATOR, *SITES], dict(network.latency_s) if network.delays else {})
        world = SitesWorld(root, ending.enter_context(links), {})
        for ends, size in network.rates.items():
            world.network.set_rate(*ends, size)
        os.environ["WIDE_DATA"] = str(root / "data")
        writer = TweetWriter(root / "data", settings.rates, texts)
        writer.make_folders()
        ending.callback(world.stop)
        about = declared, settings.rates, settings.freshness, None if mode == OURS else mode, network.latency_s
        there = list(settings.queries if settings.together else settings.queries[:1])
        write_project(world.project, there, *about)
        world.start(COORDINATOR)
        _wait(lambda: world.read_status(COORDINATOR) is not None, "the coordinator")
        for site in SITES:
            world.start(site)
        _wait(lambda: _is_joined(world), "the sites")
        _apply(world, there)
        _settle(world, there)
        ending.enter_context(writer)
        writing_since = time.monotonic()
        watch, turns = ending.enter_context(LagWatch(lambda: _contracts(world))), list[Turn]()

        def change(queries: Sequence[str]) -> None:
            """Lets queries come or go; the turn lasts until the pause after it is over."""
            began = time.monotonic()
            write_project(world.project, queries, *about)
            _apply(world, queries)
            _settle(world, queries)
            time.sleep(settings.pause_s)
            turns.append(Turn(began, time.monotonic(), frozenset(queries)))

        time.sleep(settings.pause_s)
        for number in range(len(there), len(settings.queries)):
            change(settings.queries[: number + 1])
        run = _measure(settings, world, network, writing_since)
        for gone in range(1, 0 if settings.together else min(LEAVE + 1, len(settings.queries))):
            change(settings.queries[:-gone])
        return replace(run, interrupted=find_interrupted(watch.samples, turns))


def _apply(world: SitesWorld, queries: Sequence[str]) -> None:
    """Has queries run, also those that a mode has no room for."""
    refused = _apply_forcing(world, ())
    if refused:
        _apply_forcing(world, refused)


def _apply_forcing(world: SitesWorld, forced: Sequence[str]) -> tuple[str, ...]:
    """Those that are refused. A site that cannot go over yet tries again by itself."""
    words = ["apply", str(world.project), "--json", *(word for name in forced for word in ("--force", name))]
    command = world.network.command(COORDINATOR, [*HEADRACE, *words])
    done = subprocess.run(command, env=world.environment, capture_output=True, text=True, timeout=APPLIED_WITHIN_S)
    if done.returncode in (0, 1) and done.stdout.startswith("{"):
        return tuple(one["contract"] for one in json.loads(done.stdout)["rejected"])
    if GOES_OVER_LATER not in done.stdout:
        logs = {site: world.folder_of(site).root / "service.log" for site in SITES}
        said = "".join(f"\n{site}:\n{_find_failure(log)}" for site, log in logs.items() if log.exists())
        raise RuntimeError(f"apply: {done.stdout[-2000:]}{done.stderr[-2000:]}{said}")
    return ()


def _is_joined(world: SitesWorld) -> bool:
    status = world.read_status(COORDINATOR)
    return status is not None and all(one["state"] == "running" for one in status["sites"])


def _settle(world: SitesWorld, queries: Sequence[str]) -> None:
    """Waits until all queries have rows, for a while: some may not get any."""
    end = time.monotonic() + SETTLED_WITHIN_S
    while time.monotonic() < end and not set(queries) <= _read_lags(world).keys():
        time.sleep(0.5)


def _find_failure(log: Path) -> str:
    """The last failure that a site has written down."""
    _, found, rest = log.read_text().rpartition("Traceback")
    return f"{found}{rest}"[:3000] if found else "nothing failed"


def _wait(holds: Any, what: str) -> None:
    end = time.monotonic() + STARTED_WITHIN_S
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(f"not within {STARTED_WITHIN_S:.0f} s: {what}")
        time.sleep(0.5)


def _contracts(world: SitesWorld) -> dict[str, dict[str, Any]]:
    status = world.read_status(COORDINATOR) or {"contracts": []}
    return {one["id"]: one for one in status["contracts"]}


def _measure(settings: RealSettings, world: SitesWorld, network: RealNetwork, writing_since: float) -> RealRun:
    time.sleep(settings.pause_s)
    lags, counted, began = _read_lags(world), _count(world), time.monotonic()
    if network.changes:
        time.sleep(settings.seconds / 4)
        world.network.set_rate(*DROPS, network.rates[DROPS] * DROPS_TO)
        time.sleep(settings.seconds / 4)
        world.network.set_rate(*DROPS, network.rates[DROPS])
        time.sleep(settings.seconds / 2)
    else:
        time.sleep(settings.seconds)
    passed_s, last, after = time.monotonic() - began, _read_lags(world), _count(world)
    known, status = _contracts(world), world.read_status(COORDINATOR) or {}
    folder = world.folder_of(COORDINATOR)
    running, measured = folder.running(), read_measured(folder)
    assert running is not None and measured is not None
    model = predict_measured(running, measured, network.rates, age_s=began + passed_s / 2 - writing_since)
    wanted = {name: sum(map(settings.rates.of, find_sources_of(name))) for name in settings.queries}
    throughput = dict.fromkeys(settings.queries, 0.0)
    for name in last:
        grown = last[name] - lags.get(name, last[name])
        throughput[name] = wanted[name] * min(1.0, max(0.0, 1.0 - grown / passed_s))
    return RealRun(
        sent={ends: (after[ends] - counted[ends]) / passed_s for ends in after},
        modelled=model.sent,
        throughput=throughput,
        predicted={name: wanted[name] * model.shares.get(name, 0.0) for name in settings.queries},
        latency_s={name: one["latency_s"] for name, one in known.items() if one.get("latency_s") is not None},
        interrupted=(),
        refused=tuple(one.contract for one in running.rejected),
        moves=len(status.get("moves", ())),
        answered=len(last),
    )


def _read_lags(world: SitesWorld) -> dict[str, float]:
    return {name: one["lag_s"] for name, one in _contracts(world).items() if one["lag_s"] is not None}


def _count(world: SitesWorld) -> dict[Ends, int]:
    return {(a, b): world.network.count_bytes(a, b) for a in SITES for b in SITES if a != b}
