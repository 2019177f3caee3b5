"""Measures what it costs to serve each running feed, and keeps that: once it has been level for a while, then weekly,
and when it has grown much.

Prices are measured by a trial on the feed's own store (`run/feeds/trial.py`), and fitted (`observe/feed_prices.py`).
What an entry takes in the engine comes on top, as its operators were seen to take it. The ledger keeps the last prices
of each feed, so that a restart goes on with them; they count as long as store and engine are the same.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.connect.files import FileStore
from headrace.coordinate.feeds.deciding import FeedDeciding
from headrace.model.catalogue import Catalogue, OperatorTime
from headrace.model.errors import ConnectError, HeadraceError, UnknownName
from headrace.model.feed_events import CalibrationFailed, FeedCalibrated
from headrace.model.feed_names import name_trial
from headrace.model.feed_plan import PlannedPrices
from headrace.model.feed_prices import FeedCalibration, FeedPrices, FeedShape
from headrace.model.log import Commit, Lease
from headrace.model.notes import MeasuredPrices, read_document, read_note
from headrace.observe.feed_prices import FeedWork, fit_prices
from headrace.plan.feeds.load import assume_prices, price_engine
from headrace.plan.feeds.prices import choose_prices
from headrace.run.feeds.page import SECOND, PageRules
from headrace.run.feeds.trial import TrialResult, fit_shape, run_trial
from headrace.run.ports import FeedTarget, Ledger
from headrace.site.feeds.find import KeptFeed
from headrace.site.feeds.keepers import FeedKeepers
from headrace.site.journal import Journal
from headrace.site.troubles import CALIBRATION, Troubles

log = logging.getLogger("headrace.service")

LOOK_EVERY_S = 10.0
LEVEL_FOR_S = 60.0
"""How long a feed has to be as fresh as it promises before it is measured."""
AGAIN_AFTER_S = 7 * 86_400.0
GROWN = 4
"""Times as many events as there were call for measuring again: fetching takes longer in large tables."""
TRY_AGAIN_AFTER_S = 3600.0
TURN_WITHIN_S = 60.0
"""How long somebody who asks waits for a calibration that goes on already: as long as one may take."""
MEND = "pages are right, and prices stay as they are; the service keeps trying. If this stays, start it again"
USUAL_FOLLOWS = 20.0
"""Of a reader, while nobody follows anybody."""


def measure_prices(
    target: FeedTarget, rules: PageRules, shape: FeedShape, is_ended: Callable[[], bool] = lambda: False
) -> tuple[FeedPrices, TrialResult]:
    """Prices on a store in which `target` is a trial, of a feed of this shape.

    Raises `ConnectError` if the store is away or too busy.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-trial-") as folder:
        found = run_trial(target, FileStore(Path(folder)), rules, shape, is_ended)
    windows = [
        (FeedWork(one.entries, one.pulls, one.batches, one.reads, one.events, one.found, one.steps), one.seconds)
        for one in found.windows
    ]
    prices = fit_prices(windows, shape.follows)
    assert prices is not None, "a trial has windows enough"
    return prices, found


@dataclass(slots=True)
class _Waiting:
    """When a feed became level, and how long nothing is tried after a failure: seconds of a clock that nobody sets."""

    level_since_s: float | None = None
    not_before_s: float = 0.0
    is_clear: bool = False
    """Whether what an earlier service may have left of a trial is gone."""


@dataclass(slots=True)
class FeedCalibrating:
    """May be asked by any thread; one calibration goes on at a time. `engine` is its kind, `learnt` what operators were
    seen to take.
    """

    ledger: Ledger
    lease: Lease
    keepers: FeedKeepers
    journal: Journal
    troubles: Troubles
    clock: Callable[[], int]
    engine: str
    learnt: Callable[[], Mapping[str, OperatorTime]]
    deciding: FeedDeciding | None = None
    _known: dict[str, FeedCalibration | None] = field(default_factory=dict)
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _busy: tuple[str, float] = ("", 0.0)
    """What goes on in this turn, and since when."""

    # What is known

    def find(self, kept: KeptFeed) -> FeedCalibration | None:
        """The last prices of a feed, if they were measured on the store and the engine that it has now."""
        name = kept.feed.name
        if name not in self._known:  # the ledger is asked once: status asks every second
            note = read_note(self.ledger, MeasuredPrices, name)
            self._known[name] = None if note is None else read_document(note, _read_calibration)
        found = self._known[name]
        return None if found is None or found.place != self._place(kept) else found

    def choose(self, catalogue: Catalogue, kept: KeptFeed) -> PlannedPrices:
        """The prices that decide about the pairs of a feed now."""
        assumed, found = self.assume(catalogue), self.find(kept)
        return assumed if found is None else choose_prices(assumed, found.prices, self.price_engine(catalogue))

    def assume(self, catalogue: Catalogue) -> PlannedPrices:
        return assume_prices(replace(catalogue, operator_times=self._times(catalogue)))

    def price_engine(self, catalogue: Catalogue) -> float:
        return price_engine(self._times(catalogue))

    def _times(self, catalogue: Catalogue) -> Mapping[str, OperatorTime]:
        declared = catalogue.operator_times
        return declared if catalogue.operator_times_declared else {**declared, **self.learnt()}

    def _place(self, kept: KeptFeed) -> str:
        terms = json.dumps([kept.feed.store, kept.address, self.engine])
        return hashlib.sha256(terms.encode()).hexdigest()[:16]

    # Measuring

    def run(self, end: threading.Event) -> None:
        """Looks again and again until it ends."""
        while not end.wait(LOOK_EVERY_S):
            looked = {CALIBRATION + name: self._look_at(name, end) for name in list(self.keepers.progress())}
            self.troubles.report_exactly(CALIBRATION, {key: (one, MEND) for key, one in looked.items() if one})

    def _look_at(self, name: str, end: threading.Event) -> str | None:
        """Measures the prices of a feed if that is due; what keeps us from finding out whether it is."""
        try:
            if self._is_due(name) and not end.is_set():
                self._try(name, end)
            return None
        except Exception as error:  # whatever it is, it may go: prices stay as they are until then
            log.debug("looking at feed %s failed", name, exc_info=error)
            why = next(iter(str(error).splitlines()), "") or type(error).__name__
            return f'whether feed "{name}" is to be calibrated cannot be found out: {why}'

    def calibrate(self, feed: str, is_ended: Callable[[], bool] = lambda: False) -> FeedCalibration:
        """Measures the prices of a feed now, and keeps them. Raises `UnknownName`, or `ConnectError` if that fails or
        cannot begin.
        """
        found = self.keepers.find(feed)
        if found is None:
            raise UnknownName(f'no feed "{feed}" runs', "`headrace status` says which feeds are kept")
        kept, target = found
        if target is None:
            raise ConnectError(f'feed "{feed}" is being filled', "try again when `headrace status` shows its lag")
        with self._taking_turn(f'feed "{feed}" is being calibrated'):
            shape = self._find_shape(kept)
            trial = target.make_trial(name_trial(kept.project, feed))
            prices, measured = measure_prices(trial, kept.rules, shape, is_ended)
            calibration = FeedCalibration(
                feed,
                prices,
                measured.counted,
                self._place(kept),
                self.clock() / SECOND,
                len(measured.windows),
                measured.seconds,
                shape.depth,
                shape.follows,
                shape.producers,
            )
            self._keep(calibration)
            return calibration

    @contextmanager
    def _taking_turn(self, what: str) -> Iterator[None]:
        """One at a time. Raises `ConnectError` that says what goes on, if that takes too long."""
        if not self._turn.acquire(timeout=TURN_WITHIN_S):
            goes_on, since_s = self._busy
            raise ConnectError(f"{goes_on}, for {time.monotonic() - since_s:.0f} s now", "try again in a minute")
        try:
            self._busy = what, time.monotonic()
            yield
        finally:
            self._turn.release()

    def _keep(self, found: FeedCalibration) -> None:
        note = MeasuredPrices(found.feed, json.dumps(found.to_json()))
        self.ledger.commit(self.lease, Commit(notes=(note,)))
        self._known[found.feed] = found
        (entry, entry_error), (pull, pull_error) = found.prices.named["H"], found.prices.named["L"]
        event = FeedCalibrated(self.clock(), found.feed, entry, entry_error, pull, pull_error, found.cpu_s)
        self.journal.emit(event)

    def _find_shape(self, kept: KeptFeed) -> FeedShape:
        """The shape of a feed: as it is, or as feeds usually are."""
        told = {} if self.deciding is None else self.deciding.tell()
        _, sizes = self.keepers.progress().get(kept.feed.name, (None, None))
        last = told.get(kept.feed.name)
        if sizes is None or last is None or not last.pairs:
            return FeedShape(kept.rules.shown, 0, USUAL_FOLLOWS)
        depth = max(1, round(sizes.events / max(1, last.producers)))
        follows, followers = last.pairs / max(1, last.consumers), last.pairs / max(1, last.producers)
        return FeedShape(depth, last.producers, follows, followers)

    # When

    def _is_due(self, feed: str) -> bool:
        kept, target = self.keepers.find(feed) or (None, None)
        waiting, now_s = self._waiting.setdefault(feed, _Waiting()), time.monotonic()
        if kept is None or target is None or not self._is_level(kept):
            waiting.level_since_s = None
            return False
        waiting.level_since_s = now_s if waiting.level_since_s is None else waiting.level_since_s
        if not waiting.is_clear:
            waiting.is_clear = self._clear(kept, target)
        known = self.find(kept)
        is_old = known is None or self.clock() / SECOND - known.at_s > AGAIN_AFTER_S or self._has_grown(kept, known)
        is_time = now_s - waiting.level_since_s >= LEVEL_FOR_S and now_s >= waiting.not_before_s
        return is_old and is_time and not self._turn.locked()  # else somebody measures it just now

    def _has_grown(self, kept: KeptFeed, known: FeedCalibration) -> bool:
        """Whether prices were measured with so few events that they may be other prices now."""
        seen = FeedShape(known.depth, known.producers, known.follows)
        now, then = (fit_shape(shape, kept.rules.shown) for shape in (self._find_shape(kept), seen))
        return now.depth * now.producers > GROWN * then.depth * then.producers

    def _clear(self, kept: KeptFeed, target: FeedTarget) -> bool:
        """Drops what an earlier service may have left of a trial; whether that worked."""
        try:
            trial = target.make_trial(name_trial(kept.project, kept.feed.name))
            what = f'an earlier trial of feed "{kept.feed.name}" is being dropped'
            with self._taking_turn(what), closing(trial.open_store(1)) as left:
                left.drop()
        except HeadraceError as error:
            log.info("a trial of feed %s may be left over: %s", kept.feed.name, error)
            return False
        return True

    def _is_level(self, kept: KeptFeed) -> bool:
        reached, _ = self.keepers.progress().get(kept.feed.name, (None, None))
        return reached is not None and self.clock() - reached <= kept.feed.freshness_s * SECOND

    def _try(self, feed: str, end: threading.Event) -> None:
        """What fails is told, and tried again in an hour: prices of before, or those assumed, stay in use."""
        try:
            self.calibrate(feed, end.is_set)
        except Exception as error:
            if not isinstance(error, HeadraceError):
                log.exception("calibrating feed %s failed", feed)
            if not end.is_set():
                self._waiting[feed].not_before_s = time.monotonic() + TRY_AGAIN_AFTER_S
                why = next(iter(str(error).splitlines()), type(error).__name__)
                self.journal.emit(CalibrationFailed(self.clock(), feed, reason=why))


def _read_calibration(text: str) -> FeedCalibration:
    return FeedCalibration.from_json(json.loads(text))
