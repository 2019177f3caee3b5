"""Why a pair is stored ahead or on read: the rates that decided, what either way costs, and what overruled that."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

import numpy as np

from headrace.model.amounts import format_number
from headrace.plan.feeds.coherency import on_read_and_ahead
from headrace.plan.feeds.composite import edge_costs
from headrace.plan.feeds.composite_document import NamedComposite
from headrace.plan.feeds.document import Named
from headrace.plan.feeds.feeds_document import NamedFeeds
from headrace.plan.feeds.instance import Composite, Feeds, Model
from headrace.plan.feeds.network import asked_rates, network_of, output_rates
from headrace.plan.feeds.numbers import BoolArray
from headrace.plan.feeds.per_pair import columns_in_doubles, followed_rate, needs_followed_rate


@dataclass(frozen=True, slots=True)
class Why:
    """The decision in one line, and the numbers behind it."""

    headline: str
    details: tuple[str, ...]

    def __str__(self) -> str:
        return "\n  ".join((self.headline, *self.details))


def why(named: Named, ahead: BoolArray, number: int, unit: str = "h") -> Why:
    """For one pair or edge of a decided instance; rates are per `unit`."""
    match named:
        case NamedFeeds(feeds):
            return why_pair(feeds, ahead, number, unit)
        case NamedComposite(composite, names):
            return why_edge(composite, names, ahead, number, unit)
        case _:
            assert_never(named)


def headline(ahead: bool, event_rate: Fraction | float, query_rate: Fraction | float, unit: str = "h") -> str:
    """`on read: 40 events/h against 2 reads/h`; rates are per `unit`."""
    events, reads = format_number(float(event_rate)), format_number(float(query_rate))
    return f"{'stored ahead' if ahead else 'on read'}: {events} events/{unit} against {reads} reads/{unit}"


def why_pair(feeds: Feeds, ahead: BoolArray, pair: int, unit: str = "h") -> Why:
    """For one pair of a decided instance; what a pair costs is shown to rounding."""
    consumer = int(feeds.consumer[pair])
    mine = np.flatnonzero(feeds.consumer == consumer)
    followed = followed_rate(feeds) if needs_followed_rate(feeds) else np.zeros(0)
    columns = columns_in_doubles(feeds, mine, followed)
    on_read, stored = on_read_and_ahead(columns, feeds.pricing.model, feeds.pricing.shown)
    here = int(np.searchsorted(mine, pair))
    batches = float(feeds.query_rate.near[consumer] * float(feeds.pricing.batch_price))
    first = headline(bool(ahead[pair]), columns.event_rate[here], columns.query_rate[here], unit)
    details = [_both_ways(float(stored[here]), float(on_read[here]), unit)]
    if feeds.pricing.model is Model.BATCH and batches:
        details.append(f"asking for anything on read costs {format_number(batches)}/{unit} on top, per consumer")
    saved = float(np.maximum(stored - on_read, 0).sum())
    overruled = bool(ahead[pair]) and stored[here] > on_read[here]
    if overruled and feeds.pricing.model is Model.BATCH and saved <= batches:
        details.append(f"all that this consumer could save on read is {format_number(saved)}/{unit}: less than that")
    elif overruled:
        more = format_number(float(stored[here] - on_read[here]))
        details.append(f"moved ahead for the latency target, for {more}/{unit} more")
    return Why(first, tuple(details))


def _both_ways(stored: float, on_read: float, unit: str) -> str:
    tie = "; a tie is stored ahead" if stored == on_read else ""
    return f"storing ahead costs {format_number(stored)}/{unit}, reading {format_number(on_read)}/{unit}{tie}"


def why_edge(composite: Composite, names: tuple[str, ...], ahead: BoolArray, edge: int, unit: str = "h") -> Why:
    """For one edge of a decided network."""
    network, chosen = network_of(composite), composite.edges[edge]
    costs = edge_costs(composite, network)
    stored, on_read = (Fraction(int(cost[edge]), costs.scale) for cost in (costs.ahead, costs.on_read))
    events, asked = output_rates(composite, network)[chosen.source], asked_rates(composite, network)[chosen.target]
    details = [_both_ways(float(stored), float(on_read), unit)]
    pulled = [
        names[other.source]
        for number, other in enumerate(composite.edges)
        if other.target == chosen.source and not ahead[number]
    ]
    if not ahead[edge] and stored <= on_read:
        details.append(f'"{names[chosen.source]}" pulls "{pulled[0]}", so it has nothing to store ahead')
    if ahead[edge] and stored > on_read:
        details.append(f'stored ahead for what "{names[chosen.target]}" stores ahead in turn')
    return Why(headline(bool(ahead[edge]), events, asked, unit), tuple(details))
