"""What is stored and what it costs by the rules that others use, and by ours at no worse a latency.

    push-all     every feed is stored ahead
    pull-all     none is
    7 idle days  feeds of those who have read within seven days are stored ahead (Mastodon)
    celebrities  all producers are, but those with very many followers (the usual mixed rule)
    ours         each pair by rates and measured prices; thresholds below H / L for lower latency (section 3.3 of the
                 paper). Of these, each peer is compared with the cheapest whose p95 is no worse

Half of the consumers do not read any more, as in any network that has been there for a while: without them, seven days
would be the same as everybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from bench.feeds_calibrate import decide_by, find_prices
from bench.feeds_figures import Figure, Found
from bench.feeds_ratios import MEDIAN_RATIO
from bench.feeds_thresholds import store_above
from bench.feeds_ways import Load, Measured, Say, Turn, WaysWorld, extremes, measure_turns
from headrace.observe.feed_prices import FeedPrices
from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.instance import Feeds

IDLE_SHARE = 0.5
CELEBRITIES = 0.01
"""The share of producers, those with the most followers, that are pulled."""
QUICKER = (0.5, 0.25, 0.0)
"""Thresholds of ours, as parts of H / L, for lower latency than least cost."""
AS_QUICK = 1.05
PEERS = ("push-all", "pull-all", "7 idle days", "celebrities")


def compare_peers(world: WaysWorld, runs: int, reads: int, seed: int, given: FeedPrices | None, say: Say) -> Found:
    feeds = world.feeds
    rng = np.random.default_rng((seed, 9))
    idle = rng.random(len(feeds.query_rate)) < IDLE_SHARE
    query_rate = np.where(idle, 0.0, feeds.query_rate.near)
    load = Load("16", feeds.event_rate.near, query_rate, MEDIAN_RATIO)
    prices = find_prices(world, load, reads, given, say, len(PEERS) + 1 + len(QUICKER))
    ways = {**_rule_of_peers(feeds, idle), **_rule_ours(feeds, load, prices)}
    turns = [Turn(way, ahead, (load,)) for way, ahead in ways.items()]
    measured = measure_turns(world, turns, runs, reads, say)
    rows = {turn.way: crowd.entries for turn, crowd in zip(turns, world.crowds, strict=True)}
    ours = [way for way in ways if way not in PEERS]
    lines = [*_tell(measured, load, ways, rows, ours), *measured.tell_windows()]
    claims = tuple(_judge(measured, load, rows, ours))
    points = [(way, measured.median(load.at, way)) for way in ways]
    figure = Figure("peers", "", "processor seconds of a window", {"cost": points}, "(the paper compares the extremes)")
    return Found(tuple(lines), claims, (figure,), measured.wrong)


def _rule_of_peers(feeds: Feeds, idle: BoolArray) -> Mapping[str, BoolArray]:
    followers = np.bincount(feeds.producer, minlength=len(feeds.event_rate))
    famous = followers >= np.quantile(followers, 1 - CELEBRITIES)
    return {**extremes(feeds), "7 idle days": ~idle[feeds.consumer], "celebrities": ~famous[feeds.producer]}


def _rule_ours(feeds: Feeds, load: Load, prices: FeedPrices) -> Mapping[str, BoolArray]:
    """Least cost, and quicker ones; nothing is ever stored for those who do not read."""
    found = {"ours": decide_by(feeds, load, prices)}
    balance = prices.entry / max(prices.pull, 1e-9)
    reads = load.query_rate[feeds.consumer] > 0
    for part in QUICKER:
        found[f"ours x{part:g}"] = found["ours"] | (store_above(feeds, load, part * balance) & reads)
    return found


def _tell(
    measured: Measured, load: Load, ways: Mapping[str, BoolArray], rows: Mapping[str, int], ours: list[str]
) -> Iterator[str]:
    yield f"{'way':12} {'pairs ahead':>11} {'entries stored':>14} {'cpu':>8} {'spread':>12} {'p50':>8} {'p95':>8}"
    for way, ahead in ways.items():
        seconds = measured.seconds(load.at, way)
        yield (
            f"{way:12} {100 * ahead.mean():9.0f} % {rows[way]:14,} {measured.median(load.at, way):6.2f} s"
            f" {min(seconds):5.2f}..{max(seconds):.2f}"
            + "".join(f" {1000 * measured.latency_s(load.at, way, share):5.2f} ms" for share in (0.5, 0.95))
        )
    yield f"{IDLE_SHARE:.0%} of consumers do not read; x0.5 stores ahead from half of H / L on, and so forth"


def _judge(measured: Measured, load: Load, rows: Mapping[str, int], ours: list[str]) -> Iterator[tuple[str, bool]]:
    for peer in PEERS:
        allowed = AS_QUICK * measured.latency_s(load.at, peer, 0.95)
        able = [way for way in ours if measured.latency_s(load.at, way, 0.95) <= allowed]
        if not able:
            yield f"ours is as quick as {peer}", False
            continue
        best = min(able, key=lambda way: measured.median(load.at, way))
        _, shares = measured.compare(load.at, best, [peer])
        cost = float(np.median(shares))
        yield (
            f'"{best}" is as quick as {peer} for {cost:.2f} times the cost ({min(shares):.2f} to {max(shares):.2f}),'
            f" with {rows[best]:,} entries instead of {rows[peer]:,}",
            cost <= 1.03,
        )
