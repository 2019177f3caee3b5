"""The paper's Table 2 on a running project: how quick pages are, how fresh, and how many events a machine can fan out.

--table2     67,921 producers, 200,000 consumers, 1,020,458 pairs; 19 events and 322 reads a second
--capacity   everything is stored ahead, and 500 events a second go to 15 followers each, or as many as are asked for
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from bench.feeds_figures import Figure, Found
from bench.feeds_live import (
    COMPARED,
    FRESHNESS_S,
    LiveWorld,
    Rates,
    Segment,
    join_segments,
    quantile,
    start_loaded,
)
from bench.feeds_said import name_pairs
from bench.feeds_ways import Say
from bench.workloads.follows import CONSUMERS, EVENTS_PER_HOUR, PRODUCERS, QUERIES_PER_HOUR
from headrace.plan.feeds.instance import Feeds
from headrace.site.sources.written import write_rows

EVENTS_S, READS_S = PRODUCERS * EVENTS_PER_HOUR / 3600, CONSUMERS * QUERIES_PER_HOUR / 3600
SEGMENT_S = 30.0
P50_MS, P95_MS, KEPT = 15.0, 50.0, 0.999
LOADED_S = 600.0
CAPACITY_EVENTS_S = 500.0
STORED_WITHIN_S = 600.0


def run_table2(world: LiveWorld, feeds: Feeds, seconds: float, events_s: float, reads_s: float, say: Say) -> Found:
    loaded_s, sizes = start_loaded(world, feeds, say)
    rates = Rates(events_s, reads_s, feeds.event_rate.near, feeds.query_rate.near)
    segments = run_segments(world, rates, seconds, say)
    wrong = check_at_end(world, segments)
    whole = join_segments(segments)
    lines = [*tell_segments(segments), tell_store(world), f"{COMPARED} pages were compared at the end"]
    claims = (
        (f"loaded within 10 min: {loaded_s:.0f} s for {sizes.pairs:,} pairs", loaded_s <= LOADED_S),
        (
            f"p50 at most 15 ms: {whole.latency_ms(0.5):.1f} ms (GetStream says 11 to 15)",
            whole.latency_ms(0.5) <= P50_MS,
        ),
        (f"p95 at most 50 ms: {whole.latency_ms(0.95):.1f} ms", whole.latency_ms(0.95) <= P95_MS),
        (f"pages at most {FRESHNESS_S:g} s behind, 99.9 %: {100 * whole.kept:.2f} %", whole.kept >= KEPT),
    )
    at = [SEGMENT_S * (number + 1) for number in range(len(segments))]
    figure = Figure(
        "table2", "seconds", "ms",
        {
            "p50": [(x, one.latency_ms(0.5)) for x, one in zip(at, segments, strict=True)],
            "p95": [(x, one.latency_ms(0.95)) for x, one in zip(at, segments, strict=True)],
        },
        "no latencies at this load are given",
    )  # fmt: skip
    return Found(tuple(lines), claims, (figure,), tuple(wrong))


def run_capacity(world: LiveWorld, feeds: Feeds, seconds: float, events_s: float, say: Say) -> Found:
    """Nobody reads, but for marked events: so the controller has no reason to store anything ahead, and everything that
    is stored was asked for here. What it takes back shows in the share that was written.
    """
    start_loaded(world, feeds, say)
    began = time.monotonic()
    stored = store_everything(world, feeds)
    say(f"{stored:,} of {len(feeds):,} pairs are stored ahead after {time.monotonic() - began:.1f} s")
    rates = Rates(events_s, 0.0, feeds.event_rate.near, feeds.query_rate.near)
    segments = []
    for number in range(max(1, round(seconds / SEGMENT_S))):
        segments.append(world.run(rates, min(seconds, SEGMENT_S), number))
        say(f"{SEGMENT_S * (number + 1):.0f} s: {_tell_lag(segments[-1])}, {world.sizes().stored_ahead:,} pairs ahead")
    wrong = check_at_end(world, segments)
    whole = join_segments(segments)
    still = world.sizes().stored_ahead / max(1, stored)
    followers = len(feeds) / len(feeds.event_rate)
    achieved = whole.posted / whole.seconds
    entries_s = achieved * followers * still
    lines = [
        f"{achieved:.0f} events/s x {followers:.1f} followers for {whole.seconds:.0f} s: {entries_s:,.0f} entries/s on"
        f" {whole.cores:.2f} cores ({entries_s / max(whole.cores, 1e-9):,.0f} entries/s for each core),"
        f" {100 * still:.0f} % of pairs still ahead at the end",
        _tell_lag(whole),
        tell_store(world),
    ]
    last = segments[-1]
    in_time = quantile(last.arrived_s, 0.99) <= FRESHNESS_S if last.arrived_s else False
    claims = (
        (f"{events_s:g} events/s are posted as they come: {achieved:.0f}", achieved >= 0.97 * events_s),
        (f"events can be read within {FRESHNESS_S:g} s in the last {SEGMENT_S:g} s", in_time),
    )
    at = [SEGMENT_S * (number + 1) for number in range(len(segments))]
    lag = [(x, quantile(one.arrived_s, 0.95)) for x, one in zip(at, segments, strict=True)]
    figure = Figure("capacity", "seconds", "s until an event can be read", {"p95": lag}, "(not in the paper)")
    return Found(tuple(lines), claims, (figure,), tuple(wrong))


def store_everything(world: LiveWorld, feeds: Feeds) -> int:
    """Writes that all pairs are stored ahead; how many are, once they are there."""
    plan = world.folder.running()
    assert plan is not None
    write_rows(world.folder, plan.catalogue.sources["home/decisions"], name_pairs(feeds))
    until = time.monotonic() + STORED_WITHIN_S
    while (stored := world.sizes().stored_ahead) < len(feeds) and time.monotonic() < until:
        time.sleep(1.0)
    return stored


def run_segments(world: LiveWorld, rates: Rates, seconds: float, say: Say, seed: int = 0) -> list[Segment]:
    """The load in segments, each told as soon as it is over."""
    segments = []
    for number in range(max(1, round(seconds / SEGMENT_S))):
        segments.append(world.run(rates, min(seconds, SEGMENT_S), seed + number))
        say(f"{SEGMENT_S * (number + 1):5.0f} s: {tell_segment(segments[-1])}")
    return segments


def tell_segment(one: Segment) -> str:
    return (
        f"p50 {one.latency_ms(0.5):.1f} ms, p95 {one.latency_ms(0.95):.1f} ms, {one.cores:.2f} cores,"
        f" {100 * one.pulled_share:.0f} % of entries pulled"
    )


def tell_segments(segments: Sequence[Segment]) -> Iterator[str]:
    whole = join_segments(segments)
    p95 = [one.latency_ms(0.95) for one in segments]
    yield f"{'':10} {'reads':>8} {'events':>8} {'p50':>9} {'p95':>9} {'p99':>9} {'behind':>8} {'cores':>6}"
    yield (
        f"{whole.seconds:8.0f} s {len(whole.reads_s) / whole.seconds:6.0f}/s {whole.posted / whole.seconds:6.1f}/s"
        + "".join(f" {whole.latency_ms(share):6.1f} ms" for share in (0.5, 0.95, 0.99))
        + f" {quantile(whole.lags_s, 0.95):6.1f} s {whole.cores:6.2f}"
    )
    yield f"p95 of {len(p95)} segments of {SEGMENT_S:g} s: {min(p95):.1f} to {max(p95):.1f} ms"
    yield _tell_lag(whole)


def _tell_lag(whole: Segment) -> str:
    if not whole.arrived_s:
        return "no event was marked"
    return (
        f"{len(whole.arrived_s)} marked events could be read {quantile(whole.arrived_s, 0.5):.1f} s after they were"
        f" posted, 95 % within {quantile(whole.arrived_s, 0.95):.1f} s, {100 * whole.arrived_in_time:.0f} % within"
        f" {FRESHNESS_S:g} s"
    )


def tell_store(world: LiveWorld) -> str:
    sizes = world.sizes()
    return (
        f"store: {sizes.pairs:,} pairs, {sizes.stored_ahead:,} of them ahead, {sizes.entries:,} entries,"
        f" {sizes.events:,} events, {(sizes.bytes or 0) / 1e6:,.0f} MB, {world.count_sessions()} sessions"
    )


def check_at_end(world: LiveWorld, segments: Sequence[Segment]) -> list[str]:
    """What is wrong after everything that was posted has arrived."""
    chosen = np.random.default_rng(3).choice(sorted(world.said.follows), COMPARED)
    wrong = [line for one in segments for line in one.wrong] + world.compare(chosen.tolist())
    events = world.sizes().events
    if events != world.said.kept:
        wrong.append(f"{world.said.kept:,} events must be kept, {events:,} are in the store")
    return wrong[:5] + ([f"and {len(wrong) - 5} more"] if len(wrong) > 5 else [])
