"""What pairs need of the streams of their devices, and what any placement of them costs.

A stream goes up once, as often as the most demanding of its readers elsewhere needs it. To a device it goes down once,
as often as the most demanding of the pairs that run there needs it. (Specified for one view per pair; a pair whose view
reads several streams of a device needs all of them.) Rates are whole numbers of messages in `PER` seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.plan.exact_numbers import Exact
from headrace.plan.place.handover import TemplatePair
from headrace.plan.place.instance import CLOUD, Dag, Device, PairView, PlacedOperator
from headrace.plan.place.pair_columns import weigh_message

PER = 1_000_000
"""Seconds: rates are counted in messages in so many, so that they are whole and no tie is lost."""


class StreamDemand(NamedTuple):
    device: str
    stream: str
    rate: int


Demands = Mapping[TemplatePair, tuple[StreamDemand, ...]]
Placement = Mapping[TemplatePair, str]


class Traffic(NamedTuple):
    """Messages in `PER` seconds that devices send, and that they take, by device."""

    up: Mapping[str, int]
    down: Mapping[str, int]

    @property
    def messages_s(self) -> float:
        return (sum(self.up.values()) + sum(self.down.values())) / PER


def whole_rate(per_second: float) -> int:
    return round(per_second * PER)


def weigh_streams(sizes: Mapping[str, float]) -> dict[str, float]:
    """What a message of each stream of a group costs, in messages of the narrowest; `sizes` are bytes."""
    return {stream: weigh_message(size, sizes.values()) for stream, size in sizes.items()}


def weigh_demands(needs: Iterable[StreamDemand], weights: Mapping[str, float]) -> tuple[StreamDemand, ...]:
    """Needs counted in messages of the narrowest stream, since a wide row costs more than a narrow one."""
    return tuple(one._replace(rate=round(one.rate * weights.get(one.stream, 1.0))) for one in needs)


def count_traffic(demands: Demands, placement: Placement) -> Traffic:
    """What a placement sends; a pair that it does not name runs in the cloud."""
    sent: dict[tuple[str, str], int] = {}
    taken: dict[tuple[str, str, str], int] = {}
    for pair, needs in demands.items():
        at = placement.get(pair, CLOUD)
        for device, stream, rate in needs:
            if device == at:
                continue
            sent[device, stream] = max(rate, sent.get((device, stream), 0))
            if at != CLOUD:
                taken[at, device, stream] = max(rate, taken.get((at, device, stream), 0))
    return Traffic(_add_up((key[0], rate) for key, rate in sent.items()), _add_up((k[0], r) for k, r in taken.items()))


def price_traffic(traffic: Traffic, default: Device, kinds: Mapping[str, Device]) -> dict[str, Exact]:
    """The price of the traffic of each device in `PER` seconds."""
    found: dict[str, Exact] = {one: kinds.get(one, default).up * rate for one, rate in traffic.up.items()}
    for one, rate in traffic.down.items():
        found[one] = found.get(one, 0) + kinds.get(one, default).down * rate
    return found


@dataclass(frozen=True, slots=True)
class MovesTogether:
    """Pairs that move, and the devices that host them before or after."""

    hosts: frozenset[str]
    pairs: tuple[TemplatePair, ...]


def split_moves(standing: Placement, wanted: Placement) -> list[MovesTogether]:
    """The moves between two placements, in parts that are apart: no two have a host in common.

    What a device sends and takes changes only if a pair comes to it, or leaves it: a partner sends on, to whoever reads
    its stream. So what a part saves does not depend on whether others move.
    """
    parent: dict[str, str] = {}

    def find(host: str) -> str:
        while parent.setdefault(host, host) != host:
            parent[host] = host = parent[parent[host]]
        return host

    moves = {pair: {standing[pair], to} - {CLOUD} for pair, to in wanted.items() if standing[pair] != to}
    for hosts in moves.values():
        roots = sorted(map(find, hosts))
        for root in roots[1:]:
            parent[root] = roots[0]
    pairs: dict[str, list[TemplatePair]] = {}
    for pair, hosts in moves.items():
        pairs.setdefault(find(min(hosts)), []).append(pair)
    hosts_of: dict[str, set[str]] = {}
    for host in list(parent):
        hosts_of.setdefault(find(host), set()).add(host)
    return [MovesTogether(frozenset(hosts_of[root]), tuple(sorted(pairs[root]))) for root in sorted(pairs)]


def _add_up(amounts: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, amount in amounts:
        found[name] = found.get(name, 0) + amount
    return found


# As instances that are decided


def name_pair(pair: TemplatePair) -> str:
    """A name that no other pair has, whatever ids are made of."""
    return "\x1f".join((pair.template, *pair.ids))


def make_view(pair: TemplatePair, needs: tuple[StreamDemand, ...]) -> PairView | None:
    """The pair as a view over one stream of each of two devices, the form for millions; None if it is something else.

    A pair of one device reads, beside its stream, a stream in the cloud that never has a row.
    """
    devices = [need.device for need in needs]
    if not 1 <= len(needs) <= 2 or len(set(devices)) < len(devices):
        return None
    one = needs[0]
    other = needs[1] if len(needs) == 2 else StreamDemand(CLOUD, one.stream, 0)
    return PairView(name_pair(pair), one.device, other.device, one.rate, other.rate)


def read_one_stream(demands: Demands) -> bool:
    """Whether all pairs are views over the same stream of each device: only then may each be one number per device."""
    streams: dict[str, str] = {}
    for pair, needs in demands.items():
        if make_view(pair, needs) is None:
            return False
        if any(streams.setdefault(need.device, need.stream) != need.stream for need in needs):
            return False
    return True


def make_dag(demands: Demands, default: Device, kinds: Mapping[str, Device]) -> Dag:
    """The pairs as operators over the streams of their devices."""
    sources = {_name_stream(need): need.device for pair, needs in sorted(demands.items()) for need in needs}
    operators = tuple(
        PlacedOperator(name_pair(pair), tuple((_name_stream(need), need.rate) for need in _merge(needs)))
        for pair, needs in sorted(demands.items())
    )
    known = set(sources.values())
    return Dag(
        sources, operators, default=default, devices={name: kind for name, kind in kinds.items() if name in known}
    )


def _merge(needs: tuple[StreamDemand, ...]) -> list[StreamDemand]:
    """Each stream once, as often as the side needs it that needs it more often."""
    rates: dict[tuple[str, str], int] = {}
    for device, stream, rate in needs:
        rates[device, stream] = max(rate, rates.get((device, stream), 0))
    return [StreamDemand(device, stream, rate) for (device, stream), rate in rates.items()]


def _name_stream(need: StreamDemand) -> str:
    return f"{need.stream}\x1f{need.device}"
