"""The paper's Table 2 on a running project: how quick pages are, how fresh, and how many events a machine can fan out.

--table2     67,921 producers, 200,000 consumers, 1,020,458 pairs; 19 events and 322 reads a second
--capacity   everything is stored ahead, and 500 events a second go to 15 followers each, or as many as are asked for
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from bench.cpu import cpu_since, processes
from bench.feeds_figures import Figure, Found
from bench.feeds_live import (
    COMPARED,
    FRESHNESS_S,
    POST_EVERY_S,
    LiveWorld,
    Rates,
    Segment,
    join_segments,
    quantile,
    start_loaded,
)
from bench.feeds_ways import Say, WaysWorld
from bench.workloads.follows import CONSUMERS, EVENTS_PER_HOUR, PRODUCERS, QUERIES_PER_HOUR, draw
from headrace.plan.feeds.instance import Feeds

EVENTS_S, READS_S = PRODUCERS * EVENTS_PER_HOUR / 3600, CONSUMERS * QUERIES_PER_HOUR / 3600
SEGMENT_S = 30.0
P50_MS, P95_MS, KEPT = 15.0, 50.0, 0.999
LOADED_S = 600.0
CAPACITY_EVENTS_S = 500.0


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


def run_capacity(world: WaysWorld, seconds: float, events_s: float, seed: int, say: Say) -> Found:
    """Nobody else decides what is stored ahead, and nobody reads: a feed would store nothing ahead for nobody."""
    feeds = world.feeds
    began = time.monotonic()
    world.store_ahead(np.ones(len(feeds), np.bool_))
    say(f"{len(feeds):,} pairs are stored ahead after {time.monotonic() - began:.1f} s")
    rng = np.random.default_rng((seed, 15))
    producers = [f"p{one}" for one in draw(rng, feeds.event_rate.near, round(seconds * events_s)).tolist()]
    before, began = processes(), time.monotonic()
    lags = _write_on(world, producers, events_s)
    wrote_s = time.monotonic() - began
    world.post([])
    drained_s = time.monotonic() - began - wrote_s
    cores = cpu_since(before) / (wrote_s + drained_s)
    followers = np.bincount(feeds.producer, minlength=len(feeds.event_rate))
    entries = int(sum(followers[int(one[1:])] for one in producers))
    late, every = max(lag for at, lag in lags if at > wrote_s / 2), [lag for _, lag in lags]
    per_core = entries / (wrote_s + drained_s) / cores
    wrong = world.compare([f"c{one}" for one in rng.choice(len(feeds.query_rate), COMPARED).tolist()])
    sizes = world.sizes()
    lines = (
        f"{len(producers) / wrote_s:.0f} events/s x {entries / len(producers):.1f} followers for {wrote_s:.0f} s:"
        f" {entries / wrote_s:,.0f} entries/s on {cores:.2f} cores, {per_core:,.0f} entries/s for each core",
        f"behind: {quantile(every, 0.5):.1f} s, 95 % at most {quantile(every, 0.95):.1f} s, in the second half at most"
        f" {late:.1f} s; all was there {drained_s:.1f} s after the last event",
        f"store: {sizes.entries:,} entries, {(sizes.bytes or 0) / 1e6:,.0f} MB",
    )
    claims = (
        (f"{events_s:g} events/s are written as they come: {len(producers) / wrote_s:.0f}",
         len(producers) / wrote_s >= 0.97 * events_s),
        (f"at most {FRESHNESS_S:g} s behind in the second half: {late:.1f} s", late <= FRESHNESS_S),
    )  # fmt: skip
    figure = Figure("capacity", "seconds", "s behind", {"lag": lags}, "(not in the paper)")
    return Found(lines, claims, (figure,), (f"{wrong} pages are not what they must be",) if wrong else ())


def _write_on(world: WaysWorld, producers: Sequence[str], events_s: float) -> list[tuple[float, float]]:
    """Writes events when they are due; how far behind the store was, by seconds from the beginning on."""
    began, done, lags = time.monotonic(), 0, list[tuple[float, float]]()
    while done < len(producers):
        at = time.monotonic() - began
        due = min(len(producers), int(at * events_s))
        if due > done:
            world.write_events(producers[done:due])
            done = due
        lags.append((at, world.lag_s))
        time.sleep(POST_EVERY_S)
    return lags


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
