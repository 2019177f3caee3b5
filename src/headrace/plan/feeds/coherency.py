"""What a pair costs stored ahead and on read, under each of the four price models.

A query asks for the newest events of everyone its consumer follows. With `rpc` and `batch` every pulled producer is
called, so it does not matter whether the newest are wanted per producer or over all. `amortised` is claim 2 of
Feeding Frenzy (SIGMOD 2010, section 3.2.2); it charges a producer by its share of the events, though nobody knows
which events are the newest before all were asked. `recency` is what that would cost with an index of latest event
times, for Poisson producers. Each is a sum over pairs, `batch` with one more term per consumer: hence deciding pair
by pair, or consumer by consumer, is optimal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import NumberArray, Positions
from headrace.plan.feeds.instance import Model


@dataclass(frozen=True, slots=True)
class PairColumns:
    """One entry per pair. `followed_rate` is the event rate of everyone that the pair's consumer follows, together."""

    query_rate: NumberArray
    event_rate: NumberArray
    store_price: NumberArray
    fetch_price: NumberArray
    followed_rate: NumberArray


def on_read_and_ahead(columns: PairColumns, model: Model, shown: int) -> tuple[NumberArray, NumberArray]:
    """Cost of each pair on read and stored ahead: per unit of time for doubles, both times one positive number for
    integers.

    Under `batch` this leaves out the price of the batch itself.
    """
    part, whole = fetched_share(columns, model, shown)
    on_read = columns.query_rate * columns.fetch_price * part
    ahead = columns.event_rate * columns.store_price * whole
    return on_read, ahead


def fetched_share(columns: PairColumns, model: Model, shown: int) -> tuple[NumberArray | int, NumberArray | int]:
    """How much of a call each query pays, as a numerator and a denominator; doubles come divided."""
    match model:
        case Model.RPC | Model.BATCH:
            return 1, 1
        case Model.AMORTISED:
            if columns.event_rate.dtype == object:
                return columns.event_rate, columns.followed_rate
            return _event_share(columns), 1
        case Model.RECENCY:
            if columns.event_rate.dtype == object:
                everything = columns.followed_rate**shown
                return everything - (columns.followed_rate - columns.event_rate) ** shown, everything
            return _newest_share(columns, shown), 1
        case _:
            assert_never(model)


def _event_share(columns: PairColumns) -> NumberArray:
    """How many of the events that a consumer is shown come from this producer; 0 where nobody produces anything."""
    share: NumberArray = np.zeros(len(columns.event_rate))
    return np.divide(columns.event_rate, columns.followed_rate, out=share, where=columns.followed_rate > 0)


def _newest_share(columns: PairColumns, shown: int) -> NumberArray:
    """Chance that one of the newest `shown` events is this producer's: 1 - (1 - share)**shown, without cancellation."""
    with np.errstate(divide="ignore"):
        missed: NumberArray = np.log1p(-np.minimum(_event_share(columns), 1.0))
    share: NumberArray = -np.expm1(shown * missed)
    return share


def saved_on_read(on_read: NumberArray, ahead: NumberArray, group: Positions, groups: int) -> NumberArray:
    """What pulling, for each consumer, the pairs that are cheaper on read saves, before the batch itself is paid."""
    saving = np.where(on_read < ahead, ahead - on_read, 0)
    return sum_by_group(saving, group, groups)


def sum_by_group(values: NumberArray, group: Positions, groups: int) -> NumberArray:
    """Sums by group number, exact for integers."""
    if values.dtype != object:
        return np.bincount(group, weights=values, minlength=groups)
    sums: NumberArray = np.zeros(groups, dtype=object)
    np.add.at(sums, group, values)
    return sums


def batch_pays(saved: NumberArray, query_rate: NumberArray, batch_price: NumberArray | float) -> BoolArray:
    """Whether a consumer pulls at all: what the pulls save must exceed the price of the batches. A tie stores ahead."""
    pays: BoolArray = saved > query_rate * batch_price
    return pays
