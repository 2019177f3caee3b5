"""Friendships and the rates at which friends need each other's positions, from a seed or from public data.

Degrees are log-normal (mean 172, sigma 1.2, at most 4956: the Facebook sample of the paper has 100,000 users, 8.6
million friendships and that maximum). The paper does not give its rate distribution; a heavy tail of about this
weight puts the factors into the paper's range, and the factor is a property of this distribution and of little else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.plan.place.pairs import Pairs

MEAN_FRIENDS, SPREAD, MOST_FRIENDS = 172.0, 1.2, 4956
UNIT = 1_000_000
"""Rates are integers: this many to one."""

STEP_M = 100.0
"""A position is told again after so many metres."""

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

RATES: dict[str, Draw] = {
    "log-normal 1.75": lambda numbers, count: numbers.lognormal(0.0, 1.75, count),
    "Pareto 1.5": lambda numbers, count: 1.0 + numbers.pareto(1.5, count),
}


def make_friends(users: int, friendships: int, seed: int, draw: Draw = RATES["log-normal 1.75"]) -> Pairs:
    """Distinct pairs of users, in no order, with independent rates for both directions."""
    numbers = np.random.default_rng(seed)
    weight = np.minimum(numbers.lognormal(0.0, SPREAD, users), MOST_FRIENDS / MEAN_FRIENDS * np.exp(SPREAD**2 / 2))
    a, b = _distinct(numbers, np.cumsum(weight) / weight.sum(), friendships)
    return with_rates(a, b, draw, numbers)


def _distinct(
    numbers: np.random.Generator, share: Floats, friendships: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Pairs drawn by weight, repeated ones and loops dropped, until there are enough."""
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < friendships:
        wanted = int((friendships - len(keys)) * 1.1) + 1000
        one, other = (np.searchsorted(share, numbers.random(wanted)).astype(np.int64) for _ in range(2))
        drawn = (np.minimum(one, other) << 32 | np.maximum(one, other))[one != other]
        keys = np.unique(np.concatenate([keys, drawn]))
    keys = numbers.permutation(keys)[:friendships]
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


def with_rates(a: NDArray[np.int32], b: NDArray[np.int32], draw: Draw, numbers: np.random.Generator) -> Pairs:
    rates = (np.rint(draw(numbers, len(a)) * UNIT).astype(np.int64) for _ in range(2))
    return Pairs(a, b, *rates)


def real_graphs(folder: Path) -> Iterator[tuple[str, NDArray[np.int32], NDArray[np.int32]]]:
    """Public friendship graphs, each edge once and without loops; nothing when the folder is not there."""
    from pyarrow import parquet as pq

    for file in sorted(folder.glob("*_edges.parquet")):
        table = pq.read_table(file)
        one, other = (table[name].to_numpy().astype(np.int64) for name in ("src", "dst"))
        pairs = np.unique((np.minimum(one, other) << 32 | np.maximum(one, other))[one != other])
        names = np.unique(np.concatenate([pairs >> 32, pairs & 0xFFFFFFFF]))
        a, b = (np.searchsorted(names, ends).astype(np.int32) for ends in (pairs >> 32, pairs & 0xFFFFFFFF))
        yield file.stem.removesuffix("_edges"), a, b


def geolife_draw(file: Path) -> Draw | None:
    """How often somebody who carried a GPS logger had to tell a position, in some hour of the GeoLife trace.

    A draw is one user's hour: the way walked or driven in it, in steps of 100 m, and at least one message.
    """
    if not file.is_file():
        return None
    from pyarrow import parquet as pq

    table = pq.read_table(file, columns=["user", "ts", "lat", "lon"]).sort_by(
        [("user", "ascending"), ("ts", "ascending")]
    )
    user = table["user"].to_numpy()
    seconds = table["ts"].cast("timestamp[s]").cast("int64").to_numpy()
    lat, lon = (np.radians(table[name].to_numpy()) for name in ("lat", "lon"))
    metres = 6_371_000.0 * np.hypot(np.diff(lat), np.diff(lon) * np.cos(lat[1:]))
    # A gap is time without the logger; a leap is a wrong fix.
    together = (np.diff(user) == 0) & (np.diff(seconds) <= 60) & (metres < 3000)
    hour = user[1:].astype(np.int64) * 10**7 + seconds[1:] // 3600
    hours = np.unique(hour, return_inverse=True)[1]
    steps = np.maximum(1.0, np.bincount(hours, weights=np.where(together, metres, 0.0)) / STEP_M)
    return lambda numbers, count: numbers.choice(steps, count)
