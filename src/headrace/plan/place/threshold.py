"""One level, each device alone: the rate up to which a device uploads its feed; views that need it faster run on the
device.

For a device with views j, own rates r_j and partner rates q_j, an upload limit x costs

    g(x) = up * x + down * sum{ q_j : r_j > x },     x = 0 or one of the r_j

and the cheapest x is found by one sort. Among equals the LARGEST x is taken, which means the fewest views on the
device: then no two devices claim the same view wherever up_i * up_j <= down_i * down_j, and the devices' own optima
are together the optimum. With a capacity only limits that leave few enough views count: the views on a device are
always those with the highest rates, so there is nothing to pack. (RACE, VLDB 2013, Lemma 3, with the tie-break that
its proof needs.)

Devices are taken in ranges of about a hundred thousand view ends: sorting stays inside the processor's caches and
temporary memory small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headrace.plan.exact_numbers import IntArray
from headrace.plan.place.pairs import Pairs, Star

RANGE_ENDS = 1 << 17
RANGE_DEVICES = 1 << 16
CHUNK = 1 << 22


@dataclass(frozen=True, slots=True)
class Ends:
    """View ends by device: the device's own rate, what running the view there adds to its downloads, and the view's
    load.
    """

    device: IntArray
    own: IntArray
    down: IntArray
    load: IntArray | None


@dataclass(frozen=True, slots=True)
class Local:
    """What a device decides alone: the upload limit, its cost, and the cost of uploading for every view (all in the
    Cloud).
    """

    limit: IntArray
    cost: IntArray
    all_cloud: IntArray


@dataclass(frozen=True, slots=True)
class Curves:
    """Every upload limit worth considering and its cost, per device.

    `fastest` is the limit at which a device uploads for all its views, `all_cloud` its cost. Lower limits are at
    `start[d]:start[d + 1]` and fall within a device; those that break a capacity are left out.
    """

    fastest: IntArray
    all_cloud: IntArray
    start: IntArray
    limit: IntArray
    cost: IntArray


def local_thresholds(pairs: Pairs, star: Star, down_a: IntArray, down_b: IntArray) -> Local:
    """Every device's own optimum. `down_a` is what each view adds to a's downloads if it runs there."""
    dtype = pairs.rate_a.dtype
    limit = np.zeros(len(star), dtype=dtype)
    cost, all_cloud = limit.copy(), limit.copy()
    for first, last, ends in device_ranges(pairs, star, down_a, down_b):
        found = own_optima(cost_curves(ends, star, first, last))
        limit[first:last], cost[first:last], all_cloud[first:last] = found.limit, found.cost, found.all_cloud
    if len(pairs):
        limit[star.cloud] = max(pairs.rate_a.max(), pairs.rate_b.max())
    return Local(limit, cost, all_cloud)


def cost_curves(ends: Ends, star: Star, first: int, last: int) -> Curves:
    """g at every distinct own rate and at 0, for the devices numbered first..last-1."""
    order = by_device_then_rate(ends.device, ends.own)
    device, own = ends.device[order], ends.own[order]
    views = np.bincount(device, minlength=last - first)
    before = np.cumsum(views) - views
    lower = _next_lower(own, before[views > 0])
    # Equal rates move together: only behind the last of them is there a limit between views.
    group_end = np.flatnonzero(own != lower) if len(own) else np.empty(0, np.int64)
    owner = device[group_end].astype(np.int64)
    # Wrapping around in int64 is harmless: only differences within a device are used, and they fit.
    down = np.concatenate([np.zeros(1, own.dtype), np.cumsum(ends.down[order], dtype=own.dtype)])
    fetched = down[group_end + 1] - down[before][owner]
    lower = lower[group_end]
    up, price = star.up[first:last], star.down[first:last]
    cost = up[owner] * lower + price[owner] * fetched
    kept = _within_capacity(ends.load, order, star, first, group_end, owner, before)
    fastest = np.zeros(last - first, dtype=own.dtype)
    fastest[views > 0] = own[before[views > 0]]
    start = np.concatenate([[0], np.cumsum(np.bincount(owner[kept], minlength=last - first))])
    return Curves(fastest, up * fastest, start, lower[kept], cost[kept])


def _next_lower(own: IntArray, device_start: IntArray) -> IntArray:
    """The own rate of the same device's next view, 0 behind its last."""
    lower = np.zeros_like(own)
    lower[:-1] = own[1:]
    lower[device_start[1:] - 1] = 0
    return lower


def _within_capacity(
    load: IntArray | None,
    order: IntArray,
    star: Star,
    first: int,
    group_end: IntArray,
    owner: IntArray,
    before: IntArray,
) -> IntArray | slice:
    if load is None or star.capacity is None:
        return slice(None)
    held = np.concatenate([np.zeros(1, load.dtype), np.cumsum(load[order], dtype=load.dtype)])
    fits: IntArray = held[group_end + 1] - held[before][owner] <= star.capacity[first:][owner]
    return fits


def own_optima(curves: Curves) -> Local:
    """The largest of the cheapest limits of each device, its cost, and that of uploading for all views."""
    limit, cost = curves.fastest.copy(), curves.all_cloud.copy()
    steps = np.diff(curves.start)
    some = np.flatnonzero(steps)
    if not len(some):
        return Local(limit, cost, curves.all_cloud)
    starts = curves.start[some]
    least = np.minimum.reduceat(curves.cost, starts)
    at_least = np.flatnonzero(curves.cost == np.repeat(least, steps[some]))
    chosen = curves.limit[at_least[np.searchsorted(at_least, starts)]]
    better = np.flatnonzero(least < cost[some])
    limit[some[better]], cost[some[better]] = chosen[better], least[better]
    return Local(limit, cost, curves.all_cloud)


def by_device_then_rate(device: IntArray, own: IntArray) -> IntArray:
    """The order by device, then by falling rate. Devices are 16-bit numbers."""
    position_bits = max(1, len(own).bit_length())
    if own.dtype != object and len(own) and int(own.max()) < 1 << (62 - position_bits):
        # Sorting values is several times faster than sorting positions, so the position rides in the low bits.
        key = ((own.max() - own) << position_bits) | np.arange(len(own))
        key.sort()
        fastest_first = key & ((1 << position_bits) - 1)
    else:
        fastest_first = np.argsort(-own, kind="stable")
    order: IntArray = fastest_first[np.argsort(device[fastest_first], kind="stable")]
    return order


def device_ranges(pairs: Pairs, star: Star, down_a: IntArray, down_b: IntArray) -> Iterator[tuple[int, int, Ends]]:
    """The view ends of all devices outside the Cloud, some devices at a time, as (first, last + 1, ends counted from
    first).
    """
    degree = np.bincount(pairs.a, minlength=len(star)) + np.bincount(pairs.b, minlength=len(star))
    degree[star.cloud] = 0
    bounds = _range_bounds(degree)
    range_of = np.repeat(np.arange(len(bounds) - 1, dtype=np.uint16), np.diff(bounds))
    sides = ((pairs.a, pairs.rate_a, down_a), (pairs.b, pairs.rate_b, down_b))
    if len(bounds) <= 2:
        yield 0, len(star), _all_ends(sides, star, pairs.load)
        return
    filled = _scatter(sides, star, pairs.load, range_of, bounds, degree)
    offsets = np.concatenate([[0], np.cumsum(degree)])[bounds]
    for number, (first, last) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        part = slice(int(offsets[number]), int(offsets[number + 1]))
        load = None if filled.load is None else filled.load[part]
        yield first, last, Ends(filled.device[part], filled.own[part], filled.down[part], load)


Side = tuple[NDArray[np.int32], IntArray, IntArray]


def _range_bounds(degree: IntArray) -> IntArray:
    """Cuts the devices into ranges of at most 2**16 devices and about 2**17 view ends (more if one device has them)."""
    if not len(degree):
        return np.array([0, 0])
    steps = np.cumsum(degree) // RANGE_ENDS + np.arange(len(degree)) // RANGE_DEVICES
    return np.concatenate([[0], np.flatnonzero(np.diff(steps)) + 1, [len(degree)]])


def _all_ends(sides: tuple[Side, Side], star: Star, load: IntArray | None) -> Ends:
    kept = [~star.cloud[device] for device, _, _ in sides]
    device, own, down = (
        np.concatenate([side[column][keep] for side, keep in zip(sides, kept, strict=True)]) for column in range(3)
    )
    loads = None if load is None else np.concatenate([load[keep] for keep in kept])
    return Ends(device.astype(np.uint16), own, down, loads)


def _scatter(
    sides: tuple[Side, Side], star: Star, load: IntArray | None, range_of: IntArray, bounds: IntArray, degree: IntArray
) -> Ends:
    """One pass over the pairs that puts every view end into the stretch of its range."""
    count = int(degree.sum())
    own_type = sides[0][1].dtype
    filled = Ends(
        np.empty(count, np.uint16),
        np.empty(count, own_type),
        np.empty(count, own_type),
        None if load is None else np.empty(count, load.dtype),
    )
    written = np.concatenate([[0], np.cumsum(degree)])[bounds[:-1]]
    base = bounds[:-1].astype(np.int32)
    for device, own, down in sides:
        for begin in range(0, len(device), CHUNK):
            chunk = slice(begin, begin + CHUNK)
            here = device[chunk]
            ranges = range_of[here]
            order = np.argsort(ranges, kind="stable")
            order = order[~star.cloud[here[order]]] if star.cloud.any() else order
            ranges = ranges[order]
            columns = [(filled.device, (here[order] - base[ranges]).astype(np.uint16))]
            columns += [(filled.own, own[chunk][order]), (filled.down, down[chunk][order])]
            if load is not None and filled.load is not None:
                columns.append((filled.load, load[chunk][order]))
            _append(columns, ranges, written)
    return filled


def _append(columns: list[tuple[IntArray, IntArray]], ranges: IntArray, written: IntArray) -> None:
    """Copies each run of equal range numbers behind what its range already holds."""
    changes = np.flatnonzero(ranges[1:] != ranges[:-1]) + 1
    for start, stop in pairwise([0, *changes.tolist(), len(ranges)]):
        number = ranges[start] if stop > start else 0
        into = slice(int(written[number]), int(written[number]) + stop - start)
        for target, values in columns:
            target[into] = values[start:stop]
        written[number] += stop - start
