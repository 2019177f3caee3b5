"""Which prices decide about the pairs of a running feed: those that were measured, as far as they are sure.

A price is sure if its error is smaller than itself. One that is not stays what was assumed, but no further from what
was measured than two errors: a price that is hardly known must not flip everything, and one that is known to be small
is not taken for large. Where L is not sure, it is its assumed share of H, since slow machines are slow at both.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.model.feed_plan import PlannedPrices
from headrace.model.feed_prices import FeedPrices

ERRORS = 2.0
"""Within so many standard errors of what was measured is what may be true."""
MOVED = 0.1
"""By which share prices have to move before all pairs are decided again."""


def choose_prices(assumed: PlannedPrices, measured: FeedPrices, engine_s: float) -> PlannedPrices:
    """`engine_s` is what an entry takes in the engine, which is part of `assumed` and is not part of `measured`."""
    named = measured.named
    store_s = _settle(*named["H"], assumed.store_s - engine_s) + engine_s
    return replace(
        assumed,
        store_s=store_s,
        fetch_s=_settle(*named["L"], store_s * assumed.fetch_s / assumed.store_s),
        batch_s=_settle(*named["L0"], assumed.batch_s),
        read_s=_settle(*named["read"], assumed.read_s),
        event_s=_settle(*named["event"], assumed.event_s),
        calibrated=True,
        engine_s=engine_s,
    )


def is_sure(price: float, error: float) -> bool:
    return error < abs(price)


def _settle(price: float, error: float, otherwise: float) -> float:
    """No price is negative: what takes less than nothing is not worth avoiding, and that is all."""
    if not is_sure(price, error):
        price = min(max(otherwise, price - ERRORS * error), price + ERRORS * error)
    return max(0.0, price)


def have_moved(before: PlannedPrices, now: PlannedPrices) -> bool:
    """Whether pairs may be worth another decision."""
    both = ((before.store_s, now.store_s), (before.fetch_s, now.fetch_s), (before.batch_s, now.batch_s))
    return any(abs(new - old) > MOVED * old for old, new in both)
