"""Looks at all running feeds in turn: counts who posts and who reads, and decides again what is stored ahead."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from headrace.coordinate.feeds.controller import FeedController, FeedDecisions, add_counters, keep_reads
from headrace.model.catalogue import Catalogue
from headrace.model.errors import ConnectError, HeadraceError
from headrace.model.explanation import PairRates
from headrace.model.feed_events import PairsFlipped
from headrace.model.feed_names import name_decisions
from headrace.model.feed_plan import PlannedPrices
from headrace.model.plan import Plan
from headrace.run.feeds.page import SECOND
from headrace.run.ports import FeedReader, FeedTarget, Ledger, Store
from headrace.site.feeds.find import KeptFeed
from headrace.site.feeds.keepers import FeedKeepers
from headrace.site.feeds.reads import FeedReads, ReadsOfFeed
from headrace.site.folder import Folder
from headrace.site.journal import Journal
from headrace.site.sources.written import write_rows
from headrace.site.troubles import DECISION, FEED, Troubles

log = logging.getLogger("headrace.service")

COUNT_EVERY_S, DECIDE_EVERY_S = 10.0, 30.0
MEND = "pages stay right, and what is stored ahead stays as it is; see .headrace/service.log. The service keeps trying"


@dataclass(slots=True)
class _Deciding:
    kept: KeptFeed
    target: FeedTarget
    controller: FeedController
    reader: FeedReader
    reads: ReadsOfFeed
    """Of which pages took so long: since there were last enough of them to decide by."""
    decide_at_s: float


@dataclass(slots=True)
class FeedDeciding:
    """`plan` is what runs now. Only the thread in `run` changes anything here."""

    folder: Folder
    ledger: Ledger
    store: Store
    keepers: FeedKeepers
    reads: FeedReads
    plan: Callable[[], Plan | None]
    prices: Callable[[Catalogue, KeptFeed], PlannedPrices]
    journal: Journal
    troubles: Troubles
    clock: Callable[[], int]
    _deciding: dict[str, _Deciding] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)
    """How often in a row each feed could not be decided."""

    def run(self, end: threading.Event) -> None:
        """Looks again and again until it ends."""
        try:
            while not end.wait(COUNT_EVERY_S):
                plan = self.plan()
                if plan is not None:
                    self.look(plan)
        finally:
            for name in list(self._deciding):
                self._forget(name)

    def look(self, plan: Plan) -> None:
        """One look at every feed that is kept. What fails is tried again at the next: until then all stays decided."""
        found = {name: self.keepers.find(name) for name in plan.catalogue.feeds}
        kept = {name: (one[0], one[1]) for name, one in found.items() if one is not None and one[1] is not None}
        for name in [name for name, one in self._deciding.items() if kept.get(name) != (one.kept, one.target)]:
            self._forget(name)
        for name, (feed, target) in kept.items():
            try:
                if name not in self._deciding:
                    self._deciding[name] = self._begin(plan, feed, target)
                self._deciding[name].controller.use_prices(self.prices(plan.catalogue, feed))
                self._look_at(self._deciding[name])
                self._failures.pop(name, None)
                self.troubles.clear(DECISION + name)
            except Exception as error:  # whatever it is, it is this feed's alone
                self._report(name, error)
                self._forget(name)

    def _report(self, name: str, error: Exception) -> None:
        """A store that is away is told by its keeper, a moment later at most. All else is told here."""
        self._failures[name] = self._failures.get(name, 0) + 1
        is_away = isinstance(error, ConnectError)
        if is_away and (self._failures[name] == 1 or self.troubles.get(FEED + name) is not None):
            log.info("feed %s is not decided again: %s", name, error)
            return
        if not isinstance(error, HeadraceError | OSError):
            log.exception("deciding about feed %s failed", name)
        line = next(iter(str(error).splitlines()), "") or type(error).__name__
        hint = error.hint if isinstance(error, ConnectError) else None
        what = f'which pairs of feed "{name}" are stored ahead is not decided any more: {line}'
        self.troubles.report(DECISION + name, what, hint or MEND)

    def tell(self) -> Mapping[str, FeedDecisions]:
        """What was decided last, by feed."""
        found = {name: one.controller.last for name, one in list(self._deciding.items())}
        return {name: last for name, last in found.items() if last is not None}

    def find_pair(self, feed: str, consumer: str, producer: str) -> tuple[PairRates, PlannedPrices] | None:
        """A pair as it was decided last, and at which prices; None if nothing is decided about it."""
        one = self._deciding.get(feed)
        last = None if one is None else one.controller.last
        if one is None or last is None:
            return None
        who, whom = (
            names.positions.get(name)
            for names, name in ((one.controller.consumers, consumer), (one.controller.producers, producer))
        )
        feeds, state = last.feeds, last.state
        found = np.flatnonzero((feeds.consumer == who) & (feeds.producer == whom))
        if who is None or whom is None or not len(found):
            return None
        with closing(one.target.open_store(0)) as feed_store:
            since = feed_store.find_since(consumer, producer)
        rates = PairRates(
            float(feeds.event_rate.near[whom]),
            float(feeds.query_rate.near[who]),
            measured=True,
            stored_ahead=bool(state.ahead[found[0]]),
            threshold=last.threshold,
            is_shed=whom in state.shed,
            since_s=None if since is None else since / SECOND,
        )
        return rates, last.prices

    def _begin(self, plan: Plan, kept: KeptFeed, target: FeedTarget) -> _Deciding:
        feed, now_s = kept.feed, self.clock() / SECOND
        controller = FeedController(
            feed.name,
            kept.reading,
            plan.catalogue.sources[name_decisions(feed.name)],
            feed.freshness_s,
            feed.latency,
            self.prices(plan.catalogue, kept),
            lambda source, start, stop: write_rows(self.folder, source, start, stop),
            now_s,
        )
        reader = target.open_reader()
        try:
            controller.resume(reader, now_s)
        except BaseException:
            reader.close()
            raise
        return _Deciding(kept, target, controller, reader, ReadsOfFeed({}, ()), time.monotonic() + DECIDE_EVERY_S)

    def _look_at(self, one: _Deciding) -> None:
        names = one.kept.reading.names
        logs = self.ledger.logs(names)
        if any(name not in logs for name in names):
            return  # its views are being loaded
        newest, pairs, _ = (logs[name] for name in names)
        reads, now = self.reads.take(one.kept.feed.name), self.clock()
        add_counters(one.reader, one.controller.count(newest, self.store, reads, now / SECOND), now / SECOND)
        one.reads = ReadsOfFeed(reads.counts, (*one.reads.seconds, *reads.seconds))
        if time.monotonic() >= one.decide_at_s or one.controller.bursts:
            reached, _ = self.keepers.progress().get(one.kept.feed.name, (None, None))
            lag_s = 0.0 if reached is None else max(0, now - reached) / SECOND
            decided = one.controller.decide(pairs, self.store, one.reads, lag_s, now / SECOND)
            if decided is not None and (decided.started or decided.ended):
                self.journal.emit(_tell_flips(one.kept.feed.name, decided, now))
            one.reads, one.decide_at_s = keep_reads(one.reads), time.monotonic() + DECIDE_EVERY_S

    def _forget(self, name: str) -> None:
        one = self._deciding.pop(name, None)
        if one is not None:
            one.reader.close()


def _tell_flips(feed: str, decided: FeedDecisions, now: int) -> PairsFlipped:
    return PairsFlipped(
        now,
        feed,
        decided.started,
        decided.ended,
        decided.pairs,
        decided.ahead,
        decided.events_s,
        decided.reads_s,
        decided.latency_s,
        decided.lag_s,
        len(decided.shed),
    )
