"""What a running feed does when some producers suddenly say much more: Feeding Frenzy, section 5.5, figure 10.

    --flash   0.1 % of the quieter producers post a hundred times as often, and get 85 followers more each
    --burst   the same with real events: those around the announcement of the Higgs boson on Twitter, made faster

The service decides by itself. No event may be lost, and when it has decided again the feed should cost what it did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bench.feeds_figures import Figure, Found
from bench.feeds_live import COMPARED, LiveWorld, Rates, Segment, join_segments, start_loaded
from bench.feeds_said import name_pairs
from bench.feeds_table2 import check_at_end, tell_segment, tell_store
from bench.feeds_ways import Say
from bench.workloads.follows import with_flash
from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.instance import Feeds, Model, Pricing

RATIO = 64.0
"""Queries per event: so many that quiet producers are stored ahead, or a flash would meet nobody who was."""
FASTER, MORE_FOLLOWERS, SHARE = 100.0, 85, 0.001
SLICE_S = 10.0
WARM_S, BEFORE_S, FLASH_S = 90.0, 60.0, 180.0
ADAPTED_WITHIN_S = 120.0
COST_AFTER, P95_MS = 1.1, 100.0

HIGGS = Path(__file__).resolve().parents[2] / "shared" / "data" / "posts" / "higgs_twitter_activity.parquet"
"""Where activity (src, dst, ts) is looked for, beside the checkout, if nobody says where it is."""
HOURS = 12
"""Around the hour with the most events."""
PEAK_EVENTS_S = 60.0
"""In the busiest slice, at size 1; the hours are made as much faster as that takes."""
PEOPLE = 20_000
"""Accounts with the most followers, at size 1."""


def run_flash(world: LiveWorld, feeds: Feeds, reads_s: float, seconds: float | None, seed: int, say: Say) -> Found:
    """`seconds` are those of the flash."""
    start_loaded(world, feeds, say)
    calm = Rates(reads_s / RATIO, reads_s, feeds.event_rate.near, feeds.query_rate.near)
    warm_s, before_s, flash_s = (WARM_S, BEFORE_S, FLASH_S) if seconds is None else (seconds, seconds, seconds)
    run_slices(world, calm, warm_s, say, "warming up", seed)
    before = run_slices(world, calm, before_s, say, "before", seed + 100)
    flashing = with_flash(np.random.default_rng((seed, 10)), feeds, FASTER, max(SHARE, 3 / len(feeds.event_rate)))
    known = set(name_pairs(feeds))
    louder = [f"p{one}" for one in np.flatnonzero(flashing.event_rate.near > feeds.event_rate.near).tolist()]
    ahead = [world.count_ahead(louder)]
    world.follow([pair for pair in name_pairs(flashing) if pair not in known])
    more = flashing.event_rate.near.sum() / feeds.event_rate.near.sum()
    busy = Rates(calm.events_s * more, reads_s, flashing.event_rate.near, feeds.query_rate.near)
    during = run_slices(world, busy, flash_s, say, "flash", seed + 200)
    ahead.append(world.count_ahead(louder))
    wrong = check_at_end(world, [*before, *during])
    lines = [
        f"{len(louder)} of {len(feeds.event_rate):,} producers post {FASTER:g} times as often, with {MORE_FOLLOWERS}"
        f" followers more each; {calm.events_s:.1f} to {busy.events_s:.1f} events/s, {reads_s:g} reads/s",
        *_tell_phases(before, during),
        f"pairs of these producers that are stored ahead: {ahead[0]} before, {ahead[1]} at the end"
        + ("" if ahead[0] else ": nothing could be shed, since nothing paid to be stored"),
        tell_store(world),
        f"{COMPARED} pages were compared at the end, none of {world.said.kept:,} events may be missing",
    ]
    return Found(tuple(lines), tuple(_judge(before, during, wrong)), (_draw(before, during),), tuple(wrong))


def run_slices(world: LiveWorld, rates: Rates, seconds: float, say: Say, phase: str, seed: int) -> list[Segment]:
    slices = []
    for number in range(max(1, round(seconds / SLICE_S))):
        slices.append(world.run(rates, min(seconds, SLICE_S), seed + number))
        say(f"{phase} {SLICE_S * (number + 1):4.0f} s: {tell_segment(slices[-1])}, {_count_ahead(world)} pairs ahead")
    return slices


def _count_ahead(world: LiveWorld) -> str:
    return f"{world.sizes().stored_ahead:,}"


def _split(during: Sequence[Segment]) -> tuple[Segment, Segment]:
    """The first part of a flash, and what is left after it was to be over."""
    slices = max(1, min(len(during) - 1, round(ADAPTED_WITHIN_S / SLICE_S)))
    return join_segments(during[:slices]), join_segments(during[slices:] or during[-1:])


def _tell_phases(before: Sequence[Segment], during: Sequence[Segment]) -> Iterator[str]:
    first, after = _split(during)
    phases = {"before": join_segments(before), "flash": first, "decided again": after}
    cost = phases["before"].cores
    yield f"{'':14} {'cores':>6} {'of before':>9} {'p50':>9} {'p95':>9} {'pulled':>7}"
    for name, one in phases.items():
        yield (
            f"{name:14} {one.cores:6.2f} {one.cores / cost:9.2f} {one.latency_ms(0.5):6.1f} ms"
            f" {one.latency_ms(0.95):6.1f} ms {100 * one.pulled_share:5.0f} %"
        )
    spread = [one.cores / cost for one in before]
    yield f"slices of {SLICE_S:g} s before: {min(spread):.2f} to {max(spread):.2f} of their mean"
    yield "paper: a jump, then nearly back to before (figure 10)"


def _judge(before: Sequence[Segment], during: Sequence[Segment], wrong: Sequence[str]) -> Iterator[tuple[str, bool]]:
    first, after = _split(during)
    cost = after.cores / join_segments(before).cores
    yield f"at most 1.1 times the cost of before within 2 min: {cost:.2f}", cost <= COST_AFTER
    yield "no event is lost", not wrong
    p95 = max(first.latency_ms(0.95), after.latency_ms(0.95))
    yield f"p95 at most {P95_MS:g} ms, twice the target of Table 2's load: {p95:.1f} ms", p95 <= P95_MS


def _draw(before: Sequence[Segment], during: Sequence[Segment]) -> Figure:
    cost = join_segments(before).cores
    points = [(SLICE_S * (at - len(before)), 100 * one.cores / cost) for at, one in enumerate([*before, *during])]
    return Figure(
        "flash", "seconds from the flash on", "cost, % of before", {"cores": points},
        "a jump, then nearly back to before\n(figure 10, no numbers)",
    )  # fmt: skip


# A real burst


def run_burst(
    world: LiveWorld, feeds: Feeds, posts: Sequence[tuple[float, str]], reads_s: float, slice_s: float, say: Say
) -> Found:
    """`posts` are seconds from the beginning on, and producers."""
    start_loaded(world, feeds, say)
    rates = Rates(0.0, reads_s, feeds.event_rate.near, feeds.query_rate.near)
    slices, counts = list[Segment](), list[int]()
    number = 0
    while number * slice_s <= posts[-1][0]:
        some = [(at - number * slice_s, who) for at, who in posts if 0 <= at - number * slice_s < slice_s]
        slices.append(world.run(rates, slice_s, number, some))
        counts.append(len(some))
        number += 1
        say(f"slice {number:3}: {len(some) / slice_s:5.1f} events/s, {tell_segment(slices[-1])}")
    wrong = check_at_end(world, slices)
    peak = int(np.argmax(counts))
    before = join_segments(slices[: max(1, peak - 1)])
    whole = join_segments(slices)
    calm_s, peak_s = sum(counts[: max(1, peak - 1)]) / before.seconds, counts[peak] / slices[peak].seconds
    lines = [f"{'slice':>6} {'events/s':>8} {'p50':>9} {'p95':>9} {'cores':>6} {'behind, 95 %':>12}"]
    lines += [
        f"{at + 1:6} {count / one.seconds:8.1f} {one.latency_ms(0.5):6.1f} ms {one.latency_ms(0.95):6.1f} ms"
        f" {one.cores:6.2f} {np.quantile(one.lags_s, 0.95) if one.lags_s else float('nan'):10.1f} s"
        for at, (one, count) in enumerate(zip(slices, counts, strict=True))
    ]
    lines.append(
        f"{calm_s:.1f} events/s before, {peak_s:.1f} at the peak; cores {before.cores:.2f} and"
        f" {slices[peak].cores:.2f}; {COMPARED} pages were compared at the end"
    )
    claims = (
        ("no event is lost", not wrong),
        (f"pages within freshness: {100 * whole.kept:.1f} %", whole.kept >= 0.99),
        (f"p95 at the peak at most {P95_MS:g} ms: {slices[peak].latency_ms(0.95):.1f} ms",
         slices[peak].latency_ms(0.95) <= P95_MS),
    )  # fmt: skip
    points = {"events/s": [(at + 1, count / slice_s) for at, count in enumerate(counts)]}
    points["p95, ms"] = [(at + 1, one.latency_ms(0.95)) for at, one in enumerate(slices)]
    figure = Figure("burst", "slice", "", points, "(the paper makes its flash up)")
    return Found(tuple(lines), claims, (figure,), tuple(wrong))


def read_burst(activity: Path, size: float, seconds: float, seed: int) -> tuple[Feeds, list[tuple[float, str]]]:
    """Who follows whom and who posts when, from real activity around the announcement of the Higgs boson.

    Whoever retweets, mentions or answers somebody follows them; whatever anybody does is an event of theirs. The most
    followed accounts are taken, and the hours around the peak become so many `seconds`; of more events than
    `PEAK_EVENTS_S` in a second, a part is drawn.
    """
    found = pq.read_table(activity)
    who, whom, at = (found.column(name).to_numpy() for name in ("src", "dst", "ts"))
    chosen = np.argsort(-np.bincount(whom), kind="stable")[: max(20, round(size * PEOPLE))]
    place = np.full(int(max(who.max(), whom.max())) + 1, -1)
    place[chosen] = np.arange(len(chosen))
    followed = (place[whom] >= 0) & (who != whom)
    # As many readers for each producer as Table 2 has: those who follow most.
    readers = np.sort(np.argsort(-np.bincount(who[followed]), kind="stable")[: 3 * len(chosen)])
    followed &= np.isin(who, readers)
    consumer = np.searchsorted(readers, who[followed])
    keys = np.unique(consumer.astype(np.int64) * len(chosen) + place[whom[followed]])
    feeds = _make_feeds(keys // len(chosen), keys % len(chosen), len(readers), len(chosen))
    return feeds, _choose_posts(place[who], at, seconds, seed)


def _choose_posts(
    producer: np.ndarray[Any, Any], at: np.ndarray[Any, Any], seconds: float, seed: int
) -> list[tuple[float, str]]:
    hour = (at - at.min()) // 3600
    peak = int(np.argmax(np.bincount(hour)))
    start = int(at.min()) + 3600 * max(0, peak - HOURS // 2)
    chosen = (producer >= 0) & (at >= start) & (at < start + 3600 * HOURS)
    due = (at[chosen] - start) * seconds / (3600 * HOURS)
    busiest = np.bincount(due.astype(np.int64)).max()
    kept = np.random.default_rng(seed).random(len(due)) < PEAK_EVENTS_S / max(PEAK_EVENTS_S, busiest)
    rows = sorted(zip(due[kept].tolist(), producer[chosen][kept].tolist(), strict=True))
    return [(when, f"p{number}") for when, number in rows]


def _make_feeds(consumer: np.ndarray[Any, Any], producer: np.ndarray[Any, Any], readers: int, writers: int) -> Feeds:
    return Feeds(
        Amounts(np.ones(writers)),
        Amounts(np.ones(readers)),
        Amounts.constant(Fraction(1), writers),
        Amounts.constant(Fraction(1), writers),
        consumer.astype(np.int32),
        producer.astype(np.int32),
        Pricing(Model.RPC),
    )
