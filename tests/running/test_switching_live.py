"""A contract that leaves the choice switches to the other way to refresh its view, and loses no rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

import psycopg
import pytest

from headrace.connect.postgres.sample import Habit
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.host import ServiceHost
from headrace.coordinate.replanning import Measure, take_measured
from headrace.model.log import Log
from headrace.model.options import ApplyWishes
from headrace.plan.share.revalue import Measured
from headrace.site.learning import Learning
from tests.running.running_project import until
from tests.running.shop import NEW_CITY, NEW_POST, POST_GONE, find_rates_so_far, make_shop, run_shop

PROJECT = """
project: shop
sites: {us: {cpu: 0.34 $/core-hour}, eu: {cpu: 0.34 $/core-hour}}
links:
  - {between: [us, eu], bandwidth: 100 Mbps, latency: 10 ms, price: 0.01 $/GB}
sources:
  users: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: public.users}, key: [uid], rate: 1 /s}
  posts: {kind: table, at: eu, postgres: {dsn: "${EU_DSN}", table: public.posts}, key: [post], rows: 100k rows,
    rate: 60000 /s}
contracts:
  wall: {view: wall, at: eu, freshness: 8 s, refresh: auto,
    deliver: {postgres: {dsn: "${EU_DSN}", table: wall_copy}}}
"""
HABITS = Habit("US_DSN", 1, NEW_CITY), Habit("EU_DSN", 100, NEW_POST), Habit("EU_DSN", 20, POST_GONE)
LOOK_S = 600.0
"""Seconds by which the test moves the replanner's clock with each look: an hour has passed after 7 looks."""


def make_measure() -> Measure:
    """What is measured so far, whether that was long enough or not; but as fast as planned, on whatever machine."""
    looks = count(1)

    def measure(learning: Learning, logs: Mapping[str, Log], clock_s: float) -> Measured:
        found = take_measured(learning, logs, next(looks) * LOOK_S)
        return replace(found, rates=find_rates_so_far(learning), slowness={}, recomputing={}, blocking_s=0.0)

    return measure


@pytest.fixture
def host(tmp_path: Path, postgres_database: Callable[[], str]) -> Iterator[ServiceHost]:
    environment = make_shop(tmp_path, PROJECT, postgres_database)
    (tmp_path / "views" / "scores.sql").unlink()
    with run_shop(tmp_path, environment, HABITS) as host:
        yield host


def is_in_full(host: ServiceHost) -> bool:
    assert host.service.running is not None
    return host.service.running.plan.catalogue.is_in_full("wall")


def assert_right(host: ServiceHost) -> None:
    for _ in range(2):
        found = compare_views(host.reader(), host.service.folder, host.service.environment, host.service.rounds.push_to)
        assert [(one.contract, one.equal) for one in found.views] == [("wall", True)], found


def ask_eu(host: ServiceHost, query: bytes) -> list[tuple[int, ...]]:
    with psycopg.connect(host.service.environment["EU_DSN"]) as session:
        return session.execute(query).fetchall()


def test_what_is_recomputed_is_right_and_is_maintained_when_that_has_been_cheaper_for_an_hour(
    host: ServiceHost,
) -> None:
    assert is_in_full(host), "at the declared rates it is cheaper in full"
    assert_right(host)
    applied = host.apply(ApplyWishes())
    assert applied.prepared.change is not None and applied.prepared.change.is_nothing

    with host.replanning(look_every_s=0.2, measure=make_measure()):
        until(lambda: not is_in_full(host), "it is maintained", within_s=180)
    switched = [move for move in host.status()["moves"] if any("cheaper" in why for why in move["because"])]
    assert [move["contracts"] for move in switched] == [["wall"]]
    assert "maintaining it from changes has been at least" in switched[0]["because"][0]
    assert_right(host)

    again = host.apply(ApplyWishes())
    assert again.prepared.change is not None and again.prepared.change.is_nothing
    assert not is_in_full(host)
    ((last,),) = ask_eu(host, b"SELECT max(post) FROM posts")
    until(lambda: ask_eu(host, b"SELECT coalesce(max(post), 0) FROM wall_copy")[0][0] >= last, "the copy goes on")
    assert ask_eu(host, b"SELECT post FROM wall_copy GROUP BY post HAVING count(*) > 1") == []
    assert_right(host)
