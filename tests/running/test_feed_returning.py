"""Who returns after a month finds a full page at the first read, although nothing is stored ahead for them any more."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from headrace.coordinate.feeds.deciding import FeedDeciding
from headrace.plan.feeds.load import assume_prices
from headrace.run.feeds.page import SECOND
from headrace.site.feeds.reads import FeedReads
from headrace.site.service import clock_now
from tests.running.running_project import until
from tests.running.test_feed_pages import Social, shown
from tests.running.test_feed_views import read_view

DAY = 86_400 * SECOND


def test_somebody_who_returns_after_30_days_has_a_full_page_at_the_first_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.coordinate.feeds.deciding.DECIDE_EVERY_S", 0.0)
    social, passed = Social(tmp_path), [0]
    with social.running() as service, closing(social.pages(service)) as pages:
        assert service.running is not None
        plan = service.running.plan
        deciding = FeedDeciding(
            social.folder,
            service.ledger,
            service.store,
            service.feeds,
            FeedReads(),
            plan=lambda: plan,
            prices=lambda catalogue, _: assume_prices(catalogue),
            journal=service.journal,
            troubles=service.troubles,
            clock=lambda: clock_now() + passed[0],
        )
        for producer in ("bob", "carl", "dora"):
            social.follow("anna", producer)
            social.post(producer, 1)
        social.flip("anna", "bob", ahead=True)
        social.flip("anna", "carl", ahead=True)
        social.post("bob", 2)
        social.until_equal(service, "sees posts")
        until(lambda: pages.read("home", "anna")["stored"] == 3, "pages of anna are stored ahead")
        deciding.look(plan)
        for week in range(1, 6):  # everybody goes on posting, and anna reads nothing
            passed[0] = week * 6 * DAY
            for producer in ("bob", "carl", "dora"):
                for minute in range(10 * week, 10 * week + 8):
                    social.post(producer, minute)
            posted = len(social.events)
            until(lambda posted=posted: len(read_view(service, "home/newest")) == posted, "posts are there")  # type: ignore[misc]
            deciding.look(plan)
        decided = deciding.tell()["home"]
        assert (decided.pairs, decided.ahead) == (3, 0), "nothing is stored ahead for somebody who never reads"
        until(lambda: read_view(service, "home/stored") == [], "what nobody reads is dropped")
        now = clock_now()
        until(lambda: (service.feeds.progress()["home"][0] or 0) >= now, "the store has followed")
        page = pages.read("home", "anna")
        assert (page["stored"], page["pulled"]) == (0, 4)
        assert shown(page) == social.expect("anna") and len(page["entries"]) == 4
        deciding._forget("home")
