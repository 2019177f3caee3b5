"""What do the modes of a wide area do on real links?

    headrace bench wide-area --real [--modes net sana ours] [--networks ample tight changing] [--seconds 40] ...

Six sites, each an agent in a network namespace of its own, with `tc` on every link; a coordinator with links that carry
everything. Twelve queries come one group after the other by `headrace apply --wide-area MODE`. On narrow links all of
them are there before the first tweet: one that comes later starts from the tweets of an hour, which such a link cannot
bring. Bytes are those that the kernel counts on each link. The throughput of a query is the rate of its streams times
the share of the time by which its view advances: 1 if it keeps up, less if its lag grows. Latency is by event time, as
`status` tells it.

The model says what links carry and which share of each copy gets through, from the plan document of each mode. How many
bytes are sent for one that is planned is measured in the first run and holds for all others.

Contracts are forced where a mode has no room for them: other systems refuse nothing. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.sites_world import COORDINATOR, HEADRACE, SitesWorld
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
from headrace.plan.wide_area.fluid import max_min_fair

Ends = tuple[str, str]
OURS = "ours"
MODES = ("default", "net", "mqo", "sana", "no-share", "strict-share", "max-share", OURS)
NETWORKS = ("ample", "tight", "changing")
STARTED_WITHIN_S, APPLIED_WITHIN_S, SETTLED_WITHIN_S = 240.0, 300.0, 60.0
GOES_OVER_LATER = "has not gone over to the plan"
AMPLE = 2e6
STREAM = 36_000.0
"""Bytes/s that a copy of a whole stream of tweets takes at 30 a second; other rates scale."""
DROPS, DROPS_TO = ("ohio", "virginia"), 0.3
SENT_SHARE = 0.8
"""Bytes sent for each that is planned, until it is measured."""

PAPER = (
    "paper (14 sites, 6000-8000 tweets/s): throughput Sana +44 % of Default, +16 % of NET (+21 % in the mean over",
    "  queries), +26 % of MQO, +35 % of Max-Share, +78 % of No-Share, +37 % of Strict-Share; bandwidth -33 % of NET",
)


@dataclass(frozen=True, slots=True)
class RealSettings:
    modes: Sequence[str] = MODES
    networks: Sequence[str] = NETWORKS
    queries: Sequence[str] = tuple(QUERIES)
    groups: int = 3
    pause_s: float = 2.0
    seconds: float = 40.0
    freshness: str = "6 s"
    tweets: float = 30.0
    posts: Path | None = None

    @property
    def rates(self) -> WideRates:
        return WideRates(self.tweets)


@dataclass(frozen=True, slots=True)
class RealRun:
    """Of one mode on one network: bytes/s by link, records/s, mean latency and longest lag of queries."""

    sent: Mapping[Ends, float]
    planned: Mapping[Ends, float]
    throughput: Mapping[str, float]
    predicted: Mapping[str, float]
    latency_s: Mapping[str, float]
    interrupted: tuple[str, ...]
    refused: tuple[str, ...]
    moves: int
    answered: int
    """Contracts of which `status` knew how they were."""

    @property
    def total(self) -> float:
        return sum(self.throughput.values())

    @property
    def bytes_s(self) -> float:
        return sum(self.sent.values())


def make_rates(network: str, tweets: float) -> dict[Ends, float]:
    """Bytes/s that `tc` lets through, by link.

    On the tight one, a whole stream of tweets fits once over each link that leaves a source, and little more; the link
    that Ireland has to Tokyo is too narrow for even one, so that whoever shares what is there waits for it.
    """
    rates = {(a, b): AMPLE for a in SITES for b in SITES if a != b}
    if network == "ample":
        return rates
    stream = STREAM * tweets / 30.0
    factors = {"virginia": 1.9, "london": 1.6, "tokyo": 1.3}
    for source in SOURCES:
        for site, factor in factors.items():
            rates[source, site] = factor * stream
    rates["ireland", "tokyo"] = 0.5 * stream
    return rates


# Options


def add_real_options(parser: argparse.ArgumentParser) -> None:
    usual = RealSettings()
    parser.add_argument("--real", action="store_true", help="on real links, in network namespaces")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=usual.modes)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=usual.networks)
    parser.add_argument("--queries", nargs="+", choices=tuple(QUERIES), default=usual.queries)
    parser.add_argument("--groups", type=int, default=usual.groups, help="queries arrive in so many groups")
    parser.add_argument("--pause", type=float, default=usual.pause_s, help="seconds between groups (10 in the paper)")
    parser.add_argument("--seconds", type=float, default=usual.seconds, help="of measurement, for each mode")
    parser.add_argument("--freshness", default=usual.freshness, help="a time, or streaming")
    parser.add_argument("--tweets", type=float, default=usual.tweets, help="a second, at each source")
    parser.add_argument(
        "--posts", type=Path, default=usual.posts, help="a folder with tweets_*.parquet; without it texts are generated"
    )


def read_real_settings(options: argparse.Namespace) -> RealSettings:
    return RealSettings(
        options.modes,
        options.networks,
        options.queries,
        options.groups,
        options.pause,
        options.seconds,
        options.freshness,
        options.tweets,
        options.posts,
    )


# Running


def run_real(settings: RealSettings) -> None:
    impossible = why_impossible()
    if impossible is not None:
        raise SystemExit(f"no networks can be made here: {impossible}")
    texts = [] if settings.posts is None else read_texts(settings.posts)
    print(
        f"{len(SITES)} sites, {settings.tweets:g} tweets/s at each of {len(SOURCES)},"
        f" {len(settings.queries)} queries in"
    )
    print(f"{settings.groups} groups, freshness {settings.freshness}, {settings.seconds:g} s of measurement;")
    print(
        f"texts: {f'{len(texts)} of real tweets' if texts else 'generated'}; {os.cpu_count()} cores that others use too"
    )
    share = SENT_SHARE
    for network in settings.networks:
        runs: dict[str, RealRun] = {}
        for mode in settings.modes:
            runs[mode] = _run_mode(settings, network, mode, texts, share)
            planned = sum(runs[mode].planned.values())
            if network == settings.networks[0] and mode == settings.modes[0] and planned:
                share = runs[mode].bytes_s / planned
                print(f"bytes sent for each that is planned: {share:.2f}")
            _print_run(network, mode, runs[mode], share)
        _print_network(network, runs)
    for line in PAPER:
        print(line)


def _run_mode(settings: RealSettings, network: str, mode: str, texts: Sequence[str], share: float) -> RealRun:
    rates = make_rates("tight" if network == "changing" else network, settings.tweets)
    declared = {ends: size / share for ends, size in rates.items()}
    with ExitStack() as ending:
        root = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="wide-")))
        world = SitesWorld(root, ending.enter_context(WorldOfSites([COORDINATOR, *SITES])), {})
        for ends, size in rates.items():
            world.network.set_rate(*ends, size)
        os.environ["WIDE_DATA"] = str(root / "data")
        writer = TweetWriter(root / "data", settings.rates, texts)
        writer.make_folders()
        ending.callback(world.stop)
        first, *others = split_queries(settings.queries, settings.groups if network == "ample" else 1)
        about = declared, settings.rates, settings.freshness, None if mode == OURS else mode
        write_project(world.project, first, *about)
        world.start(COORDINATOR)
        _wait(lambda: world.read_status(COORDINATOR) is not None, "the coordinator")
        for site in SITES:
            world.start(site)
        _wait(lambda: _is_joined(world), "the sites")
        _apply(world, first)
        _settle(world, first)
        ending.enter_context(writer)
        interrupted, there = set[str](), list(first)
        for group in others:
            time.sleep(settings.pause_s)
            before = _find_kept(world)
            there += group
            write_project(world.project, there, *about)
            _apply(world, there)
            _settle(world, there)
            interrupted |= before - _find_kept(world)
        return _measure(settings, world, network, mode, share, rates, tuple(sorted(interrupted)))


def split_queries(queries: Sequence[str], groups: int) -> list[list[str]]:
    size = -(-len(queries) // groups)
    return [list(queries[start : start + size]) for start in range(0, len(queries), size)]


def _apply(world: SitesWorld, queries: Sequence[str]) -> None:
    """Has queries run that a mode has no room for. A site that cannot go over yet tries again by itself."""
    words = ["apply", str(world.project), "--json", *(word for name in queries for word in ("--force", name))]
    command = world.network.command(COORDINATOR, [*HEADRACE, *words])
    done = subprocess.run(command, env=world.environment, capture_output=True, text=True, timeout=APPLIED_WITHIN_S)
    if done.returncode not in (0, 1):
        logs = {site: world.folder_of(site).root / "service.log" for site in SITES}
        said = "".join(f"\n{site}:\n{_find_failure(log)}" for site, log in logs.items() if log.exists())
        if GOES_OVER_LATER not in done.stdout:
            raise RuntimeError(f"apply: {done.stdout[-2000:]}{done.stderr[-2000:]}{said}")


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


def _find_kept(world: SitesWorld) -> set[str]:
    return {name for name, one in _contracts(world).items() if one["state"] == "kept"}


def _measure(
    settings: RealSettings,
    world: SitesWorld,
    network: str,
    mode: str,
    share: float,
    rates: Mapping[Ends, float],
    interrupted: tuple[str, ...],
) -> RealRun:
    time.sleep(settings.pause_s)
    lags, counted, began = _read_lags(world), _count(world), time.monotonic()
    if network == "changing":
        time.sleep(settings.seconds / 4)
        world.network.set_rate(*DROPS, rates[DROPS] * DROPS_TO)
        time.sleep(settings.seconds * 3 / 4)
    else:
        time.sleep(settings.seconds)
    passed_s, last, after = time.monotonic() - began, _read_lags(world), _count(world)
    known = _contracts(world)
    plan = json.loads((world.project / ".headrace" / "plan.json").read_text())
    status = world.read_status(COORDINATOR) or {}
    throughput, predicted = dict[str, float](), predict_shares(plan, rates, share)
    for name in settings.queries:
        wanted = sum(settings.rates.of(stream) for stream in find_sources_of(name))
        if name in last:
            grown = last[name] - lags.get(name, last[name])
            throughput[name] = wanted * min(1.0, max(0.0, 1.0 - grown / passed_s))
        else:
            throughput[name] = 0.0
        predicted[name] = wanted * predicted.get(name, 0.0)
    return RealRun(
        sent={ends: (after[ends] - counted[ends]) / passed_s for ends in after},
        planned={_ends(link): float(size) for link, size in plan["totals"].get("link", {}).items()},
        throughput=throughput,
        predicted={name: predicted[name] for name in settings.queries},
        latency_s={name: one["latency_s"] for name, one in known.items() if one.get("latency_s") is not None},
        interrupted=interrupted,
        refused=tuple(one["contract"] for one in plan["rejected"]),
        moves=len(status.get("moves", ())),
        answered=len(last),
    )


def _read_lags(world: SitesWorld) -> dict[str, float]:
    return {name: one["lag_s"] for name, one in _contracts(world).items() if one["lag_s"] is not None}


def _count(world: SitesWorld) -> dict[Ends, int]:
    return {(a, b): world.network.count_bytes(a, b) for a in SITES for b in SITES if a != b}


def _ends(link: str) -> Ends:
    src, _, dst = link.partition(">")
    return src, dst


def predict_shares(plan: Mapping[str, Any], rates: Mapping[Ends, float], share: float) -> dict[str, float]:
    """Of each contract the share that gets through: the least over its copies, which share links fairly."""
    sites = {one["id"]: one["site"] for one in plan["vertices"]}
    flows: dict[Ends, dict[tuple[str, ...], float]] = {}
    for edge in plan["edges"]:
        if edge["op"] == "copy":
            ends = sites[edge["in"][0]], sites[edge["out"]]
            flows.setdefault(ends, {})[edge["id"],] = edge["bytes_per_s"] * share
    achieved = {
        key: got / wanted[key] if wanted[key] else 1.0
        for ends, wanted in flows.items()
        for key, got in max_min_fair(wanted, rates[ends]).items()
    }
    found = {one["id"]: 1.0 for one in plan["contracts"]}
    for edge in plan["edges"]:
        for contract in edge["serves"] if (edge["id"],) in achieved else ():
            found[contract] = min(found[contract], achieved[edge["id"],])
    return found


# Telling


def _print_run(network: str, mode: str, run: RealRun, share: float) -> None:
    predicted = sum(run.predicted.values())
    planned = sum(run.planned.values()) * share
    late = f"; interrupted: {', '.join(run.interrupted)}" if run.interrupted else ""
    refused = f"; refused: {', '.join(run.refused)}" if run.refused else ""
    latency = statistics.mean(run.latency_s.values()) if run.latency_s else float("nan")
    print(
        f"{network:9} {mode:13} {run.total:7.0f} records/s (model {predicted:5.0f})"
        f" {run.bytes_s / 1e3:7.1f} kB/s (model {planned / 1e3:6.1f}) latency {latency:5.1f} s"
        f" of {len(run.latency_s):2}, {run.moves} moves{late}{refused}",
        flush=True,
    )


def _print_network(network: str, runs: Mapping[str, RealRun]) -> None:
    for base in (name for name in ("net", "sana", "max-share") if name in runs):
        print(f"{network}, ratios to {base}:", end="")
        for mode, run in runs.items():
            mean = statistics.mean(
                run.throughput[name] / one if one else 1.0 for name, one in runs[base].throughput.items()
            )
            bytes_share = run.bytes_s / runs[base].bytes_s if runs[base].bytes_s else 0.0
            total = run.total / runs[base].total if runs[base].total else 0.0
            print(f"  {mode} {total:.2f}/{mean:.2f}/{bytes_share:.2f}", end="")
        print("   (total / mean over queries / bytes)")
    print(flush=True)
