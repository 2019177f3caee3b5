"""A feed as part of a plan: three ordinary views with their promises, and one vertex for the family of all its pairs.

    events, follows, decisions --expand_feeds--> views home/newest, home/pairs, home/stored, each with a contract
    a plan with these contracts --judge_feed--> FeedPlan: the load on sites, links and store; or why it is refused

`home/decisions` is a source without a database: the service writes it, and what it holds decides what is stored ahead.
A feed is kept as a whole or not at all. It is refused if one of its views cannot be as fresh as it promises, if even a
page that is stored ahead completely takes longer than the latency target, or if there is no room for its store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from headrace.model.amounts import format_bytes, format_number, format_seconds
from headrace.model.block import Derivation, DerivationKind
from headrace.model.catalogue import (
    Catalogue,
    Contract,
    Feed,
    MeasuredSize,
    Refresh,
    Refusal,
    Source,
    SourceColumn,
    View,
)
from headrace.model.feed_names import (
    API_EVENTS,
    API_FOLLOWS,
    feed_of,
    name_decisions,
    name_newest,
    name_pairs,
    name_stored,
)
from headrace.model.feed_plan import FeedPlan, FeedStatistics, PlannedPrices
from headrace.model.plan import Plan, Rejection
from headrace.model.relation import fields_of
from headrace.model.types import STRING
from headrace.model.written_source import make_written_source
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.feeds.load import choose_share, find_most_pulls, find_prices, find_statistics, measure_load
from headrace.plan.feeds.relations import CONSUMER, PRODUCER, FeedRelations, read_rows, relations_of
from headrace.plan.live import Live
from headrace.plan.price import Promise, tariff_of
from headrace.plan.share.arrangement import collect_graph
from headrace.plan.sizes import Sizes

SECONDS_PER_WEEK = 604_800.0
"""A pair is assumed to change sides once a week, until that is measured."""

FITTINGS = 4
"""How often a feed is planned again with fewer pairs stored ahead, to make room for its store."""

MakePlan = Callable[[Catalogue], Plan]


def plan_with_feeds(declared: Catalogue, make: MakePlan) -> Plan:
    """The plan of a catalogue, feeds included. A feed without a site is left out."""
    planned = {name: feed for name, feed in declared.feeds.items() if feed.site}
    shares = {name: _choose_first_share(feed, declared) for name, feed in planned.items()}
    for _ in range(FITTINGS):
        expanded = expand_feeds(declared, shares)
        plan = make(expanded)
        fitted = {name: _fit_share(feed, plan, shares[name]) for name, feed in planned.items()}
        if fitted == shares:
            break
        shares = fitted
    found = [judge_feed(feed, plan, shares) for feed in planned.values()]
    refused = {one.feed: one for one in found if one.reason is not None}
    if not refused:
        return replace(plan, feeds=tuple(found))
    kept = {name: one for name, one in expanded.contracts.items() if feed_of(name, refused) is None}
    again = make(replace(expanded, contracts=kept))
    rejected = (rejection for one in found if one.reason is not None for rejection in _reject_parts(one, plan))
    return replace(
        again,
        catalogue=expanded,
        rejected=(*again.rejected, *rejected),
        feeds=tuple(one if one.feed in refused else judge_feed(planned[one.feed], again, shares) for one in found),
    )


def settle_feeds(declared: Catalogue, make: MakePlan) -> tuple[Catalogue, tuple[FeedPlan, ...]]:
    """The catalogue with the relations of all feeds that can be kept, and the feeds that cannot.

    Its feeds are planned like any other contract from then on: on what runs, too.
    """
    if not any(feed.site for feed in declared.feeds.values()):
        return declared, ()
    found = plan_with_feeds(declared, make).feeds
    refused = tuple(one for one in found if one.reason is not None)
    return expand_feeds(declared, {one.feed: one.ahead for one in found if one.reason is None}), refused


def describe_feeds(plan: Plan) -> tuple[FeedPlan, ...]:
    """The feeds whose views are among the contracts of a plan, as they are planned in it."""
    parts = plan.catalogue.contracts
    feeds = [feed for feed in plan.catalogue.feeds.values() if feed.site and name_stored(feed.name) in parts]
    shares = {feed.name: _find_share(feed, plan.catalogue) for feed in feeds}
    return tuple(judge_feed(feed, plan, shares) for feed in feeds)


def _find_share(feed: Feed, catalogue: Catalogue) -> float:
    pairs = find_statistics(feed, catalogue).pairs
    return min(1.0, (catalogue.sources[name_decisions(feed.name)].rows or 0.0) / pairs) if pairs else 1.0


# What is added to the catalogue


def expand_feeds(declared: Catalogue, shares: Mapping[str, float]) -> Catalogue:
    """The catalogue with the relations behind its feeds; `shares` of their pairs are stored ahead."""
    for name, ahead in shares.items():
        declared = _expand_feed(declared, declared.feeds[name], ahead)
    return declared


def _expand_feed(catalogue: Catalogue, feed: Feed, ahead: float) -> Catalogue:
    sources = {**catalogue.sources, **_make_api_sources(feed)}
    now = find_statistics(feed, replace(catalogue, sources=sources))
    follows = read_rows(replace(catalogue, sources=sources), feed.follows.source)
    types = (
        {} if isinstance(follows, Refusal) else {one.name.rpartition(".")[2]: one.type for one in fields_of(follows)}
    )
    columns = tuple(
        SourceColumn(name, types.get(column, STRING), distinct=distinct)
        for name, column, distinct in (
            (CONSUMER, feed.follows.consumer, now.consumers),
            (PRODUCER, feed.follows.producer, now.producers),
        )
    )
    decisions = _make_source(feed, name_decisions(feed.name), columns, (CONSUMER, PRODUCER))
    sources[decisions.name] = replace(decisions, rows=now.pairs * ahead, rate=now.pairs / SECONDS_PER_WEEK)
    wider = replace(catalogue, sources=sources)
    made = relations_of(feed, wider)
    queries = {
        name_newest(feed.name): made if isinstance(made, Refusal) else made.newest,
        name_pairs(feed.name): made if isinstance(made, Refusal) else made.pairs,
        name_stored(feed.name): made if isinstance(made, Refusal) else made.stored,
    }
    reads = (feed.events.source, feed.follows.source, decisions.name)
    views = {name: View(name, "", query, reads, (), feed.declared_at) for name, query in queries.items()}
    contracts = {name: _make_contract(feed, name) for name in queries}
    return replace(
        wider,
        views={**wider.views, **views},
        contracts={**wider.contracts, **contracts},
        sizes={**_estimate_sizes(feed, made, now, ahead), **wider.sizes},
    )


def _make_api_sources(feed: Feed) -> dict[str, Source]:
    """Sources for what people post, where a feed has no tables for it."""
    found = {}
    if feed.events.is_api:
        columns = tuple(SourceColumn(*one) for one in API_EVENTS.items())
        found[feed.events.source] = _make_source(feed, feed.events.source, columns, ("producer", "id"))
    if feed.follows.is_api:
        columns = tuple(SourceColumn(*one) for one in API_FOLLOWS.items())
        found[feed.follows.source] = _make_source(feed, feed.follows.source, columns, ("consumer", "producer"))
    return found


def _make_source(feed: Feed, name: str, columns: tuple[SourceColumn, ...], key: tuple[str, ...]) -> Source:
    return make_written_source(name, feed.site, columns, key, feed.declared_at)


def _make_contract(feed: Feed, view: str) -> Contract:
    return Contract(
        name=view,
        view=view,
        site=feed.site,
        freshness_s=feed.freshness_s,
        penalty=0.0,
        owner=None,
        deliver=None,
        refresh=Refresh.INCREMENTAL,
        declared_at=feed.declared_at,
    )


def _estimate_sizes(feed: Feed, made: FeedRelations | Refusal, now: FeedStatistics, ahead: float) -> Sizes:
    """What is known of a feed's blocks, and better than any estimate of the like.

    Follows that meet decisions would be next to none, since consumers and producers would count as independent. And a
    new event is always among the newest: it comes in, and pushes another out where all that are kept are there.
    """
    if isinstance(made, Refusal):
        return {}
    decisions, flips_s = name_decisions(feed.name), now.pairs / SECONDS_PER_WEEK
    found = {}
    for limit, query, name in (
        (feed.keep, made.newest, name_newest(feed.name)),
        (feed.shown, made.stored, name_stored(feed.name)),
    ):
        per_producer = now.events / now.producers
        newest = now.producers * min(limit, per_producer), now.events_s * (2.0 if per_producer >= limit else 1.0)
        for block in blocks_of(name, query):
            if isinstance(block.top, Derivation) and block.top.kind is DerivationKind.TOPK and block.top.limit == limit:
                found[block.fingerprint] = MeasuredSize(*newest, {decisions: flips_s}, assumed=True)
            elif block.top is not None and any(input_.source == decisions for input_ in block.inputs):
                found[block.fingerprint] = MeasuredSize(now.pairs * ahead, flips_s, {decisions: flips_s}, assumed=True)
    return found


# What becomes of a feed


def _choose_first_share(feed: Feed, declared: Catalogue) -> float:
    catalogue = replace(declared, sources={**declared.sources, **_make_api_sources(feed)})
    room = declared.sites[feed.site].disk_capacity if _is_store_here(feed) else None
    return choose_share(feed, find_statistics(feed, catalogue), find_prices(feed, catalogue), room)[0]


def _fit_share(feed: Feed, plan: Plan, ahead: float) -> float:
    """The share for which the store has room beside what else is at its site; never more than before."""
    capacity = plan.catalogue.sites[feed.site].disk_capacity
    if capacity is None or not _is_store_here(feed):
        return ahead
    room = max(0.0, capacity - plan.totals.disk.get(feed.site, 0.0))
    wanted, _ = choose_share(feed, find_statistics(feed, plan.catalogue), find_prices(feed, plan.catalogue), room)
    return min(ahead, wanted)


def judge_feed(feed: Feed, plan: Plan, shares: Mapping[str, float]) -> FeedPlan:
    """The feed in a plan that was made for its contracts; one that is refused says why."""
    now, prices = find_statistics(feed, plan.catalogue), find_prices(feed, plan.catalogue)
    load = measure_load(feed, now, prices, shares[feed.name])
    parts = tuple(name for name in plan.catalogue.contracts if feed_of(name, (feed.name,)))
    cpu, link, disk = _measure_views(plan, parts)
    if _is_store_here(feed):
        cpu[feed.site] = cpu.get(feed.site, 0.0) + load.cpu
        disk[feed.site] = disk.get(feed.site, 0.0) + load.size
    reason, detail = next(_find_refusals(feed, plan, prices, shares, parts), (None, ""))
    return FeedPlan(
        feed=feed.name,
        site=feed.site,
        vertex=f"f:{feed.name}@{feed.site}",
        contracts=parts,
        statistics=now,
        prices=prices,
        ahead=load.ahead,
        entries_s=load.entries_s,
        pulls=load.pulls,
        page_s=load.page_s,
        store_cpu=load.cpu,
        store_bytes=load.size,
        cpu=cpu,
        link=link,
        disk=disk,
        reason=reason,
        detail=detail,
        smallest_staleness_s=_find_offer(plan, parts),
    )


def _find_offer(plan: Plan, parts: tuple[str, ...]) -> float | None:
    """The freshness that all views of a feed that are refused could promise; None if some could promise none."""
    offers = [one.smallest_staleness_s for one in plan.rejected if one.contract in parts]
    known = [offer for offer in offers if offer is not None]
    return max(known, default=None) if len(known) == len(offers) else None


def _is_store_here(feed: Feed) -> bool:
    return feed.store == "postgres" and feed.address is None


def _measure_views(
    plan: Plan, parts: tuple[str, ...]
) -> tuple[dict[str, float], dict[tuple[str, str], float], dict[str, float]]:
    """What serves the views of a feed: cores and bytes at sites, bytes per second over links."""
    kept = [one for one in plan.contracts if one.contract in parts]
    promises = tuple(Promise(one.contract, one.vertex, one.batch_s, one.freshness_s) for one in kept)
    graph = collect_graph(plan.graph, (promise.vertex for promise in promises))
    totals = Live(tariff_of(plan.catalogue), graph, promises).bill.totals()
    return dict(totals.cpu), dict(totals.link), dict(totals.disk)


def _find_refusals(
    feed: Feed, plan: Plan, prices: PlannedPrices, shares: Mapping[str, float], parts: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    for rejection in plan.rejected:
        if rejection.contract in parts:
            yield rejection.reason, rejection.detail
    if find_most_pulls(feed, prices, at_most=0) is None:
        target, seconds = min(feed.latency.items(), key=lambda one: one[1])
        page, asked = format_seconds(prices.page_s), format_seconds(seconds)
        detail = f"a page takes {page} even if everything is stored ahead, and {target} is to be {asked}"
        yield "latency", f"{detail}; `latency: {{{target}: {page}}}` could be kept"
    if _is_store_here(feed):
        yield from _find_full(feed, plan, prices, shares)


def _find_full(feed: Feed, plan: Plan, prices: PlannedPrices, shares: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """What the stores of all feeds at a site would need more of than there is."""
    catalogue, site = plan.catalogue, plan.catalogue.sites[feed.site]
    loads = {
        name: measure_load(other, find_statistics(other, catalogue), prices, shares[name])
        for name, other in catalogue.feeds.items()
        if name in shares and other.site == site.name and _is_store_here(other)
    }
    views, stores = plan.totals.disk.get(site.name, 0.0), sum(load.size for load in loads.values())
    if site.disk_capacity is not None and views + stores > site.disk_capacity:
        yield (
            f"disk:{site.name}",
            (
                f"its store needs {format_bytes(loads[feed.name].size)} at {site.name}, and of "
                f"{format_bytes(site.disk_capacity)} {format_bytes(max(0.0, site.disk_capacity - views))} are left; "
                f"{format_bytes(views + stores)} would do, or a smaller `keep` than {feed.keep}"
            ),
        )
    used, busy = plan.totals.cpu.get(site.name, 0.0), sum(load.cpu for load in loads.values())
    most = None if site.cores is None else (1.0 - catalogue.headroom.cpu) * site.cores
    if most is not None and used + busy > most:
        own, left = format_number(loads[feed.name].cpu), format_number(max(0.0, most - used))
        cores = format_number((used + busy) / (1.0 - catalogue.headroom.cpu))
        yield (
            f"cpu:{site.name}",
            (f"its store keeps {own} cores busy at {site.name}, and {left} are left; {cores} cores would do"),
        )


def _reject_parts(refused: FeedPlan, plan: Plan) -> Iterator[Rejection]:
    """A feed is kept as a whole: what its views could promise alone is said of each that cannot."""
    own = {one.contract: one for one in plan.rejected}
    for name in refused.contracts:
        whole = f'feed "{refused.feed}" is refused: {refused.detail}'
        yield own.get(name) or Rejection(name, refused.reason or "", whole, None, None)
