"""Views over pairs of devices as columns of integers: the form in which millions of them are decided.

Devices are numbers. `rate_a` is the rate of a's feed that the view needs, `rate_b` of b's. A price or rate never
needs more than an exact integer: `plan.place.single` scales what people write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.plan.exact_numbers import SAFE, IntArray

IN_CLOUD, AT_A, AT_B = 0, 1, 2
"""Where a pair's view runs."""

Where = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Pairs:
    """One view per entry. `load` is what it takes of its device's capacity (None: capacities play no part)."""

    a: NDArray[np.int32]
    b: NDArray[np.int32]
    rate_a: IntArray
    rate_b: IntArray
    load: IntArray | None = None

    def __len__(self) -> int:
        return len(self.a)


@dataclass(frozen=True, slots=True)
class Star:
    """Prices per device, up and down; the load that each can hold (None: any); and which feeds are in the Cloud."""

    up: IntArray
    down: IntArray
    cloud: NDArray[np.bool_]
    capacity: IntArray | None = None

    def __len__(self) -> int:
        return len(self.up)


def runs_on_device(rate: Any, limit: Any) -> Any:
    """Whether a device that uploads its feed up to a limit runs a view that needs the feed at a rate.

    For single numbers, and for columns of any engine.
    """
    return rate > limit


def exact_in_int64(pairs: Pairs, star: Star) -> tuple[Pairs, Star]:
    """The numbers, as Python integers where some device's costs or loads might not fit into 64 bits."""
    if _largest_cost(pairs, star) < SAFE and _largest_load(pairs) < SAFE:
        return pairs, star
    return _as_objects(pairs), star_of_objects(star)


def star_of_objects(star: Star) -> Star:
    capacity = None if star.capacity is None else star.capacity.astype(object)
    return Star(star.up.astype(object), star.down.astype(object), star.cloud, capacity)


def _as_objects(pairs: Pairs) -> Pairs:
    load = None if pairs.load is None else pairs.load.astype(object)
    return Pairs(pairs.a, pairs.b, pairs.rate_a.astype(object), pairs.rate_b.astype(object), load)


def _largest_cost(pairs: Pairs, star: Star) -> int:
    if not len(pairs):
        return 0
    fastest = max(int(pairs.rate_a.max()), int(pairs.rate_b.max()))
    degree = np.bincount(pairs.a, minlength=len(star)) + np.bincount(pairs.b, minlength=len(star))
    return largest_cost(fastest, star, int(degree.max()))


def largest_cost(fastest: int, star: Star, views: int) -> int:
    """A bound on what a device with so many views may pay for any choice.

    Not less than the rates themselves, which are compared and added up even where nothing is paid.
    """
    return fastest * max(1, int(star.up.max()), int(star.down.max())) * (views + 1)


def _largest_load(pairs: Pairs) -> int:
    return 0 if pairs.load is None or not len(pairs) else int(pairs.load.max()) * len(pairs)


def find_wanted_twice(pairs: Pairs, limit: IntArray) -> NDArray[np.int64]:
    """Positions of the views that both devices want."""
    both = runs_on_device(pairs.rate_a, limit[pairs.a])
    both &= runs_on_device(pairs.rate_b, limit[pairs.b])
    return np.flatnonzero(both)
