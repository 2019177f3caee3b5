"""Where the phones of the demo go."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from headrace.app.demo_tracks import GEOLIFE, STEP_M, TIMES_AS_FAST, find_places, thin_track
from headrace.connect.tables.tracks import LONGEST_PAUSE_S, read_tracks
from headrace.meaning.scalar_number import find_distance


def test_without_tracks_phones_walk_about_a_town_each_at_its_own_pace() -> None:
    made = find_places(300)  # more than there are tracks
    assert made.origin == "generated walks"
    rows_of_a_minute = [sum(1 for seconds, _, _ in steps if seconds < 60) for steps in made.steps]
    assert min(rows_of_a_minute) >= 1 and max(rows_of_a_minute) > 3 * min(rows_of_a_minute)


def test_only_places_that_are_a_step_away_are_told() -> None:
    track = tuple((float(second), 39.98, 116.32 + second * 1e-5) for second in range(200))  # 0.85 m a second
    told = thin_track(track)
    assert 5 <= len(told) <= 7 and told[0] == (0.0, 39.98, 116.32)
    assert all(find_distance(*one[1:], *other[1:]) >= STEP_M for one, other in pairwise(told))
    assert told[-1][0] < 200 / TIMES_AS_FAST


def test_a_track_is_a_day_of_somebody_without_long_pauses(tmp_path: Path) -> None:
    start = dt.datetime(2008, 10, 24, 8)
    points = [
        (user, start + dt.timedelta(days=day, seconds=10 * n))
        for user in (1, 2)
        for day in (0, 3)
        for n in range(9 - day)
    ]
    points.append((1, start + dt.timedelta(hours=5)))
    table = pa.table(
        {
            "user": [user for user, _ in points],
            "ts": [ts for _, ts in points],
            "lat": [39.98] * len(points),
            "lon": [116.32] * len(points),
        }
    )
    pq.write_table(table, tmp_path / "tracks.parquet")
    tracks = read_tracks(tmp_path / "tracks.parquet", 3)
    assert [len(track) for track in tracks] == [10, 9, 6]
    assert tracks[0][0][0] == 0.0 and tracks[0][-1][0] == 80 + LONGEST_PAUSE_S


@pytest.mark.skipif(not GEOLIFE.is_file(), reason="GeoLife is not beside this checkout")
def test_twenty_people_of_geolife_go_about_the_same_part_of_town() -> None:
    places = find_places(20)
    assert places.origin == "GPS tracks of GeoLife" and len(places.steps) == 20
    first = [steps[0][1:] for steps in places.steps]
    assert max(find_distance(*one, *other) for one in first for other in first) < 10_000
