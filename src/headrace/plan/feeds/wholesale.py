"""The baseline that deciding by pair is compared with: every consumer stores all its producers ahead, or pulls all."""

from __future__ import annotations

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.coherency import on_read_and_ahead, sum_by_group
from headrace.plan.feeds.instance import Feeds, Model
from headrace.plan.feeds.per_pair import chunks, columns_in_doubles, followed_rate


def decide_wholesale(feeds: Feeds) -> BoolArray:
    """The cheaper of the two for each consumer, to rounding."""
    followed = followed_rate(feeds)
    batch_price = float(feeds.pricing.batch_price) if feeds.pricing.model is Model.BATCH else 0.0
    extra = -batch_price * feeds.query_rate.near
    for some in chunks(len(feeds)):
        columns = columns_in_doubles(feeds, some, followed)
        on_read, stored = on_read_and_ahead(columns, feeds.pricing.model, feeds.pricing.shown)
        extra += sum_by_group(stored - on_read, feeds.consumer[some], len(extra))
    ahead: BoolArray = (extra <= 0)[feeds.consumer]
    return ahead
