"""The feeds of a running service as doors see them: how they do, what decides about them, and at which prices."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from headrace.coordinate.feeds.calibrating import FeedCalibrating
from headrace.coordinate.feeds.deciding import FeedDeciding
from headrace.coordinate.feeds.feed_status import count_flips, feed_document, price_document
from headrace.model.catalogue import Catalogue, OperatorTime
from headrace.model.errors import UnknownName, UsageError
from headrace.model.feed_plan import PlannedPrices
from headrace.model.options import RunEngine
from headrace.model.plan import Plan
from headrace.site.feeds.find import KeptFeed
from headrace.site.folder import Folder
from headrace.site.service import Service


class RunningFeeds:
    """`deciding` and `calibrating` each have a thread of their own (`coordinate/host.py`)."""

    def __init__(self, service: Service, folder: Folder, engine: RunEngine) -> None:
        self._service = service
        self.calibrating = FeedCalibrating(
            service.ledger,
            service.lease,
            service.feeds,
            service.journal,
            service.troubles,
            service.clock,
            engine.value,
            learnt=self._read_learnt,
        )
        self.deciding = FeedDeciding(
            folder,
            service.ledger,
            service.store,
            service.feeds,
            service.feed_pages.reads,
            plan=self._find_plan,
            prices=self.calibrating.choose,
            journal=service.journal,
            troubles=service.troubles,
            clock=service.clock,
        )
        self.calibrating.deciding = self.deciding

    def tell_status(self) -> list[dict[str, Any]]:
        """Documents of all feeds that are kept."""
        plan = self._find_plan()
        if plan is None:
            return []
        decided, feeds = self.deciding.tell(), plan.catalogue.feeds
        return [
            feed_document(feeds[one.feed], one, decided.get(one.feed), self._tell_prices(plan.catalogue, one.feed))
            for one in self._service.feed_pages.told()
            if one.feed in feeds
        ]

    def calibrate(self, feed: str) -> dict[str, Any]:
        """Measures prices now. What they are, and how many pairs cost less the other way at them than before."""
        catalogue = self._find_catalogue()
        kept = self._find_kept(feed)
        before = None if kept is None else self.calibrating.choose(catalogue, kept)
        found = self.calibrating.calibrate(feed)
        kept = self._find_kept(feed)
        last, flipping = self.deciding.tell().get(feed), None
        if kept is not None and before is not None and last is not None:
            flipping = count_flips(last.feeds, before, self.calibrating.choose(catalogue, kept))
        pairs = 0 if last is None else last.pairs
        return {
            "feed": feed,
            "prices": self._tell_prices(catalogue, feed),
            "pairs": pairs,
            "flipping": flipping,
            "flipping_share": flipping / pairs if pairs and flipping is not None else None,
            "depth": found.depth,
            "producers": found.producers,
            "follows": found.follows,
            "windows": found.windows,
            "cpu_s": found.cpu_s,
        }

    def find_prices(self, feed: str) -> PlannedPrices | None:
        """The prices that decide about a feed now; None if it is not kept."""
        kept = self._find_kept(feed)
        return None if kept is None else self.calibrating.choose(self._find_catalogue(), kept)

    def check_pair(self, feed: str, consumer: str, producer: str) -> None:
        """Raises `UnknownName` if the store of a feed says that a consumer does not follow a producer."""
        found = self._service.feeds.find(feed)
        if found is None or found[1] is None:
            return
        with closing(found[1].open_store(0)) as feed_store:
            if feed_store.find_since(consumer, producer) is None:
                hint = "who follows whom counts once it has reached the store, within the feed's freshness"
                raise UnknownName(f'"{consumer}" does not follow "{producer}" in feed "{feed}"', hint)

    def _tell_prices(self, catalogue: Catalogue, feed: str) -> dict[str, Any] | None:
        kept, calibrating = self._find_kept(feed), self.calibrating
        if kept is None:
            return None
        return price_document(
            calibrating.choose(catalogue, kept), calibrating.find(kept), calibrating.price_engine(catalogue)
        )

    def _find_kept(self, feed: str) -> KeptFeed | None:
        found = self._service.feeds.find(feed)
        return None if found is None else found[0]

    def _find_plan(self) -> Plan | None:
        running = self._service.running
        return None if running is None else running.plan

    def _find_catalogue(self) -> Catalogue:
        plan = self._find_plan()
        if plan is None:
            raise UsageError("the views are not loaded yet", "`headrace status` shows the progress")
        return plan.catalogue

    def _read_learnt(self) -> Mapping[str, OperatorTime]:
        state = self._service.rounds.state
        return {} if state is None else state.learning.operator_times()
