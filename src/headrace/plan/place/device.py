"""One device alone, in plain numbers: the same decision that `threshold` makes for all devices at once."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from headrace.plan.exact_numbers import Exact
from headrace.plan.place.instance import Device, PairView
from headrace.plan.place.pairs import runs_on_device


def wants(view: PairView, device: str, limit: Exact) -> bool:
    """Whether a device that uploads its feed up to a limit runs the view."""
    return bool(runs_on_device(view.rate_a if device == view.a else view.rate_b, limit))


def cheapest_limit(device: str, kind: Device, views: Iterable[PairView]) -> Exact:
    """The largest of the cheapest upload limits that leave no more load on the device than it can hold."""
    ends = sorted((_end(view, device) for view in views), key=lambda end: end[0], reverse=True)
    if not ends:
        return 0
    best_limit, best = ends[0][0], kind.up * ends[0][0]
    fetched: dict[str, Exact] = {}
    down, held = Fraction(0), Fraction(0)
    for at, (own, partner, rate, load) in enumerate(ends):
        down += max(0, rate - fetched.get(partner, 0))
        fetched[partner] = max(rate, fetched.get(partner, 0))
        held += load
        lower = ends[at + 1][0] if at + 1 < len(ends) else 0
        cost = kind.up * lower + kind.down * down
        if lower < own and cost < best and (kind.capacity is None or held <= kind.capacity):
            best_limit, best = lower, cost
    return best_limit


def device_cost(device: str, kind: Device, views: Iterable[PairView], limit: Exact) -> Exact:
    """What a device pays when it uploads up to a limit and runs the other views."""
    return _cost(kind, [_end(view, device) for view in views], limit)


End = tuple[Exact, str, Exact, Exact]
"""Own rate, partner, the partner's rate, load."""


def _end(view: PairView, device: str) -> End:
    if device == view.a:
        return view.rate_a, view.b, view.rate_b, view.load
    return view.rate_b, view.a, view.rate_a, view.load


def _cost(kind: Device, ends: list[End], limit: Exact) -> Exact:
    sent: Exact = 0
    fetched: dict[str, Exact] = {}
    for own, partner, rate, _ in ends:
        if runs_on_device(own, limit):
            fetched[partner] = max(rate, fetched.get(partner, 0))
        else:
            sent = max(sent, own)
    return kind.up * sent + kind.down * sum(fetched.values(), start=Fraction(0))
