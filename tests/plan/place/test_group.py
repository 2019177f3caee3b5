"""Pairs of templates over one group of devices cost least where they are placed, whatever form decides it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from fractions import Fraction

import pytest

from headrace.plan.place.demands import (
    PER,
    StreamDemand,
    count_traffic,
    price_traffic,
    read_one_stream,
    split_moves,
)
from headrace.plan.place.group import GroupPlacement
from headrace.plan.place.handover import TemplatePair
from headrace.plan.place.instance import CLOUD, Device

Demands = dict[TemplatePair, tuple[StreamDemand, ...]]


def random_pairs(rng: random.Random, streams: tuple[str, ...], most: int = 5) -> Demands:
    found: Demands = {}
    for _ in range(rng.randint(1, most)):
        ids = tuple(rng.sample(("d0", "d1", "d2", "d3"), rng.choice((1, 2, 2, 2))))
        needs = [StreamDemand(one, rng.choice(streams), rng.randint(0, 9)) for one in ids]
        if len(streams) > 1 and rng.random() < 0.3:
            needs.append(StreamDemand(ids[0], streams[-1], rng.randint(0, 9)))
        found[TemplatePair(rng.choice(("near", "met")), ids)] = tuple(dict.fromkeys(needs))
    return found


def cost(demands: Demands, placement: Mapping[TemplatePair, str], default: Device) -> Fraction:
    return Fraction(sum(price_traffic(count_traffic(demands, placement), default, {}).values()))


def cheapest(demands: Demands, default: Device) -> Fraction:
    pairs = sorted(demands)
    choices = itertools.product(*((CLOUD, *dict.fromkeys(pair.ids)) for pair in pairs))
    return min(cost(demands, dict(zip(pairs, at, strict=True)), default) for at in choices)


@pytest.mark.parametrize("streams", [("location",), ("location", "pulse")])
@pytest.mark.parametrize("prices", [(1, 1), (1, 2), (3, 1)])
def test_any_change_leaves_the_placement_that_costs_least(streams: tuple[str, ...], prices: tuple[int, int]) -> None:
    default = Device(*prices)
    for seed in range(40):
        rng = random.Random(seed)
        group = GroupPlacement(default)
        for _ in range(6):
            known = sorted(group.demands)
            gone = rng.sample(known, min(len(known), rng.randint(0, 2)))
            group.change_pairs(gone, random_pairs(rng, streams, 3))
            if len(group.demands) > 6:
                group.change_pairs(sorted(group.demands)[6:])
            paid = cost(group.demands, group.place_all(), default)
            if group.is_optimal:
                assert paid == cheapest(group.demands, default), (seed, group.demands)
            else:
                assert paid <= 2 * cheapest(group.demands, default)


def test_alice_and_bob() -> None:
    alice, bob = StreamDemand("alice", "location", PER // 3600), StreamDemand("bob", "location", 360 * PER // 3600)
    pair = TemplatePair("near", ("alice", "bob"))
    group = GroupPlacement(Device(1, 1))
    group.change_pairs(added={pair: (alice, bob)})
    assert group.place_of(pair) == "bob"
    assert count_traffic(group.demands, {}).messages_s * 3600 == pytest.approx(361, rel=1e-3)
    assert count_traffic(group.demands, group.place_all()).messages_s * 3600 == pytest.approx(2, rel=1e-2)


def test_a_capacity_that_shrinks_sends_pairs_away() -> None:
    fast = StreamDemand("d0", "s", 50)
    slow = {TemplatePair("near", ("d0", one)): (fast, StreamDemand(one, "s", 1)) for one in "xyz"}
    group = GroupPlacement(Device(1, 1))
    group.change_pairs(added=slow)
    assert set(group.place_all().values()) == {"d0"}
    group.change_pairs(kinds={"d0": Device(1, 1, 2)})
    assert set(group.place_all().values()) == {CLOUD}, "equal rates move as one"


def test_a_pair_of_one_device_runs_there() -> None:
    group = GroupPlacement(Device(1, 1))
    pair = TemplatePair("coupons", ("d0",))
    group.change_pairs(added={pair: (StreamDemand("d0", "location", 5),)})
    assert group.place_of(pair) == "d0"
    assert read_one_stream(group.demands)


def test_many_pairs_are_decided_in_little_time() -> None:
    """Not a quadratic number of steps: that would take minutes."""
    rng = random.Random(1)
    rates = [round(10 * rng.paretovariate(1.0)) for _ in range(3000)]
    pairs: Demands = {}
    while len(pairs) < 20_000:
        a, b = rng.sample(range(3000), 2)
        pairs[TemplatePair("near", (str(a), str(b)))] = (
            StreamDemand(str(a), "s", rates[a]),
            StreamDemand(str(b), "s", rates[b]),
        )
    group = GroupPlacement(Device(1, 1))
    group.change_pairs(added=pairs)
    placed = count_traffic(group.demands, group.place_all()).messages_s
    assert placed < count_traffic(group.demands, {}).messages_s


@pytest.mark.parametrize("streams", [("location",), ("location", "pulse")])
def test_what_a_part_of_the_moves_saves_does_not_depend_on_the_others(streams: tuple[str, ...]) -> None:
    default = Device(3, 2)
    for seed in range(200):
        rng = random.Random(seed)
        demands = random_pairs(rng, streams, 8)
        before, after = ({pair: rng.choice((CLOUD, *pair.ids)) for pair in demands} for _ in range(2))
        parts = split_moves(before, after)
        assert sorted(pair for part in parts for pair in part.pairs) == sorted(
            pair for pair in demands if before[pair] != after[pair]
        )
        hosts = [host for part in parts for host in part.hosts]
        assert len(set(hosts)) == len(hosts) and CLOUD not in hosts
        chosen = [part for part in parts if rng.random() < 0.5]
        moved = before | {pair: after[pair] for part in chosen for pair in part.pairs}
        now, best = (price_traffic(count_traffic(demands, at), default, {}) for at in (before, after))
        saved = sum(now.get(host, 0) - best.get(host, 0) for part in chosen for host in part.hosts)
        assert cost(demands, before, default) - cost(demands, moved, default) == saved, (seed, demands)


@pytest.mark.parametrize("streams", [("location",), ("location", "pulse")])
def test_devices_that_are_gone_leave_what_removing_their_pairs_would(streams: tuple[str, ...]) -> None:
    for seed in range(100):
        rng = random.Random(seed)
        demands = random_pairs(rng, streams, 8)
        lost, without = GroupPlacement(Device(1, 1)), GroupPlacement(Device(1, 1))
        for group in (lost, without):
            group.change_pairs(added=demands)
        gone = frozenset(rng.sample(("d0", "d1", "d2", "d3"), rng.randint(1, 2)))
        lost.lose_devices(gone)
        without.change_pairs([pair for pair in demands if not gone.isdisjoint(pair.ids)])
        assert lost.demands == without.demands, seed
        assert cost(lost.demands, lost.place_all(), Device(1, 1)) == cost(
            without.demands, without.place_all(), Device(1, 1)
        ), (seed, demands)
        more = random_pairs(rng, streams, 3)
        for group in (lost, without):
            group.change_pairs(added=more)
        assert cost(lost.demands, lost.place_all(), Device(1, 1)) == cost(
            without.demands, without.place_all(), Device(1, 1)
        ), (seed, demands, more)
