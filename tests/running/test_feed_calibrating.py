"""A running feed measures its prices by itself, decides with them, and goes on with them after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.coordinate.feeds.calibrating import FeedCalibrating
from headrace.coordinate.host import ServiceHost
from headrace.model.errors import UnknownName
from headrace.model.event_wire import EventsAsked
from headrace.model.options import RunEngine
from headrace.site.service import Service
from headrace.site.troubles import CALIBRATION
from tests.running.running_project import until
from tests.running.test_feed_pages import Social


@pytest.fixture
def social(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Social:
    for name, seconds in (("deciding.COUNT_EVERY_S", 0.2), ("deciding.DECIDE_EVERY_S", 0.4)):
        monkeypatch.setattr(f"headrace.coordinate.feeds.{name}", seconds)
    monkeypatch.setattr("headrace.coordinate.feeds.calibrating.LOOK_EVERY_S", 0.2)
    monkeypatch.setattr("headrace.coordinate.feeds.calibrating.LEVEL_FOR_S", 0.5)
    monkeypatch.setattr("headrace.run.feeds.trial.ROUNDS", 2)
    return Social(tmp_path)


@contextmanager
def hosting(service: Service, social: Social, engine: RunEngine = RunEngine.LOCAL) -> Iterator[ServiceHost]:
    host = ServiceHost(service, social.folder, lambda _: pytest.fail("nothing is applied"), engine=engine)
    with host.deciding_feeds():
        yield host


def prices_of(host: ServiceHost) -> dict[str, Any]:
    found = [feed["prices"] for feed in host.status()["feeds"]]
    return found[0] if found and found[0] is not None else {"measured": False, "at": None}


def kinds_of(host: ServiceHost) -> list[str]:
    return [event.kind for event in host.events(EventsAsked(limit=1000))[1]]


def test_a_feed_measures_its_prices_once_it_is_level_and_keeps_them(social: Social, monkeypatch: Any) -> None:
    with social.running() as service, hosting(service, social) as host:
        social.follow("anna", "bob")
        social.post("bob", 1)
        social.until_equal(service, "sees the first post")
        until(lambda: prices_of(host)["measured"], "prices are measured")
        prices = prices_of(host)
        assert prices["counted"] == "processor"
        assert prices["H"]["seconds"] > prices["H"]["engine_s"] > 0 and prices["H"]["error"] > 0
        decided = host.feeds.deciding
        until(lambda: decided.tell()["home"].prices.calibrated, "they decide")
        until(lambda: "calibrated" in kinds_of(host), "an event tells of it")
    monkeypatch.setattr("headrace.coordinate.feeds.calibrating.LEVEL_FOR_S", 3600.0)
    with social.running() as service, hosting(service, social) as host:
        until(lambda: prices_of(host)["at"] == prices["at"], "a restart goes on with them")
    with social.running() as service, hosting(service, social, RunEngine.SPARK) as host:
        until(lambda: host.status()["feeds"] != [], "the feed is told of")
        assert not prices_of(host)["measured"], "prices of another engine are not ours"


def test_somebody_who_asks_for_prices_is_told_what_they_change(social: Social, monkeypatch: Any) -> None:
    monkeypatch.setattr("headrace.coordinate.feeds.calibrating.LEVEL_FOR_S", 3600.0)
    with social.running() as service, hosting(service, social) as host:
        social.follow("anna", "bob")
        social.post("bob", 1)
        social.until_equal(service, "sees the first post")
        until(lambda: "home" in host.feeds.deciding.tell(), "somebody decided")
        answer = host.calibrate_feed("home")
        assert answer["prices"]["measured"] and answer["pairs"] == 1 and answer["flipping"] in (0, 1)
        assert answer["windows"] > 0 and answer["cpu_s"] > 0
        with pytest.raises(UnknownName, match='no feed "away" runs'):
            host.calibrate_feed("away")


def test_prices_that_cannot_be_looked_at_are_a_trouble_until_they_can(social: Social, monkeypatch: Any) -> None:
    monkeypatch.setattr("headrace.coordinate.feeds.calibrating.LEVEL_FOR_S", 3600.0)
    with social.running() as service, hosting(service, social) as host:
        with monkeypatch.context() as broken:
            broken.setattr(FeedCalibrating, "find", lambda *_: json.loads("damaged"))
            until(lambda: calibration_troubles(host) != [], "it is told")
            (what,) = calibration_troubles(host)
            assert what.startswith('whether feed "home" is to be calibrated cannot be found out: Expecting value')
        until(lambda: calibration_troubles(host) == [], "it is over")
        until(lambda: {"feed unpriced", "feed priced"} <= set(kinds_of(host)), "events tell of both")


def calibration_troubles(host: ServiceHost) -> list[str]:
    return [one.what for key, one in host.service.troubles.all().items() if key.startswith(CALIBRATION)]


def test_a_calibration_that_fails_is_told_and_tried_later(social: Social, monkeypatch: Any) -> None:
    monkeypatch.setattr("headrace.run.feeds.trial.WITHIN_S", 0.0)
    with social.running() as service, hosting(service, social) as host:
        social.follow("anna", "bob")
        social.post("bob", 1)
        social.until_equal(service, "sees the first post")
        until(lambda: "calibration failed" in kinds_of(host), "an event tells why")
        assert not prices_of(host)["measured"]
        assert host.calibrate_feed is not None and host.status()["feeds"][0]["prices"]["H"]["error"] is None
