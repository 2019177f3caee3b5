"""Where the pairs of all templates run: on one of their devices or in the cloud, whichever sends less.

Templates over one group of devices are placed together, since they share what a device sends and takes. The streams
that a side reads are one *feed* of its device: they are needed together, so their rates add up, and a feed that is sent
at a rate serves every pair that needs less. `plan.place.single` then decides feeds and pairs by local thresholds, which
is optimal unless feeds share a stream: that stream is then counted twice in deciding, though sent once.

Prices are those of a message of the narrowest stream; a wider one costs as much more as it is wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.plan.exact_numbers import Exact, common_scale
from headrace.plan.place.pair_columns import DeviceFacts, Rates, TemplateDemand, needed_rate
from headrace.plan.place.pairs import AT_A, AT_B, IN_CLOUD, Pairs, Star, Where
from headrace.plan.place.single import decide_pairs, where_views_run

MICRO = 1e6
"""Rates are whole numbers of rows in a million seconds, so that no tie is lost to rounding."""


@dataclass(frozen=True, slots=True)
class PlacedTemplates:
    """`where` each pair of each template runs. No placement of the pairs of two devices costs less than `lower_bound`,
    in prices times messages per second, as far as deciding counts.
    """

    where: tuple[Where, ...]
    method: str
    lower_bound: Exact


def place_templates(wanted: Sequence[TemplateDemand], devices: DeviceFacts) -> PlacedTemplates:
    """The cheapest placement of all pairs."""
    places = [np.full(len(one.rows), IN_CLOUD, np.uint8) for one in wanted]
    two = [number for number, one in enumerate(wanted) if one.rows.b is not None]
    for number, one in enumerate(wanted):
        if number not in two:
            places[number] = _place_alone(one, devices)
    method, bound = "each device alone", Fraction(0)
    if two:
        decided, method, bound = _place_together([wanted[number] for number in two], devices)
        for number, where in zip(two, decided, strict=True):
            places[number] = where
    if devices.capacity is not None:
        places = _within_capacity(wanted, places, devices)
    return PlacedTemplates(tuple(places), method, bound)


def _within_capacity(wanted: Sequence[TemplateDemand], places: list[Where], devices: DeviceFacts) -> list[Where]:
    """The placement with no more pairs on a device than it holds: those of its fastest streams stay.

    Each feed was decided as if it had the device for itself.
    """
    hosts = np.concatenate([hosts_of(one, where) for one, where in zip(wanted, places, strict=True)])
    own = np.concatenate([_own_rate(one, where, devices) for one, where in zip(wanted, places, strict=True)])
    assert devices.capacity is not None
    there = np.flatnonzero(hosts >= 0)
    order = there[np.lexsort((-own[there], hosts[there]))]
    starts = np.searchsorted(hosts[order], np.arange(devices.count))
    rank = np.arange(len(order)) - starts[hosts[order]]
    where = np.concatenate(places)
    where[order[rank >= devices.capacity[hosts[order]]]] = IN_CLOUD
    return np.split(where, np.cumsum([len(one) for one in places])[:-1])


def hosts_of(one: TemplateDemand, where: Where) -> NDArray[np.int64]:
    """The device that runs each pair, -1 where that is the cloud."""
    hosts = np.where(where == AT_A, one.rows.a, -1).astype(np.int64)
    if one.rows.b is not None:
        hosts[where == AT_B] = one.rows.b[where == AT_B]
    return hosts


def _own_rate(one: TemplateDemand, where: Where, devices: DeviceFacts) -> Rates:
    rate = feed_rate(one, "a", devices)
    return rate if one.rows.b is None else np.where(where == AT_B, feed_rate(one, "b", devices), rate)


def feed_rate(one: TemplateDemand, side: str, devices: DeviceFacts) -> Rates:
    """What each pair needs of a side's streams together, in messages of the narrowest stream per second."""
    total = np.zeros(len(one.rows))
    for stream in one.streams[side]:
        total += devices.weigh(stream) * needed_rate(
            devices.rates[stream], one.rows.side(side), one.rows.every.get(side)
        )
    return total


def _table_price(one: TemplateDemand, devices: DeviceFacts) -> float:
    """What a device pays to have the tables of a template at hand, per second."""
    return devices.down * sum(devices.weigh(table) * devices.tables.get(table, 0.0) for table in one.tables)


def _place_alone(one: TemplateDemand, devices: DeviceFacts) -> Where:
    """A view of one device runs there if taking its tables down costs less than sending its streams up."""
    here = devices.up * feed_rate(one, "a", devices) > _table_price(one, devices)
    if devices.capacity is not None:
        here &= devices.capacity[one.rows.a] >= 1
    return np.where(here, AT_A, IN_CLOUD).astype(np.uint8)


def _place_together(wanted: Sequence[TemplateDemand], devices: DeviceFacts) -> tuple[list[Where], str, Fraction]:
    pairs, star, price_scale = _make_columns(wanted, devices)
    apart = np.flatnonzero(pairs.a != pairs.b)
    load = None if pairs.load is None else pairs.load[apart]
    chosen = Pairs(pairs.a[apart], pairs.b[apart], pairs.rate_a[apart], pairs.rate_b[apart], load)
    decided = decide_pairs(chosen, star)
    # A pair of a device with itself needs nothing from anywhere else.
    where = np.full(len(pairs), AT_A if devices.capacity is None else IN_CLOUD, np.uint8)
    where[apart] = where_views_run(chosen, decided.limit)
    found = np.split(where, np.cumsum([len(one.rows) for one in wanted])[:-1])
    found = [_without_dear_tables(one, part, devices) for one, part in zip(wanted, found, strict=True)]
    return found, decided.method, Fraction(decided.twice_bound, 2 * int(MICRO) * price_scale)


def _make_columns(wanted: Sequence[TemplateDemand], devices: DeviceFacts) -> tuple[Pairs, Star, int]:
    feeds = sorted({one.streams[side] for one in wanted for side in ("a", "b")})
    number = {feed: position for position, feed in enumerate(feeds)}

    def ends(side: str) -> NDArray[np.int32]:
        found = [number[one.streams[side]] * devices.count + one.rows.side(side) for one in wanted]
        return np.concatenate(found).astype(np.int32)

    def rates(side: str) -> NDArray[np.int64]:
        return np.concatenate([np.rint(feed_rate(one, side, devices) * MICRO).astype(np.int64) for one in wanted])

    up, down = Fraction(repr(devices.up)), Fraction(repr(devices.down))
    scale, size = common_scale((up, down)), len(feeds) * devices.count
    capacity = None if devices.capacity is None else np.tile(devices.capacity, len(feeds))
    rows = sum(len(one.rows) for one in wanted)
    load = None if capacity is None else np.ones(rows, np.int64)
    star = Star(
        np.full(size, int(up * scale), np.int64),
        np.full(size, int(down * scale), np.int64),
        np.zeros(size, np.bool_),
        capacity,
    )
    return Pairs(ends("a"), ends("b"), rates("a"), rates("b"), load), star, scale


def _without_dear_tables(one: TemplateDemand, where: Where, devices: DeviceFacts) -> Where:
    """The placement without devices to which tables come down for more than running pairs there saves."""
    price = _table_price(one, devices)
    if not price:
        return where
    sent, taken = np.zeros(devices.count), np.zeros(devices.count)
    for at, own, partner in ((AT_A, "a", "b"), (AT_B, "b", "a")):
        here = np.flatnonzero(where == at)
        host = one.rows.side(own)[here]
        np.maximum.at(sent, host, feed_rate(one, own, devices)[here])
        np.add.at(taken, host, feed_rate(one, partner, devices)[here])
    saved = devices.up * sent - devices.down * taken
    is_dear = saved[hosts_of(one, where)] <= price
    return np.where(is_dear, IN_CLOUD, where).astype(np.uint8)
