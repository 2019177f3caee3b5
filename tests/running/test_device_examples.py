"""The four projects of `examples/` with devices: each equals its SQL over everything that phones published.

Pairs run in the cloud at first and on phones once rates are known; the answer is looked at before and after that.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from bench.devices_oracle import Published
from headrace.connect.postgres.embedded import EmbeddedPostgres
from tests.running.phones import DAY_MS, EXAMPLES, RunningPhones, make_sample_databases, running_example

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]

CENTRE = (39.983, 116.319)
NEAR, FAR = 0.002, 0.006
"""Degrees around the centre: everybody meets everybody, or now and then somebody."""
MOVED_WITHIN_S = 240.0
COUNTED_WITHIN_S = 60.0


def locations() -> Published:
    return Published(("lat", "lng"))


def walk(phones: RunningPhones, uids: list[int], rows: int, spread: float, seed: int, pause_s: float = 0.0) -> None:
    """The first of the phones has by far the most rows, so views are worth running there."""
    chance = random.Random(seed)
    for number in range(rows):
        for uid in uids if number % 10 == 0 else uids[:1]:
            lat, lng = (middle + chance.uniform(-spread, spread) for middle in CENTRE)
            phones.publish(uid, "location", {"lat": round(lat, 6), "lng": round(lng, 6)})
        time.sleep(pause_s)


def read_pairs(phones: RunningPhones, table: str, *columns: str) -> list[tuple[int, ...]]:
    found = phones.tables[table].select(list(columns)).to_pylist()
    return [tuple(row[column] for column in columns) for row in found]


def walk_until_on_devices(phones: RunningPhones, template: str, uids: list[int], spread: float) -> None:
    """Rows go on until pairs have moved: rates have to be seen, and moving has to pay."""
    ending = threading.Event()

    def go_on() -> None:
        seed = 100
        while not ending.is_set():
            seed += 1
            walk(phones, uids, 10, spread, seed, pause_s=0.03)

    walking = threading.Thread(target=go_on)
    walking.start()
    try:
        end = time.monotonic() + MOVED_WITHIN_S
        while not phones.count_on_devices(template):
            assert time.monotonic() < end, f"no pair runs on a phone after {MOVED_WITHIN_S:g} s"
            time.sleep(1.0)
    finally:
        ending.set()
        walking.join()


@pytest.fixture
def friends(
    tmp_path: Path,
    server: EmbeddedPostgres,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[tuple[RunningPhones, str]]:
    """The only one of them with a database."""
    variables = make_sample_databases(server, "friends")
    for name, address in variables.items():
        monkeypatch.setenv(name, address)
    folder = tmp_path / "friends"
    shutil.copytree(EXAMPLES / "friends", folder, ignore=shutil.ignore_patterns(".headrace"))
    made = RunningPhones(folder, capsys, {}, {"location": locations()})
    try:
        made.up()
        yield made, variables["PEOPLE_DSN"]
    finally:
        made.down()


def test_friends_who_are_near_each_other_are_found_wherever_their_view_runs(
    friends: tuple[RunningPhones, str],
) -> None:
    phones, address = friends
    uids = list(range(1, 21))
    phones.connect(uids)
    with psycopg.connect(address, autocommit=True) as session:

        def pairs() -> list[tuple[int, ...]]:
            return session.execute("SELECT uid, friend FROM friends").fetchall()

        walk(phones, uids, 11, NEAR, 1)
        assert phones.until_right("nearby_friends", pairs()), "some are near"
        walk_until_on_devices(phones, "nearby", uids, NEAR)
        walk(phones, uids, 21, NEAR, 2)
        assert phones.until_right("nearby_friends", pairs())
        assert phones.heard, "a phone has computed something itself"
        placed = phones.find_placed(uids)
        assert placed
        session.execute("DELETE FROM friends WHERE uid = %s AND friend = %s", sorted(placed[0]))
        session.execute("INSERT INTO friends VALUES (1, 20) ON CONFLICT DO NOTHING")
        phones.until_right("nearby_friends", pairs())
        walk(phones, uids, 11, NEAR, 3)
        phones.until_right("nearby_friends", pairs())


def test_coupons_of_shops_nearby_are_found_on_the_phone_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_example("coupons", tmp_path, capsys, {"location": locations()}) as phones:
        pairs = read_pairs(phones, "people", "uid")
        uids = [uid for (uid,) in pairs]
        phones.connect(uids)
        walk(phones, uids, 11, FAR, 1)
        assert phones.until_right("coupons_nearby", pairs), "some are near a shop"
        walk_until_on_devices(phones, "coupons", uids, FAR)
        walk(phones, uids, 21, FAR, 2)
        phones.until_right("coupons_nearby", pairs)
        assert phones.heard, "a phone has computed something itself"


def test_who_was_here_within_a_week_is_found_from_all_rows_that_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = {"location": locations(), "checkin": Published(("lat", "lng", "note"))}
    with running_example("visits", tmp_path, capsys, streams, keep_ms={"checkin": 7 * DAY_MS}) as phones:
        pairs = read_pairs(phones, "friends", "uid", "friend")
        uids = sorted({uid for pair in pairs for uid in pair})
        phones.connect(uids)
        check_in(phones, uids, 1)
        walk(phones, uids, 11, NEAR, 1)
        assert phones.until_right("friends_who_were_here", pairs), "somebody was there"
        walk_until_on_devices(phones, "was_here", uids, NEAR)
        check_in(phones, uids, 2)
        walk(phones, uids, 21, NEAR, 2)
        phones.until_right("friends_who_were_here", pairs)


def check_in(phones: RunningPhones, uids: list[int], seed: int) -> None:
    """Some days ago; a few of them more than a week."""
    chance = random.Random(seed)
    now_ms = time.time_ns() // 1_000_000
    for uid in uids:
        for number, days in enumerate(sorted((0.0, 1.0, 3.5, 6.9, 7.1, 30.0), reverse=True)):
            lat, lng = (round(middle + chance.uniform(-NEAR, NEAR), 6) for middle in CENTRE)
            row = {"lat": lat, "lng": lng, "note": f"{uid} was here, {seed}.{number}"}
            phones.publish(uid, "checkin", row, now_ms - int(days * DAY_MS) + number)


def test_friends_at_one_place_are_found_through_a_view_of_each_phone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_example("places", tmp_path, capsys, {"location": locations()}) as phones:
        pairs = read_pairs(phones, "friends", "uid", "friend")
        uids = sorted({uid for pair in pairs for uid in pair})
        phones.connect(uids)
        walk(phones, uids, 11, NEAR, 1)
        assert phones.until_right("friends_at_one_place", pairs), "some are together"
        walk_until_on_devices(phones, "together", uids, NEAR)
        walk(phones, uids, 21, NEAR, 2)
        phones.until_right("friends_at_one_place", pairs)


LIBRARY, STATION = (39.9840, 116.3180), (39.9802, 116.3262)
"""Two of the places, with none other within 200 m."""


def be_at(phones: RunningPhones, uid: int, place: tuple[float, float], number: int = 0) -> None:
    """Somewhere within a few metres of a place, each time elsewhere."""
    lat, lng = (round(middle + number * 0.00001, 6) for middle in place)
    phones.publish(uid, "location", {"lat": lat, "lng": lng})


def count_rows(phones: RunningPhones) -> int:
    """Rows of streams that the router has had from all phones."""
    told = phones.headrace("devices", "status", "--directory", str(phones.folder))
    return int(told["messages"]["up"]["s"]["rows"])


def until_counted(phones: RunningPhones, rows: int) -> None:
    end = time.monotonic() + COUNTED_WITHIN_S
    while (found := count_rows(phones)) < rows:
        assert time.monotonic() < end, f"{found} rows of {rows}"
        time.sleep(0.3)


def test_a_phone_that_moves_within_one_place_sends_nothing_after_the_first_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_example("places", tmp_path, capsys, {"location": locations()}) as phones:
        pairs = read_pairs(phones, "friends", "uid", "friend")
        uids = sorted({uid for pair in pairs for uid in pair})
        phones.connect(uids)
        for uid in uids:
            be_at(phones, uid, LIBRARY)
        assert len(phones.until_right("friends_at_one_place", pairs)) == len(pairs), "all are at the library"
        until_counted(phones, len(uids))
        for number in range(1, 21):
            for uid in uids:
                be_at(phones, uid, LIBRARY, number)
        be_at(phones, uids[0], STATION)
        phones.until_right("friends_at_one_place", pairs)
        until_counted(phones, len(uids) + 1)
        told = phones.headrace("devices", "status", "--directory", str(phones.folder))
        assert told["messages"]["up"]["s"]["rows"] == len(uids) + 1, "one more row came: of the phone that went away"
        assert {stream for one in told["devices"] for stream in one["sends"]} == {"my_place"}
        assert not {"row does not fit", "unknown stream"} & told["refused"].keys()
        many = [f"{number},stall,{LIBRARY[0]},{LIBRARY[1]}" for number in range(100, 1100)]
        (phones.folder / "tables" / "places" / "2.csv").write_text("\n".join(["place,name,lat,lng", *many]))
        end = time.monotonic() + COUNTED_WITHIN_S
        while 'not compute view "my_place"' not in str(phones.headrace("status", str(phones.folder), status=None)):
            assert time.monotonic() < end, "nobody says that phones cannot send so many rows"
            time.sleep(0.5)


def test_a_view_of_each_phone_becomes_a_stream_and_part_of_another_view_again_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_example("places", tmp_path, capsys, {"location": locations()}) as phones:
        pairs = read_pairs(phones, "friends", "uid", "friend")
        uids = sorted({uid for pair in pairs for uid in pair})
        phones.connect(uids)
        file = phones.folder / "headrace.yml"
        written = file.read_text()
        limited = written.replace("    id: uid\n", "    id: uid\n    capacity: 9\n")
        assert limited != written
        for number, (text, stream) in enumerate([(written, "my_place"), (limited, "location"), (written, "my_place")]):
            file.write_text(text)
            if number:
                phones.headrace("apply", str(phones.folder))
            walk(phones, uids, 11, NEAR, number)
            until_sent(phones, stream)
            assert phones.until_right("friends_at_one_place", pairs), "some are together"


def until_sent(phones: RunningPhones, stream: str) -> None:
    """Waits until phones are told to send this stream, and nothing else."""
    end = time.monotonic() + COUNTED_WITHIN_S
    while True:
        told = phones.headrace("devices", "status", "--directory", str(phones.folder))
        if {one for device in told["devices"] for one in device["sends"]} == {stream}:
            return
        assert time.monotonic() < end, f"not only {stream} is sent"
        time.sleep(0.3)
