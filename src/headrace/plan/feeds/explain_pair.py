"""Why a pair is stored ahead or on read: the rates that decided, what either way costs, and what overruled that."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headrace.model.amounts import format_number
from headrace.model.errors import UsageError
from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.coherency import on_read_and_ahead
from headrace.plan.feeds.instance import Feeds, Model
from headrace.plan.feeds.per_pair import columns_in_doubles, followed_rate


@dataclass(frozen=True, slots=True)
class PairReason:
    """The decision in one line, and the numbers behind it."""

    headline: str
    details: tuple[str, ...]

    def __str__(self) -> str:
        return "\n  ".join((self.headline, *self.details))


def find_pair(number: int | None, who: str, whom: str) -> int:
    if number is None:
        raise UsageError(f'"{who}" does not follow "{whom}"', "a pair is written consumer<-producer")
    return number


def headline(ahead: bool, event_rate: Fraction | float, query_rate: Fraction | float, unit: str = "h") -> str:
    """`on read: 40 events/h against 2 reads/h`; rates are per `unit`."""
    events, reads = format_number(float(event_rate)), format_number(float(query_rate))
    return f"{'stored ahead' if ahead else 'on read'}: {events} events/{unit} against {reads} reads/{unit}"


def why_pair(feeds: Feeds, ahead: BoolArray, pair: int, unit: str = "h") -> PairReason:
    """Explains one pair of a decided instance; what a pair costs is shown to rounding."""
    consumer = int(feeds.consumer[pair])
    mine = np.flatnonzero(feeds.consumer == consumer)
    followed = followed_rate(feeds)
    columns = columns_in_doubles(feeds, mine, followed)
    on_read, stored = on_read_and_ahead(columns, feeds.pricing.model, feeds.pricing.shown)
    here = int(np.searchsorted(mine, pair))
    batches = float(feeds.query_rate.near[consumer] * float(feeds.pricing.batch_price))
    first = headline(bool(ahead[pair]), columns.event_rate[here], columns.query_rate[here], unit)
    details = [both_ways(float(stored[here]), float(on_read[here]), unit)]
    if feeds.pricing.model is Model.BATCH and batches:
        details.append(f"asking for anything on read costs {format_number(batches)}/{unit} on top, per consumer")
    saved = float(np.maximum(stored - on_read, 0).sum())
    overruled = bool(ahead[pair]) and stored[here] > on_read[here]
    if overruled and feeds.pricing.model is Model.BATCH and saved <= batches:
        details.append(f"all that this consumer could save on read is {format_number(saved)}/{unit}: less than that")
    elif overruled:
        more = format_number(float(stored[here] - on_read[here]))
        details.append(f"moved ahead for the latency target, for {more}/{unit} more")
    return PairReason(first, tuple(details))


def both_ways(stored: float, on_read: float, unit: str) -> str:
    tie = "; a tie is stored ahead" if stored == on_read else ""
    return f"storing ahead costs {format_number(stored)}/{unit}, reading {format_number(on_read)}/{unit}{tie}"
