"""Reads where people went from a file of GPS points: the columns `user`, `ts`, `lat` and `lon`, as GeoLife has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import parquet as pq

from headrace.connect.tables.files import readable

Track = tuple[tuple[float, float, float], ...]
"""Seconds from the start, latitude and longitude of each point."""

WITHIN_DEGREES = 0.03
"""Tracks are taken from a part of the town where people meet: around the place where most of them are."""
LEAST_POINTS = 5
LONGEST_PAUSE_S = 600.0
"""Of a pause this much is kept: nobody watches a phone that lies on a table."""


def read_tracks(file: Path, count: int) -> list[Track]:
    """Days of whichever users, from those with the most points to those with few, evenly; at most `count` of them."""
    with readable(file):
        rows = pq.read_table(file, columns=["user", "ts", "lat", "lon"])
    rows = _near_most(rows).sort_by([("user", "ascending"), ("ts", "ascending")])
    seconds = rows["ts"].cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
    user, lat, lng = (rows[name].to_numpy() for name in ("user", "lat", "lon"))
    day = user.astype(np.int64) * 100_000 + seconds // 86_400
    starts = np.flatnonzero(np.diff(day, prepend=-1))
    parts = list(zip(starts, [*starts[1:], len(day)], strict=True))
    ordered = sorted((part for part in parts if part[1] - part[0] >= LEAST_POINTS), key=lambda part: part[0] - part[1])
    chosen = [ordered[number * len(ordered) // count] for number in range(min(count, len(ordered)))]
    return [_make_track(seconds[a:b], lat[a:b], lng[a:b]) for a, b in chosen]


def _near_most(rows: pa.Table) -> pa.Table:
    for name in ("lat", "lon"):
        middle = pc.quantile(rows[name], 0.5)[0].as_py()
        rows = rows.filter(pc.less(pc.abs(pc.subtract(rows[name], middle)), WITHIN_DEGREES))
    return rows


def _make_track(
    seconds: np.ndarray[tuple[int], np.dtype[np.int64]],
    lat: np.ndarray[tuple[int], np.dtype[np.float64]],
    lng: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> Track:
    passed = np.cumsum(np.minimum(np.diff(seconds, prepend=seconds[0]), LONGEST_PAUSE_S))
    return tuple(zip(passed.tolist(), lat.tolist(), lng.tolist(), strict=True))
