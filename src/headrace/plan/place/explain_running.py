"""Why a pair of a template that runs is where it is: by rates as they are measured, and what keeps it there.

What a move of one pair changes is paid by its two devices, so the pairs of these are all that counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from headrace.model.explanation import WhyPlacedPair
from headrace.plan.exact_numbers import Exact
from headrace.plan.place.demands import PER, Demands, Placement, StreamDemand, Traffic, count_traffic, price_traffic
from headrace.plan.place.handover import TemplatePair
from headrace.plan.place.instance import CLOUD, Device
from headrace.plan.place.why import PlacementReason, why_document, why_text

DIGITS = 3
"""Of a measured rate: more would be chance."""


@dataclass(frozen=True, slots=True)
class RunningPair:
    """A pair, and all that decides where it runs. `demands` are those of all pairs of its devices, `standing` is where
    these run, and `kinds` are devices that differ from `default`.

    `to` is where the pair moves now, None if it stays; `away` are its devices that are not connected, and `refused`
    says why devices of it do not run it.
    """

    pair: TemplatePair
    demands: Demands
    standing: Placement
    default: Device
    kinds: Mapping[str, Device] = field(default_factory=dict)
    to: str | None = None
    away: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def explain_running_pair(running: RunningPair) -> WhyPlacedPair:
    reason = _find_reason(running)
    numbers = {**why_document(reason), "measured": True, "moving_to": running.to}
    because = "\n".join([why_text(reason, "s"), *_find_notes(running, reason)])
    return WhyPlacedPair(running.pair.template, running.pair.ids, reason.at, numbers, because)


def round_measured(rate: float) -> float:
    return float(f"{rate:.{DIGITS}g}")


def _find_reason(running: RunningPair) -> PlacementReason:
    pair, at = running.pair, running.standing[running.pair]
    needs = running.demands[pair]
    alone, in_cloud = (count_traffic({pair: needs}, {pair: place}) for place in (at, CLOUD))
    stays = sum(need.rate for need in _find_own(needs, at))
    return PlacementReason(
        view=f"{pair.template}:{','.join(pair.ids)}",
        at=at,
        local={at: _per_second(stays)} if at != CLOUD else {},
        up={device: _per_second(rate) for device, rate in alone.up.items()},
        down={device: _per_second(rate) for device, rate in alone.down.items()},
        alone=_per_second(_add_prices(running, alone)),
        alone_in_cloud=_per_second(_add_prices(running, in_cloud)),
        alternatives=dict(_find_alternatives(running, at)),
    )


def _find_own(needs: tuple[StreamDemand, ...], device: str) -> list[StreamDemand]:
    return [need for need in needs if need.device == device]


def _find_alternatives(running: RunningPair, at: str) -> Iterator[tuple[str, Exact]]:
    """What all would cost more with the pair elsewhere. Places that cannot take it are left out."""
    for place in dict.fromkeys((CLOUD, *running.pair.ids)):
        if place != at and place not in running.refused and _has_room(running, place):
            yield place, _per_second(_price(running, place) - _price(running, at))


def _price(running: RunningPair, at: str) -> Exact:
    placement = {**running.standing, running.pair: at}
    return _add_prices(running, count_traffic(running.demands, placement))


def _add_prices(running: RunningPair, traffic: Traffic) -> Exact:
    return sum(price_traffic(traffic, running.default, running.kinds).values(), start=Fraction(0))


def _has_room(running: RunningPair, device: str) -> bool:
    capacity = None if device == CLOUD else running.kinds.get(device, running.default).capacity
    return capacity is None or sum(place == device for place in running.standing.values()) < capacity


def _per_second(amount: Exact) -> Exact:
    found = Fraction(amount) / PER
    return found.numerator if found.denominator == 1 else found


def _find_notes(running: RunningPair, reason: PlacementReason) -> Iterator[str]:
    """What the numbers alone do not say."""
    for device, why in sorted(running.refused.items()):
        yield f"  {device}'s device refuses it: {why}"
    if running.to is not None:
        yield f"  it is moving {_name_place(running.to)} now"
    elif running.away:
        names = " and ".join(f"{device}'s device" for device in dict.fromkeys(running.away))
        yield f"  it stays where it is while {names} cannot be reached"
    elif any(cost < 0 for cost in reason.alternatives.values()):
        yield "  it moves once staying has cost as much as moving does"


def _name_place(place: str) -> str:
    return "to the cloud" if place == CLOUD else f"to {place}'s device"
