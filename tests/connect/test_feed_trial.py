"""Prices are measured on a real store, by a trial that leaves nothing behind, whatever happens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from headrace.connect.files import FileStore
from headrace.connect.postgres.feed_target import PostgresFeedTarget
from headrace.connect.redis.feed_store import RedisFeedTarget
from headrace.coordinate.feeds.calibrating import measure_prices
from headrace.model.errors import ConnectError, NotOurs
from headrace.model.feed_names import name_trial
from headrace.model.feed_prices import FeedShape, HowCounted
from headrace.run.feeds import trial
from headrace.run.feeds.page import PageRules
from headrace.run.feeds.trial import run_trial
from headrace.run.ports import FeedStore, FeedTarget
from tests.connect.test_feed_stores import valkey_url

__all__ = ["valkey_url"]

RULES = PageRules(limit=10)
SMALL = FeedShape(2, 0, 20.0)


@pytest.fixture(params=["postgres", "redis"])
def target(request: pytest.FixtureRequest) -> Iterator[FeedTarget]:
    if request.param == "redis":
        url = request.getfixturevalue("valkey_url")
        redis.Redis.from_url(url).flushall()
        yield RedisFeedTarget(url, "home", "p", "m")
    else:
        yield PostgresFeedTarget(request.getfixturevalue("postgres_dsn"), "home", "p", "m")


def left_over(target: Any) -> list[str]:
    """Tables or keys that are not of feed `home`."""
    if isinstance(target, RedisFeedTarget):
        keys: Any = redis.Redis.from_url(target.url, decode_responses=True).keys("headrace:trial*")
        return sorted(keys)
    with psycopg.connect(target.dsn) as session:
        names = "SELECT tablename FROM pg_tables WHERE schemaname = 'headrace_feeds' AND tablename LIKE 'trial%'"
        return [row[0] for row in session.execute(names)]


def test_prices_are_measured_and_nothing_is_left_behind(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "ROUNDS", 3)
    with closing(target.open_store(1)) as store:
        store.take_over()
    prices, found = measure_prices(target.make_trial(name_trial("p", "home")), RULES, FeedShape(3, 500, 20.0))
    assert found.counted is HowCounted.PROCESSOR
    for name in ("H", "read"):
        price, error = prices.named[name]
        assert 1e-7 < price < 1e-2 and error < price, f"{name} is sure: {price} ± {error}"
    assert prices.entry < prices.read, "an entry costs less than a page"
    assert abs(prices.pull) < prices.read and prices.found >= 0.0
    assert left_over(target) == []
    with closing(target.open_store(2)) as store:
        assert store.sizes().pairs == 0, "the feed itself is as it was"


def test_a_trial_that_was_broken_off_is_dropped_by_the_next(target: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(trial, "ROUNDS", 1)
    monkeypatch.setattr(trial, "_drop", lambda feed_store: None)  # as if the process had been killed
    made = target.make_trial(name_trial("p", "home"))
    with pytest.raises(ConnectError, match="was ended"):
        run_trial(made, FileStore(tmp_path), RULES, SMALL, lambda: True)
    assert left_over(target) != []
    monkeypatch.undo()
    monkeypatch.setattr(trial, "ROUNDS", 1)
    run_trial(made, FileStore(tmp_path), RULES, SMALL, lambda: False)
    assert left_over(target) == []


def test_nobody_drops_what_is_another_projects(target: Any) -> None:
    with closing(target.open_store(1)) as store:
        store.take_over()
    other = type(target)(target.url if isinstance(target, RedisFeedTarget) else target.dsn, "home", "q", "m")
    with closing(other.open_store(1)) as store, pytest.raises(NotOurs, match='belongs to project "p"'):
        store.drop()
    with closing(target.open_store(1)) as store:
        assert store.sizes().pairs == 0


def test_a_trial_that_takes_too_long_is_given_up(target: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(trial, "WITHIN_S", 0.0)
    with pytest.raises(ConnectError, match="did not end within"):
        run_trial(target.make_trial("trial~x"), FileStore(tmp_path), RULES, SMALL, lambda: False)
    assert left_over(target) == []


def test_a_store_whose_processes_cannot_be_seen_is_measured_by_the_time_that_passes(
    postgres_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "ROUNDS", 1)
    monkeypatch.setattr("headrace.connect.postgres.feed_meter._is_session", lambda pid, port: False)
    made = PostgresFeedTarget(postgres_dsn, "home", "p", "m").make_trial("trial~y")
    began = time.perf_counter()
    found = run_trial(made, FileStore(tmp_path), RULES, SMALL, lambda: False)
    assert found.counted is HowCounted.ELAPSED
    assert sum(one.seconds for one in found.windows) <= found.seconds <= time.perf_counter() - began


@pytest.mark.parametrize(
    ("shape", "fitted"),
    [((30, 30), (30, 70)), ((1, 10**6), (1, 4_000)), ((30, 200), (20, 200)), ((30, 10**6), (10, 400))],
)
def test_a_trial_is_as_large_as_its_feed_as_far_as_it_is_filled_in_seconds(
    target: Any, tmp_path: Path, monkeypatch: Any, shape: tuple[int, int], fitted: tuple[int, int]
) -> None:
    monkeypatch.setattr(trial, "ROUNDS", 1)
    monkeypatch.setattr(trial, "MOST_EVENTS", 4_000)
    held = list[int]()

    def count_and_drop(store: FeedStore) -> None:
        held.append(store.sizes().events)
        store.drop()

    monkeypatch.setattr(trial, "_drop", count_and_drop)
    made = target.make_trial(name_trial("p", "home"))
    run_trial(made, FileStore(tmp_path), RULES, FeedShape(*shape, 20.0), lambda: False)
    depth, producers = fitted
    assert held == [depth * producers + min(depth, RULES.limit) * (trial.FEWEST_HEARD + trial.UNHEARD)]


@pytest.mark.parametrize(
    ("followers", "producers", "stored"), [(0.0, 0, 600), (15.0, 100, 1_500), (2.0, 2_000, 3_000), (900.0, 900, 20_000)]
)
def test_writing_is_measured_with_as_many_pairs_and_fans_as_the_feed_has(
    followers: float, producers: int, stored: int
) -> None:
    fans = trial._choose_fans(FeedShape(10, producers, 20.0, followers))
    of_each = {len(set(some)) for some in fans.values()}
    assert of_each == {min(max(6, round(followers)), 200)}, "nobody follows twice"
    assert sum(map(len, fans.values())) == pytest.approx(stored, rel=0.4)
