"""Tables of any size: columns become an instance, and rows of whole consumers are decided wherever they are.

Doubles of a table stand for their shortest decimals, so that both engines, and JSON, decide alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import Amounts, FloatArray, Positions
from headrace.plan.feeds.answer import summary
from headrace.plan.feeds.coherency import on_read_and_ahead
from headrace.plan.feeds.instance import Feeds, FeedsDecision, Model, Pricing
from headrace.plan.feeds.per_pair import columns_in_doubles, decide_pairs, followed_rate


@dataclass(frozen=True, slots=True)
class DefaultPrices:
    """H and L of producers that have none of their own."""

    store: Fraction
    fetch: Fraction
    pricing: Pricing


def feeds_from_columns(
    consumer: Positions, producer: Positions, query_rate: FloatArray, event_rate: FloatArray, prices: DefaultPrices,
    own_prices: Mapping[str, FloatArray],
) -> Feeds:  # fmt: skip
    """Positions by pair, rates by position; `own_prices` may have H and L by producer."""
    return Feeds(
        Amounts(event_rate),
        Amounts(query_rate),
        Amounts(own_prices["H"]) if "H" in own_prices else Amounts.constant(prices.store, len(event_rate)),
        Amounts(own_prices["L"]) if "L" in own_prices else Amounts.constant(prices.fetch, len(event_rate)),
        consumer,
        producer,
        prices.pricing,
    )


def decide_rows(
    rows: Mapping[str, FloatArray], consumer: Positions, prices: DefaultPrices
) -> tuple[BoolArray, dict[str, FloatArray]]:
    """Rows with columns query_rate and event_rate, perhaps H and L; all rows of each of their consumers.

    `consumer` numbers consumers from 0. Who the producers are does not matter: each row brings its own. Returns what is
    stored ahead, and each row's part of the cost (`paid`), of the cost of all ahead and of all on read.
    """
    count = int(consumer.max(initial=-1)) + 1
    query_rate = np.zeros(count)
    query_rate[consumer] = rows["query_rate"]
    own = {name: rows[name] for name in ("H", "L") if name in rows}
    feeds = feeds_from_columns(consumer, np.arange(len(consumer)), query_rate, rows["event_rate"], prices, own)
    ahead = decide_pairs(feeds)
    followed = followed_rate(feeds)
    columns = columns_in_doubles(feeds, slice(None), followed)
    on_read, stored = on_read_and_ahead(columns, feeds.pricing.model, feeds.pricing.shown)
    paid = np.where(ahead, stored, on_read)
    if feeds.pricing.model is Model.BATCH and feeds.pricing.batch_price:
        batch = columns.query_rate * float(feeds.pricing.batch_price)
        on_read = on_read + np.where(_firsts(consumer, np.ones_like(ahead)), batch, 0.0)
        paid = paid + np.where(_firsts(consumer, ~ahead), batch, 0.0)
    return ahead, {"paid": paid, "all_ahead": stored, "all_on_read": on_read}


def _firsts(consumer: Positions, among: BoolArray) -> BoolArray:
    """The first row of each consumer among some rows: where a batch is paid."""
    rows = np.flatnonzero(among)
    first = np.zeros(len(consumer), dtype=np.bool_)
    first[rows[np.unique(consumer[rows], return_index=True)[1]]] = True
    return first


def table_decision(paid: float, all_ahead: float, all_on_read: float) -> FeedsDecision:
    """What sums over rows say, when the rows themselves are elsewhere."""
    return FeedsDecision(np.empty(0, dtype=np.bool_), paid, all_ahead, all_on_read, paid, optimal=True)


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows of the tables, and how many of the pairs are stored ahead."""

    pairs: int
    stored_ahead: int
    consumers: int
    producers: int


def table_answer(decision: FeedsDecision, size: TableSize, seconds: float) -> dict[str, object]:
    """The answer document for tables: decisions are rows of a file, so it counts them."""
    counts = {
        "pairs": size.pairs,
        "pushed": size.stored_ahead,
        "consumers": size.consumers,
        "producers": size.producers,
    }
    return {**summary(decision, seconds), **counts}
