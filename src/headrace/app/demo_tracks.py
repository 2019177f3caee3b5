"""Where the phones of the demo go: days of people who carried a GPS logger (GeoLife) if that file is there, else walks.

A phone tells a place when it is a step away from the last one, so whoever sits tells little and whoever drives tells
much. Time passes many times as fast as it did.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.connect.tables.tracks import Track, read_tracks
from headrace.meaning.scalar_number import find_distance

STEP_M = 25.0
TIMES_AS_FAST = 40.0
GEOLIFE = Path(__file__).resolve().parents[4] / "shared" / "data" / "trajectories" / "geolife_points.parquet"
"""Where a checkout may have the file beside it; it may not be passed on with the product."""

CENTRE = (39.98, 116.32)
METRES_PER_DEGREE = 111_195.0
TOWN_M = 1_500.0
WALKED_S = 6 * 3600.0
LOOKED_AT_S, LOOKS = 240.0, 60
NEAR_M = 300.0


@dataclass(frozen=True, slots=True)
class DemoPlaces:
    """`steps` has for each phone when it is where, in seconds of the demo; `origin` says where that is from."""

    steps: tuple[Track, ...]
    origin: str


def find_places(count: int, file: Path | None = None) -> DemoPlaces:
    chosen = file or (GEOLIFE if GEOLIFE.is_file() else None)
    tracks = [] if chosen is None else read_tracks(chosen, count)
    if len(tracks) == count:
        return DemoPlaces(_alternate(map(thin_track, tracks)), "GPS tracks of GeoLife")
    return DemoPlaces(_alternate(thin_track(_walk(phone)) for phone in range(count)), "generated walks")


def _alternate(tracks: Iterable[Track]) -> tuple[Track, ...]:
    """Somebody who moves much, then somebody who moves little and comes near, and so on: friends are such pairs."""
    busiest = sorted(tracks, key=lambda track: -sum(1 for seconds, _, _ in track if seconds < LOOKED_AT_S))
    half = len(busiest) // 2
    found, quiet = list[Track](), busiest[half:]
    for busy in busiest[:half]:
        friend = max(quiet, key=lambda other: _count_near(busy, other))
        quiet.remove(friend)
        found += [busy, friend]
    return (*found, *quiet)


def _count_near(one: Track, other: Track) -> int:
    """How often the two are near each other, of some looks."""
    looks = [number * LOOKED_AT_S / LOOKS for number in range(LOOKS)]
    places = zip(_places_at(one, looks), _places_at(other, looks), strict=True)
    return sum(find_distance(*mine, *theirs) < NEAR_M for mine, theirs in places)


def _places_at(track: Track, times: Sequence[float]) -> list[tuple[float, float]]:
    starts = [seconds for seconds, _, _ in track]
    return [track[max(0, bisect_right(starts, time) - 1)][1:] for time in times]


def thin_track(track: Track) -> Track:
    """Only places that are a step away from the one before, in seconds of the demo."""
    return tuple((seconds / TIMES_AS_FAST, lat, lng) for seconds, lat, lng in _find_steps(track))


def _find_steps(track: Track) -> Iterator[tuple[float, float, float]]:
    last: tuple[float, float] | None = None
    for seconds, lat, lng in track:
        if last is None or find_distance(*last, lat, lng) >= STEP_M:
            last = (lat, lng)
            yield seconds, lat, lng


def _walk(phone: int) -> Track:
    """Somebody who walks from one corner of a small town to another, and sits there for a while."""
    chance = random.Random(phone)
    speed_m_s = chance.choice((0.2, 0.4, 1.4, 2.5, 4.0))
    x, y, now, found = chance.uniform(0, TOWN_M), chance.uniform(0, TOWN_M), 0.0, []
    while now < WALKED_S:
        to_x, to_y = chance.uniform(0, TOWN_M), chance.uniform(0, TOWN_M)
        way_m = math.hypot(to_x - x, to_y - y)
        steps = max(1, int(way_m / STEP_M))
        for step in range(1, steps + 1):
            share = step / steps
            found.append((now + share * way_m / speed_m_s, *_place(x + share * (to_x - x), y + share * (to_y - y))))
        now += way_m / speed_m_s + chance.expovariate(1 / 900.0)
        x, y = to_x, to_y
    return tuple(found)


def _place(x_m: float, y_m: float) -> tuple[float, float]:
    lat, lng = CENTRE
    east = METRES_PER_DEGREE * math.cos(math.radians(lat))
    return round(lat + y_m / METRES_PER_DEGREE, 6), round(lng + x_m / east, 6)
