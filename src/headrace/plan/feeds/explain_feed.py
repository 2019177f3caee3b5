"""Why a feed is planned as it is, and why one of its pairs is stored ahead or on read."""

from __future__ import annotations

from headrace.model.amounts import format_number, format_seconds
from headrace.model.catalogue import Feed
from headrace.model.errors import UsageError
from headrace.model.explanation import PairRates, WhyFeed, WhyPair
from headrace.model.feed_names import name_stored
from headrace.model.feed_plan import FeedPlan, PlannedPrices
from headrace.model.plan import Plan
from headrace.plan.feeds.family import describe_feeds
from headrace.plan.feeds.load import choose_share

PAIR = "<-"
"""Between a consumer and the producer that it follows: `home:anna<-bob`."""

HOUR_S = 3600.0


def explain_feed(plan: Plan, name: str) -> WhyFeed | WhyPair | None:
    """The answer about a feed, or about a pair of one; None if no feed of the plan has the name. Raises UsageError for
    a pair that is not written as one.
    """
    feed_name, colon, pair = name.partition(":")
    found = find_feed_plan(plan, feed_name)
    if found is None:
        return None
    feed = plan.catalogue.feeds[feed_name]
    if not colon:
        return _explain_whole(plan, feed, found)
    named = read_pair_name(name)
    if named is None:
        raise UsageError(f'"{pair}" is not a pair of feed "{feed_name}"', f"write {feed_name}:CONSUMER{PAIR}PRODUCER")
    return explain_pair(feed, found, named[1], named[2], mean_rates(found))


def find_feed_plan(plan: Plan, feed: str) -> FeedPlan | None:
    # A running plan that was made again from measurements has only the contracts of its feeds.
    return next((one for one in plan.feeds or describe_feeds(plan) if one.feed == feed), None)


def read_pair_name(name: str) -> tuple[str, str, str] | None:
    """Feed, consumer and producer of a pair; None if it is not the name of one."""
    feed, colon, pair = name.partition(":")
    consumer, arrow, producer = (part.strip() for part in pair.partition(PAIR))
    return (feed, consumer, producer) if colon and arrow and consumer and producer else None


def _explain_whole(plan: Plan, feed: Feed, found: FeedPlan) -> WhyFeed:
    stored = next((one for one in plan.contracts if one.contract == name_stored(feed.name)), None)
    wanted, least = choose_share(feed, found.statistics, found.prices, None)
    return WhyFeed(
        plan=found,
        freshness_s=feed.freshness_s,
        path_s=None if stored is None else stored.critical_path_s,
        limit_s=None if stored is None else stored.batch_s,
        money=sum(one.money for one in plan.contracts if one.contract in found.contracts),
        wanted=wanted,
        least=least,
    )


def mean_rates(found: FeedPlan) -> PairRates:
    """What is assumed of every pair until a feed runs."""
    now = found.statistics
    reads_s = None if now.reads_s is None else now.reads_s / now.consumers
    return PairRates(now.events_s / now.producers, reads_s)


def explain_pair(
    feed: Feed, found: FeedPlan, consumer: str, producer: str, rates: PairRates, prices: PlannedPrices | None = None
) -> WhyPair:
    """One pair at its rates, and at prices that are not those of the plan if they were measured. What a running feed
    has decided stands, even if rates say otherwise by now.
    """
    prices = found.prices if prices is None else prices
    stored = rates.events_s * prices.store_s * HOUR_S
    read = None if rates.reads_s is None else rates.reads_s * prices.fetch_s * HOUR_S
    is_cheaper = read is None or read >= stored
    least = choose_share(feed, found.statistics, prices, None)[1]
    is_planned = found.reason is None and (is_cheaper or least >= 1.0)
    ahead = is_planned if rates.stored_ahead is None else rates.stored_ahead
    return WhyPair(
        feed.name,
        consumer,
        producer,
        ahead,
        rates,
        prices,
        stored,
        read,
        _say_because(found, rates, stored, read, least),
    )


def _say_because(found: FeedPlan, rates: PairRates, stored: float, read: float | None, least: float) -> str:
    if rates.stored_ahead is None and found.reason is not None:
        return "the feed is refused: nothing of it is kept"
    if read is None:
        return "nobody said how often pages are read: the plan provides for storing everything ahead"
    ahead = rates.stored_ahead if rates.stored_ahead is not None else read >= stored or least >= 1.0
    if ahead and read >= stored:
        tie = "as much as" if read == stored else "less than"
        return f"storing takes {tie} fetching: {_say_cost(stored)} against {_say_cost(read)}"
    if not ahead and read < stored:
        return f"fetching takes less than storing: {_say_cost(read)} against {_say_cost(stored)}"
    if rates.is_shed:
        return f"storing would take less ({_say_cost(stored)} against {_say_cost(read)}), but the store was late"
    if ahead:
        return f"fetching would take less ({_say_cost(read)} against {_say_cost(stored)}), but reads would be too slow"
    return f"storing would take less by now ({_say_cost(stored)} against {_say_cost(read)}), but not clearly"


def _say_cost(seconds: float) -> str:
    return f"{format_seconds(seconds) if seconds else format_number(0)} of a core per hour"
