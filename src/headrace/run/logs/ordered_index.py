"""Parts of the rows with a key: those near some place in an order.

Rows of an index that have a column `SORTED` are, within one hash, in the order of its bytes. So the rows between two
places, and so many before and after them, are found by halving; nothing else of the key's rows is read. Each index has
its own rows before a place, some of which are gone by now. What is read of all of them is complete only between the
last place at which one was cut and the first: rows beyond it are left out, and the answer says where that was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.run.logs.key_index import HASH, SORTED, KeyIndex, same_keys
from headrace.run.rows.changes import Positions


@dataclass(frozen=True, slots=True)
class Stretch:
    """Places from `low` to `high`, and how many rows to read before and after them; None is all."""

    low: bytes
    high: bytes
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class NearRows:
    """Rows with their positions in the probe. Of those that a probe row meets, all after its floor and before its
    ceiling are there; None is the end of the order.
    """

    positions: Positions
    rows: pa.Table
    floors: list[bytes | None]
    ceilings: list[bytes | None]


def meet_near(index: KeyIndex, probe: pa.Table, key: Sequence[str], stretches: Sequence[Stretch], few: int) -> NearRows:
    """Finds, for every row of `probe`, rows with its key that are near a stretch. NULL meets NULL.

    So `few` rows of a key in one index are all read, since they are not worth a search.
    """
    hashes = index.hasher(probe, key)
    floors: list[bytes | None] = [None] * len(hashes)
    ceilings: list[bytes | None] = [None] * len(hashes)
    found: list[tuple[Positions, pa.Table]] = []
    for batch in (batch for one in index.indexes for batch in one.to_batches() if batch.num_rows):
        of_batch = batch.column(HASH).to_numpy(zero_copy_only=True)
        places = batch.column(SORTED)
        lows, highs = np.searchsorted(of_batch, hashes, "left"), np.searchsorted(of_batch, hashes, "right")
        cuts = []
        for position in np.flatnonzero(highs > lows).tolist():
            low, high = int(lows[position]), int(highs[position])
            start, stop = _find_cut(places, low, high, stretches[position], few)
            if start > low:
                floors[position] = _larger(floors[position], places[start - 1].as_py())
            if stop < high:
                ceilings[position] = _smaller(ceilings[position], places[stop].as_py())
            cuts.append((position, start, stop))
        found += _take_cuts(batch, cuts)
    positions = np.concatenate([np.zeros(0, np.int64), *(where for where, _ in found)])
    rows = pa.concat_tables([index.no_rows(), *(rows for _, rows in found)])
    keep = _are_inside(positions, rows.column(SORTED), floors, ceilings)
    if key:  # a table without columns has no rows to compare
        keep &= same_keys(probe.select(list(key)).take(pa.array(positions)), rows.select(list(index.key)))
    return NearRows(positions[keep], rows.filter(pa.array(keep)), floors, ceilings)


def count_rows(index: KeyIndex, probe: pa.Table, key: Sequence[str]) -> list[int]:
    """How many rows indexes have with each key, those that are gone included; nothing of them is read."""
    hashes, counts = index.hasher(probe, key), np.zeros(probe.num_rows, np.int64)
    for batch in (batch for one in index.indexes for batch in one.to_batches() if batch.num_rows):
        of_batch = batch.column(HASH).to_numpy(zero_copy_only=True)
        counts += np.searchsorted(of_batch, hashes, "right") - np.searchsorted(of_batch, hashes, "left")
    return [int(count) for count in counts]


def _find_cut(places: pa.Array, low: int, high: int, stretch: Stretch, few: int) -> tuple[int, int]:
    if high - low <= few:
        return low, high
    start, stop = low, high
    if stretch.before is not None:
        start = max(low, _halve(places, low, high, stretch.low, before_equal=True) - stretch.before)
    if stretch.after is not None:
        stop = min(high, _halve(places, low, high, stretch.high, before_equal=False) + stretch.after)
    return start, stop


def _halve(places: pa.Array, low: int, high: int, sought: bytes, *, before_equal: bool) -> int:
    """The first place that is not below what is sought, or the first that is above it."""
    while low < high:
        middle = (low + high) // 2
        here = places[middle].as_py()
        if here < sought or (here == sought and not before_equal):
            low = middle + 1
        else:
            high = middle
    return low


def _take_cuts(batch: pa.RecordBatch, cuts: list[tuple[int, int, int]]) -> Iterator[tuple[Positions, pa.Table]]:
    if cuts:
        sizes = [stop - start for _, start, stop in cuts]
        where = np.repeat(np.array([position for position, _, _ in cuts], np.int64), sizes)
        rows = np.concatenate([np.arange(start, stop) for _, start, stop in cuts])
        yield where, pa.Table.from_batches([batch.drop_columns([HASH]).take(pa.array(rows))])


def _are_inside(
    positions: Positions, places: pa.ChunkedArray, floors: list[bytes | None], ceilings: list[bytes | None]
) -> np.ndarray:
    inside = np.ones(len(positions), np.bool_)
    for bounds, compare in ((floors, pc.greater), (ceilings, pc.less)):
        bound = pa.array(bounds, pa.binary()).take(pa.array(positions))
        inside &= pc.fill_null(compare(places, bound), True).to_numpy()
    return inside


def _larger(one: bytes | None, other: bytes) -> bytes:
    return other if one is None or other > one else one


def _smaller(one: bytes | None, other: bytes) -> bytes:
    return other if one is None or other < one else one
