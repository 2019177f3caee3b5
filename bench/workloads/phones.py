"""Phones, their friends, how often each tells its position, and where it goes; from a seed or from public data.

Zipf        RACE's deployment (VLDB 2013, section 5.3, bullets 3 to 5): rates 1 to 10 a second and friends up to a
            tenth of all phones, both Zipf with z = 2; everybody chooses friends by themselves
Brightkite  friendships among the first phones that a walk over the public graph meets; how often a friend needs
            to know is drawn per friend from the GeoLife trace, as in section 5.3, bullet 1
simulated   the same with a made graph and a made trace, where the public files are not
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.workloads.friends import Draw, geolife_draw, real_graphs

Numbers = NDArray[np.int32]
Floats = NDArray[np.float64]

ZIPF = 2.0
FASTEST = 10
FRIENDS_SHARE = 0.1
"""At most so large a part of all are friends of one."""

FASTER, SLOWER = 5.0, 2.33
"""What RACE changes rates by after two minutes: half of the phones by each."""

HOUR_S = 3600.0
WALKED_STEPS = (3.0, 1.0)
"""A made trace: mean and spread of the logarithm of steps per hour, about those of GeoLife."""

METRES_PER_DEGREE = 111_194.9
CENTRE = (39.98, 116.32)


@dataclass(frozen=True, slots=True)
class Phones:
    """Phones 0 to n - 1. `rate` is rows per second that each makes; pair k needs a row of `a[k]` every `every_a[k]`
    seconds, or each of them if that is 0.
    """

    origin: str
    rate: Floats
    a: Numbers
    b: Numbers
    every_a: Floats
    every_b: Floats

    def __len__(self) -> int:
        return len(self.rate)

    @property
    def needed_a(self) -> Floats:
        """Rows per second that each pair needs of its `a`."""
        return _find_needed(self.rate[self.a], self.every_a)

    @property
    def needed_b(self) -> Floats:
        return _find_needed(self.rate[self.b], self.every_b)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.a.tolist(), self.b.tolist(), strict=True))


def _find_needed(rate: Floats, every: Floats) -> Floats:
    return np.where(every > 0, np.minimum(rate, 1 / np.where(every > 0, every, 1.0)), rate)


# RACE's deployment


def make_zipf_phones(count: int, seed: int) -> Phones:
    numbers = np.random.default_rng(seed)
    friends = draw_zipf(numbers, count, max(1, int(FRIENDS_SHARE * count)))
    chosen = {_order(one, other) for one in range(count) for other in _choose(numbers, count, one, int(friends[one]))}
    return _without_sampling(f"{count} phones, Zipf {ZIPF:g}", draw_zipf(numbers, count, FASTEST).astype(float), chosen)


def draw_zipf(numbers: np.random.Generator, count: int, most: int) -> Numbers:
    """Numbers from 1 to `most`, k as often as 1 / k**2."""
    values = np.arange(1, most + 1)
    share = values**-ZIPF
    return numbers.choice(values, count, p=share / share.sum()).astype(np.int32)


def change_rates(phones: Phones, seed: int) -> Phones:
    """Half of the phones have more rows, the others fewer."""
    chosen = np.random.default_rng([seed, 1]).permutation(len(phones)) < len(phones) // 2
    return replace(phones, rate=np.where(chosen, phones.rate * FASTER, phones.rate / SLOWER))


def make_alice_and_bob(per_hour: float) -> Phones:
    """Phone 0 has one row an hour, phone 1 has `per_hour`."""
    return _without_sampling("Alice and Bob", np.array([1.0, per_hour]) / HOUR_S, {(0, 1)})


def _choose(numbers: np.random.Generator, count: int, one: int, friends: int) -> Iterator[int]:
    for other in numbers.choice(count - 1, min(friends, count - 1), replace=False).tolist():
        yield other + (other >= one)


def _order(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def _without_sampling(origin: str, rate: Floats, pairs: set[tuple[int, int]]) -> Phones:
    a, b = (np.array([pair[side] for pair in sorted(pairs)], dtype=np.int32) for side in (0, 1))
    return Phones(origin, rate, a, b, np.zeros(len(a)), np.zeros(len(a)))


# Public data


def make_sampled_phones(count: int, seed: int, data: Path, hours_per_hour: float) -> Phones:
    """Friendships of Brightkite and rates of GeoLife, or made ones that are called simulated.

    Everything happens `hours_per_hour` times as fast. A pair's interval is a power of two of the shortest one: then
    rows for one reader are rows for a slower reader as well, as the model has it.
    """
    numbers = np.random.default_rng(seed)
    draw = geolife_draw(data / "trajectories" / "geolife_points.parquet")
    graph = next((found[1:] for found in real_graphs(data / "graphs") if found[0] == "brightkite"), None)
    a, b = _make_graph(numbers, count) if graph is None else _walk_graph(numbers, *graph, count)
    named = "a made graph (simulated)" if graph is None else "Brightkite"
    rated = "a made trace (simulated)" if draw is None else "GeoLife"
    every_a, every_b = (_draw_intervals(numbers, draw or _draw_steps, len(a), hours_per_hour) for _ in range(2))
    fastest = np.full(count, np.inf)
    for ends, every in ((a, every_a), (b, every_b)):
        np.minimum.at(fastest, ends, every)
    origin = f"{count} phones, friends of {named}, rates of {rated} times {hours_per_hour:g}"
    return Phones(origin, np.where(np.isinf(fastest), 0.0, 1 / fastest), a, b, every_a, every_b)


def _draw_intervals(numbers: np.random.Generator, draw: Draw, count: int, hours_per_hour: float) -> Floats:
    seconds = HOUR_S / hours_per_hour / draw(numbers, count)
    powers: Floats = 2.0 ** np.rint(np.log2(seconds))
    return powers


def _draw_steps(numbers: np.random.Generator, count: int) -> Floats:
    return np.maximum(1.0, numbers.lognormal(*WALKED_STEPS, count))


def _walk_graph(numbers: np.random.Generator, a: Numbers, b: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """The friendships among the first `count` people of friendships in random order: a dense part, as apps spread."""
    order = numbers.permutation(len(a))
    ends = np.stack([a[order], b[order]], axis=1).ravel()
    _, first = np.unique(ends, return_index=True)
    known = ends[np.sort(first)[:count]]
    number = np.full(int(max(a.max(), b.max())) + 1, -1, dtype=np.int32)
    number[known] = np.arange(len(known), dtype=np.int32)
    inside = (number[a] >= 0) & (number[b] >= 0)
    return number[a[inside]], number[b[inside]]


def _make_graph(numbers: np.random.Generator, count: int) -> tuple[Numbers, Numbers]:
    """About as many friendships as Brightkite has: eleven for each phone, very unequally."""
    weight = numbers.pareto(1.5, count) + 1
    wanted = int(5.5 * count)
    ends = numbers.choice(count, (4 * wanted, 2), p=weight / weight.sum())
    ends = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1)
    ends = np.unique(ends, axis=0)
    chosen = numbers.permutation(len(ends))[:wanted]
    return ends[chosen, 0].astype(np.int32), ends[chosen, 1].astype(np.int32)


# Where they go


class Walk:
    """Where one phone is, row by row: straight on, turning now and then, and back at the edge of the town.

    Each row is another place, so that none could be left out as unchanged.
    """

    def __init__(self, phone: int, seed: int, town_m: float, step_m: float) -> None:
        self._numbers = np.random.default_rng([seed, 2, phone])
        self._town_m, self._step_m = town_m, step_m
        self._x, self._y = (self._numbers.random(2) * town_m).tolist()
        self._heading = float(self._numbers.random()) * 2 * math.pi

    def step(self) -> tuple[float, float]:
        """Latitude and longitude."""
        self._heading += float(self._numbers.normal(0.0, 0.3))
        self._x = _reflect(self._x + self._step_m * math.cos(self._heading), self._town_m)
        self._y = _reflect(self._y + self._step_m * math.sin(self._heading), self._town_m)
        return place_at(self._x, self._y)


def place_at(x_m: float, y_m: float) -> tuple[float, float]:
    """Metres east and north of the centre as latitude and longitude."""
    latitude, longitude = CENTRE
    east = METRES_PER_DEGREE * math.cos(math.radians(latitude))
    return round(latitude + y_m / METRES_PER_DEGREE, 7), round(longitude + x_m / east, 7)


def _reflect(value: float, most: float) -> float:
    if value < 0:
        return -value
    return 2 * most - value if value > most else value
