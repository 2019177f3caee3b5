"""A running feed decides for itself what is stored ahead: by who reads and who posts, and it remembers that."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from headrace.app.explaining import explain_running
from headrace.coordinate.feeds.controller import FeedController, measure_latency
from headrace.coordinate.feeds.deciding import FeedDeciding
from headrace.coordinate.host import ServiceHost
from headrace.doors.api.metrics import metrics_text
from headrace.doors.cli.feed_text import why_pair_text
from headrace.model.errors import UnknownName
from headrace.model.event_wire import EventsAsked
from headrace.model.explanation import WhyPair
from headrace.plan.feeds.controller import ThresholdOutcome
from headrace.site.feeds.pages import FeedPages
from headrace.site.feeds.reads import ReadsOfFeed
from headrace.site.service import Service
from headrace.site.troubles import DECISION
from tests.running.running_project import until
from tests.running.test_feed_pages import PROJECT, Social, shown


@pytest.fixture
def social(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Social:
    monkeypatch.setattr("headrace.coordinate.feeds.deciding.COUNT_EVERY_S", 0.2)
    monkeypatch.setattr("headrace.coordinate.feeds.deciding.DECIDE_EVERY_S", 0.4)
    return Social(tmp_path)


def origins(pages: FeedPages, consumer: str) -> dict[str, str]:
    return {entry["producer"]: entry["origin"] for entry in pages.read("home", consumer)["entries"]}


def reads_until(pages: FeedPages, consumer: str, wanted: dict[str, str]) -> None:
    """Reads a page again and again, as somebody does who looks often, until it comes from where it should."""
    until(partial(_reads_as, pages, consumer, wanted), f"{consumer} is served {wanted}", every_s=0.02)


def _reads_as(pages: FeedPages, consumer: str, wanted: dict[str, str]) -> bool:
    return origins(pages, consumer) == wanted


@contextmanager
def deciding(service: Service, social: Social) -> Iterator[FeedDeciding]:
    host = ServiceHost(service, social.folder, lambda _: pytest.fail("nothing is applied"))
    with host.deciding_feeds():
        yield host.feeds.deciding


def kinds_of(service: Service) -> list[str]:
    return [one.event.kind for one in service.ledger.events(EventsAsked(limit=1000))]


def test_what_often_read_feeds_show_is_stored_ahead(social: Social, caplog: pytest.LogCaptureFixture) -> None:
    with social.running() as service, deciding(service, social) as feeds:
        for consumer in ("anna", "dora"):
            social.follow(consumer, "bob")
        social.post("bob", 1)
        social.until_equal(service, "sees the first post")
        pages = service.feed_pages
        reads_until(pages, "anna", {"bob": "stored"})
        until(lambda: "home" in feeds.tell(), "somebody decided")
        until(lambda: "pairs flipped" in kinds_of(service), "every batch of flips is an event")
        for minute in range(2, 30):
            social.post("bob", minute)
        social.until_equal(service, "sees all posts")
        until(lambda: feeds.tell()["home"].events_s > 0, "posts are counted")
        last = feeds.tell()["home"]
        assert last.pairs == 2 and last.reads_s > 0
        social.post("carl", 1)
        pages.read("home", "somebody new")
        until(lambda: feeds.tell()["home"].decided_at > last.decided_at + 2.0, "it is decided again and again")
        unexpected = [one for one in map(logging.LogRecord.getMessage, caplog.records) if " is late: " not in one]
        assert not [key for key in service.troubles.all() if key.startswith(DECISION)] and not unexpected, (
            "posts that nobody follows, and readers who follow nobody, disturb nothing"
        )
        assert shown(pages.read("home", "dora")) == social.expect("dora"), "a full page at the first read"
    with social.running() as service, deciding(service, social) as feeds:
        until(lambda: service.feeds.find("home") is not None, "the feed can be read again")
        until(lambda: "home" in feeds.tell(), "it is decided again")
        assert feeds.tell()["home"].reads_s > 0, "counts go on after a restart"


def test_why_tells_of_a_running_pair_as_it_was_decided(social: Social) -> None:
    with social.running() as service:
        host = ServiceHost(service, social.folder, lambda _: pytest.fail("nothing is applied"))
        with host.deciding_feeds():
            social.follow("anna", "bob")
            social.post("bob", 1)
            social.until_equal(service, "sees the first post")
            reads_until(service.feed_pages, "anna", {"bob": "stored"})
            until(lambda: "home" in host.feeds.deciding.tell(), "somebody decided")
            (answer,) = explain_running(host, "home:anna<-bob").answers
            assert isinstance(answer, WhyPair)
            assert answer.stored_ahead and answer.rates.measured and answer.rates.stored_ahead
            assert answer.rates.reads_s is not None and answer.rates.reads_s > 0.0
            assert answer.rates.since_s is not None and 0.0 <= service.clock() / 1e6 - answer.rates.since_s < 300.0
            assert "since" in "\n".join(why_pair_text(answer)), "people are told since when"
            with pytest.raises(UnknownName, match='"anna" does not follow "nobody" in feed "home"'):
                explain_running(host, "home:anna<-nobody")
            assert 'headrace_feed_flips_total{feed="home"} 1.0' in metrics_text(host)


def test_of_several_targets_the_one_that_is_missed_by_most_counts() -> None:
    most_are_quick = ReadsOfFeed({}, (0.005,) * 90 + (0.1,) * 10)
    for targets, latency_s, slowness in (
        ({"mean": 0.01, "p95": 0.05}, 0.1, 2.0),
        ({"mean": 0.01}, 0.0145, 1.45),
        ({"mean": 0.01, "p95": 0.2}, 0.0145, 1.45),
        ({"p50": 0.01, "p99.9": 0.4}, 0.005, 0.5),
        ({}, 0.1, 0.0),
    ):
        assert measure_latency(targets, most_are_quick) == pytest.approx((latency_s, slowness))
    assert measure_latency({"mean": 0.01, "p95": 0.05}, ReadsOfFeed({}, ()))[1] == 0.0


def test_a_feed_that_is_seldom_read_follows_its_latency_too_once_there_are_enough_reads(social: Social) -> None:
    """Between two decisions there are never as many reads as it takes to say something."""
    wanted = PROJECT.replace("limit: 4", "limit: 4, latency: {mean: 100 ms, p95: 60 s}")
    (social.folder.project / "headrace.yml").write_text(wanted)
    with social.running() as service, deciding(service, social) as feeds:
        social.follow("anna", "bob")
        social.post("bob", 1)
        social.until_equal(service, "sees the first post")
        reads = service.feed_pages.reads

        def is_told() -> bool:
            for seconds in (0.001, 0.001, 0.001, 0.001, 1.0):
                reads.note("home", "anna", seconds)
            last = feeds.tell().get("home")
            return last is not None and last.outcome is ThresholdOutcome.UNREACHABLE

        until(is_told, "that all pairs are stored ahead, and reads are still too slow", every_s=0.03)


def test_decisions_that_fail_are_a_trouble_until_they_work(social: Social, monkeypatch: pytest.MonkeyPatch) -> None:
    with social.running() as service, deciding(service, social) as feeds:
        social.follow("anna", "bob")
        social.post("bob", 1)
        social.until_equal(service, "sees the first post")
        with monkeypatch.context() as broken:
            broken.setattr(FeedController, "decide", lambda *_: 1 // 0)
            until(lambda: service.troubles.get(DECISION + "home") is not None, "it is told")
            trouble = service.troubles.get(DECISION + "home")
            assert trouble is not None and 'feed "home"' in trouble.what and "division" in trouble.what
        until(lambda: service.troubles.get(DECISION + "home") is None, "it is over")
        until(lambda: "home" in feeds.tell(), "it is decided again")
