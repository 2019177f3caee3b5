"""Does the controller of a running feed meet a latency target, and what does it cost to move pairs or whole consumers?

The first part runs `headrace up` with the target declared, at eight queries per event as in figure 8 of Feeding Frenzy,
and shows every window in which the service decides again (30 s). The second part stores ahead what saves a share of all
pulls at the least cost, once pair by pair and once by whole consumers, and measures both (`bench/feeds_ways.py`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from bench.feeds_calibrate import find_prices, price_feeds
from bench.feeds_figures import Figure, Found
from bench.feeds_live import COMPARED, LiveWorld, Rates, Segment, start_loaded
from bench.feeds_model import fewer_pulls
from bench.feeds_table2 import SEGMENT_S, check_at_end, tell_segment
from bench.feeds_ways import Load, Measured, Say, Turn, WaysWorld, measure_turns
from headrace.declare.units import DURATION, read_amount
from headrace.observe.feed_prices import FeedPrices
from headrace.plan.feeds.decide import decide
from headrace.plan.feeds.instance import Feeds
from headrace.plan.feeds.latency import LatencyMethod

RATIO = 8.0
WINDOWS = 10
"""Within which the target must be met."""
PULLS_SAVED = 0.6
RULES = {"per pair": LatencyMethod.GREEDY, "per consumer": LatencyMethod.WHOLESALE}


def read_target(text: str) -> tuple[str, float]:
    """`p95=20ms` as a percentile and seconds. Raises ValueError for anything else."""
    name, _, limit = text.partition("=")
    if not (name == "mean" or name.startswith("p")) or not limit:
        raise ValueError("a target is written as p95=20ms")
    return name, read_amount(limit, DURATION)


def share_of(name: str) -> float:
    return 0.5 if name == "mean" else float(name.removeprefix("p")) / 100


def follow_target(
    world: LiveWorld, feeds: Feeds, target: tuple[str, float], seconds: float, reads_s: float, say: Say
) -> Found:
    name, limit_s = target
    start_loaded(world, feeds, say)
    rates = Rates(reads_s / RATIO, reads_s, feeds.event_rate.near, feeds.query_rate.near)
    segments: list[Segment] = []
    ahead: list[int] = []
    for number in range(max(1, round(seconds / SEGMENT_S))):
        segments.append(world.run(rates, min(seconds, SEGMENT_S), number))
        ahead.append(world.sizes().stored_ahead)
        say(f"window {number + 1:3}: {tell_segment(segments[-1])}, {ahead[-1]:,} of {len(feeds):,} pairs ahead")
    wrong = check_at_end(world, segments)
    reached = [1000 * limit_s - one.latency_ms(share_of(name)) for one in segments]
    return Found(
        tuple(_tell(segments, ahead, name, limit_s)),
        tuple(_judge(reached, name, limit_s)),
        (_draw(segments, ahead, len(feeds), name, limit_s),),
        tuple(wrong),
    )


def _tell(segments: Sequence[Segment], ahead: Sequence[int], name: str, limit_s: float) -> Iterator[str]:
    yield f"{'window':>6} {'p50':>9} {'p95':>9} {'cores':>6} {'ahead':>9}"
    for number, (one, stored) in enumerate(zip(segments, ahead, strict=True), 1):
        yield (f"{number:6} {one.latency_ms(0.5):6.1f} ms {one.latency_ms(0.95):6.1f} ms {one.cores:6.2f} {stored:9,}")
    first = segments[0].latency_ms(share_of(name))
    if first <= 1000 * limit_s:
        yield (
            f"{name} was {first:.1f} ms before anything was stored for latency: a target below that tells more"
            " (times over HTTP; the service goes by those of its pages alone)"
        )
    yield f"{COMPARED} pages were compared at the end"


def _judge(reached: Sequence[float], name: str, limit_s: float) -> Iterator[tuple[str, bool]]:
    met = next((number for number, left in enumerate(reached) if left >= 0), None)
    told = "never" if met is None else f"in window {met + 1}"
    yield f"{name} of {1000 * limit_s:g} ms is met within {WINDOWS} windows: {told}", met is not None and met < WINDOWS
    after = reached[met:] if met is not None else []
    held = sum(left >= 0 for left in after) / max(1, len(after))
    yield f"it is held in all of the {len(after)} windows from then on: in {100 * held:.0f} %", held == 1.0


def _draw(segments: Sequence[Segment], ahead: Sequence[int], pairs: int, name: str, limit_s: float) -> Figure:
    numbers = range(1, len(segments) + 1)
    return Figure(
        "target",
        "window of 30 s",
        "ms, and % of pairs",
        {
            name: [(at, one.latency_ms(share_of(name))) for at, one in zip(numbers, segments, strict=True)],
            "target": [(at, 1000 * limit_s) for at in numbers],
            "pairs ahead, %": [(at, 100 * one / pairs) for at, one in zip(numbers, ahead, strict=True)],
        },
        "per pair is quicker than per consumer\nat the same cost (figure 8, no numbers)",
    )


def compare_rules(world: WaysWorld, runs: int, reads: int, given: FeedPrices | None, say: Say) -> Found:
    """The second part: the same share of pulls saved, pair by pair and by whole consumers."""
    feeds = world.feeds
    load = Load("8", feeds.event_rate.near, feeds.query_rate.near, RATIO)
    prices = find_prices(world, load, reads, given, say)
    priced = price_feeds(feeds, load, prices)
    target = fewer_pulls(PULLS_SAVED, priced)
    ways = {name: decide(priced, target, method).ahead for name, method in RULES.items()}
    measured = measure_turns(world, [Turn(way, ahead, (load,)) for way, ahead in ways.items()], runs, reads, say)
    lines = [f"{100 * PULLS_SAVED:.0f} % fewer pulls than at least cost, {RATIO:g} queries per event"]
    lines += [f"{'':12} {'ahead':>6} {'cpu':>8} {'spread':>12} {'mean':>8} {'p95':>8}"]
    for way, ahead in ways.items():
        lines.append(_tell_rule(measured, load, way, float(ahead.mean())))
    _, shares = measured.compare(load.at, "per pair", ["per consumer"])
    cost = statistics.median(shares)
    claim = f"per pair costs less than per consumer: {cost:.2f} times ({min(shares):.2f} to {max(shares):.2f})"
    return Found((*lines, *measured.tell_windows()), ((claim, cost < 1.0),), (), measured.wrong)


def _tell_rule(measured: Measured, load: Load, way: str, ahead: float) -> str:
    seconds = measured.seconds(load.at, way)
    mean = statistics.fmean(one for window in measured.find(load.at, way) for one in window.reads_s)
    return (
        f"{way:12} {100 * ahead:4.0f} % {measured.median(load.at, way):6.2f} s {min(seconds):5.2f}..{max(seconds):.2f}"
        f" {1000 * mean:5.2f} ms {1000 * measured.latency_s(load.at, way, 0.95):5.2f} ms"
    )
