"""What `plan` and `why` tell people and programs about feeds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import asdict

from headrace.doors.cli.output import table, wrap
from headrace.model import amounts
from headrace.model.catalogue import Catalogue
from headrace.model.explanation import WhyFeed, WhyPair
from headrace.model.feed_names import name_stored
from headrace.model.feed_plan import FeedPlan, PlannedPrices
from headrace.model.plan import Plan

HOUR_S = 3600.0


def feed_lines(plan: Plan) -> Iterator[str]:
    """Feeds that are kept, in a table; those that are refused, each with why."""
    kept = [feed for feed in plan.feeds if feed.reason is None]
    if kept:
        head = ["feed", "freshness", "a push takes", "stored ahead"]
        yield from table([_tell_kept(plan, feed) for feed in kept], indent=0, head=head)
        yield ""
    refused = [feed for feed in plan.feeds if feed.reason is not None]
    if refused:
        yield "refused"
        for feed in refused:
            yield from refused_feed_lines(feed, plan)
        yield ""


def refused_feed_lines(feed: FeedPlan, plan: Plan) -> Iterator[str]:
    freshness = amounts.format_seconds(plan.catalogue.feeds[feed.feed].freshness_s)
    yield from wrap(f"feed at {feed.site} within {freshness}", f"  {feed.feed}  ", "    ")
    yield from wrap(feed.detail, "    because ", "      ")
    if feed.smallest_staleness_s is not None:
        offer = amounts.format_seconds_up(feed.smallest_staleness_s)
        yield from wrap(f"a freshness of {offer} or more could be kept", "    instead ", "      ")


def _tell_kept(plan: Plan, feed: FeedPlan) -> list[str]:
    stored = next(one for one in plan.contracts if one.contract == name_stored(feed.feed))
    takes, batch = amounts.format_seconds(stored.critical_path_s), amounts.format_seconds(stored.batch_s)
    return [
        f"{feed.feed} at {feed.site}",
        amounts.format_seconds(plan.catalogue.feeds[feed.feed].freshness_s),
        f"{takes} of {batch}",
        f"{feed.ahead:.0%} of {_round(feed.statistics.pairs)} pairs",
    ]


def store_rows(plan: Plan) -> list[list[str]]:
    """What the stores of feeds take, beside what the plan takes at sites."""
    kept = (feed for feed in plan.feeds if feed.reason is None)
    return [
        [f"store of {feed.feed}", f"{_round(feed.store_cpu)} cores", amounts.format_bytes(feed.store_bytes)]
        for feed in kept
    ]


def _name_store(catalogue: Catalogue, feed: FeedPlan) -> str:
    declared = catalogue.feeds[feed.feed]
    return declared.store if declared.address is None else f"{declared.store} elsewhere"


def _round(number: float) -> str:
    """Nobody needs more than three digits of an estimate."""
    return amounts.format_count(float(f"{number:.3g}"))


def why_feed_text(plan: Plan, answer: WhyFeed) -> Iterator[str]:
    feed, now = answer.plan, answer.plan.statistics
    if feed.reason is not None:
        yield f'feed "{feed.feed}" is refused'
        yield from refused_feed_lines(feed, plan)
    else:
        where = f"{feed.site} within {amounts.format_seconds(answer.freshness_s)} is kept"
        yield from wrap(where, f'feed "{feed.feed}": ', "  ")
        yield f"  money {amounts.format_number(float(f'{answer.money * HOUR_S:.4g}'))} $/h planned, without its store"
        taken, limit = amounts.format_seconds(answer.path_s or 0.0), amounts.format_seconds(answer.limit_s or 0.0)
        yield from wrap(f"{limit} of changes take {taken} to be stored ahead, of {limit} allowed", "  ", "    ")
    yield f"planned with {_say_origin(feed.prices)}"
    reads = "not known" if now.reads_s is None else amounts.format_rate(now.reads_s).replace("row", "read")
    size = amounts.format_bytes(feed.store_bytes)
    rows = [
        ["pairs", f"{_round(now.pairs)}: {_round(now.consumers)} consumers, {_round(now.producers)} producers"],
        ["events", f"{_round(now.events_s)}/s, each for {_round(now.followers)} consumers"],
        ["reads", f"{reads}, each of {_round(now.follows)} producers"],
        ["stored ahead", _say_share(answer)],
        ["a page", f"{amounts.format_seconds(feed.page_s)}, pulls {_round(feed.pulls)} producers"],
        ["store", f"{_name_store(plan.catalogue, feed)}, {_round(feed.store_cpu)} cores, {size}"],
        ["H, L", _say_prices(feed.prices)],
    ]
    yield from table(rows)
    for contract in plan.contracts:
        if contract.contract in feed.contracts:
            yield from wrap(f"{amounts.format_seconds(contract.critical_path_s)} for a push", f"view {contract.view}: ")


def _say_share(answer: WhyFeed) -> str:
    feed = answer.plan
    said = f"{feed.ahead:.0%} of pairs, {_round(feed.entries_s)} entries/s"
    if feed.statistics.reads_s is None:
        return f"{said}: nobody said how often pages are read, so the plan provides for the most"
    if feed.ahead < answer.wanted:
        return f"{said}: its store has no room for more"
    if feed.ahead == answer.least and answer.least > 0.0:
        return f"{said}: as many as the latency target asks for"
    return f"{said}: what costs least"


def _say_origin(prices: PlannedPrices) -> str:
    return "prices that were calibrated" if prices.calibrated else "prices that are assumed until the feed runs"


def _say_prices(prices: PlannedPrices) -> str:
    return (
        f"{amounts.format_seconds(prices.store_s)} to store an event, {amounts.format_seconds(prices.fetch_s)} to fetch"
    )


def why_pair_text(answer: WhyPair) -> Iterator[str]:
    way = "stored ahead" if answer.stored_ahead else "on read"
    yield from wrap(f'feed "{answer.feed}": what "{answer.producer}" posts for "{answer.consumer}" is {way}', "", "  ")
    yield from wrap(answer.because, "  because ", "    ")
    rates, known = answer.rates, "measured" if answer.rates.measured else "the mean of all"
    reads = "not known" if rates.reads_s is None else f"{_round(rates.reads_s * HOUR_S)}/h, {known}"
    yield from table(
        [
            ["events", f"{_round(rates.events_s * HOUR_S)}/h, {known}"],
            ["reads", reads],
            ["H, L", _say_prices(answer.prices)],
            ["", _say_origin(answer.prices)],
            *_say_decided(answer),
        ]
    )


def _say_decided(answer: WhyPair) -> Iterator[list[str]]:
    """What is known only of a pair that runs."""
    rates = answer.rates
    if rates.since_s is not None:
        since = dt.datetime.fromtimestamp(rates.since_s, dt.UTC).replace(tzinfo=None).isoformat(timespec="seconds")
        yield ["since", f"{since}Z at the latest"]
    if rates.threshold is not None:
        yield ["tau", f"{_round(rates.threshold)}: from this score on, pairs are stored ahead for latency"]
    if rates.is_shed:
        yield ["late", f"the store was late, so {answer.producer} is read for now"]


def why_feed_document(answer: WhyFeed) -> dict[str, object]:
    feed = answer.plan
    return {
        "kind": "feed",
        "feed": feed.feed,
        "kept": feed.reason is None,
        "reason": feed.reason,
        "detail": feed.detail or None,
        "freshness_s": answer.freshness_s,
        "critical_path_s": answer.path_s,
        "limit_s": answer.limit_s,
        "money_h": answer.money * HOUR_S,
        "stored_ahead_share": feed.ahead,
        "wanted_share": answer.wanted,
        "least_share": answer.least,
        "statistics": asdict(feed.statistics),
        "prices": asdict(feed.prices),
        "page_s": feed.page_s,
        "pulls_per_read": feed.pulls,
        "entries_s": feed.entries_s,
    }


def why_pair_document(answer: WhyPair) -> dict[str, object]:
    return {
        "kind": "pair",
        "feed": answer.feed,
        "consumer": answer.consumer,
        "producer": answer.producer,
        "decision": "push" if answer.stored_ahead else "pull",
        "because": answer.because,
        "rates": asdict(answer.rates),
        "prices": asdict(answer.prices),
        "store_cost_h": answer.stored_cost_h,
        "read_cost_h": answer.read_cost_h,
    }
