"""A running feed decides for itself what is stored ahead: by who reads and who posts, and it remembers that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from headrace.coordinate.feeds.deciding import FeedDeciding
from headrace.coordinate.host import ServiceHost
from headrace.site.feeds.pages import FeedPages
from headrace.site.service import Service
from tests.running.running_project import until
from tests.running.test_feed_pages import Social, shown


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


def test_what_often_read_feeds_show_is_stored_ahead(social: Social, caplog: pytest.LogCaptureFixture) -> None:
    with social.running() as service, deciding(service, social) as feeds:
        for consumer in ("anna", "dora"):
            social.follow(consumer, "bob")
        social.post("bob", 1)
        social.until_equal(service, "sees the first post")
        pages = service.feed_pages
        reads_until(pages, "anna", {"bob": "stored"})
        until(lambda: "home" in feeds.tell(), "somebody decided")
        for minute in range(2, 30):
            social.post("bob", minute)
        social.until_equal(service, "sees all posts")
        until(lambda: feeds.tell()["home"].events_s > 0, "posts are counted")
        last = feeds.tell()["home"]
        assert last.pairs == 2 and last.reads_s > 0
        social.post("carl", 1)
        pages.read("home", "somebody new")
        until(lambda: feeds.tell()["home"].decided_at > last.decided_at + 2.0, "it is decided again and again")
        assert "is not decided again" not in caplog.text, (
            "posts that nobody follows, and readers who follow nobody, disturb nothing"
        )
        assert shown(pages.read("home", "dora")) == social.expect("dora"), "a full page at the first read"
    with social.running() as service, deciding(service, social) as feeds:
        until(lambda: service.feeds.find("home") is not None, "the feed can be read again")
        until(lambda: "home" in feeds.tell(), "it is decided again")
        assert feeds.tell()["home"].reads_s > 0, "counts go on after a restart"
