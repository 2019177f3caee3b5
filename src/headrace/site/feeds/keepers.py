"""Keeps the stores of feeds level with their logs, with a thread for each: a store that is away delays no other feed.

Whatever fails is a trouble until it is over, and is tried again. What was done the store knows (`run/feeds/apply.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.connect.feed_targets import OwnStore, open_own_store
from headrace.model.errors import ConnectError, HeadraceError
from headrace.model.log import Lease, Log
from headrace.model.plan import Plan
from headrace.run.feeds.apply import FeedAdvance, FeedApplyItem
from headrace.run.feeds.batch import FeedSizes
from headrace.run.feeds.page import SECOND
from headrace.run.ports import FeedTarget, Ledger, Runner, Store
from headrace.run.program import Program
from headrace.site.deadline import Deadline
from headrace.site.feeds.find import KeptFeed, find_feeds
from headrace.site.troubles import FEED, Troubles

MEND = "make its store reachable, or change `store` and run `headrace apply`; the service keeps trying"
BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 15.0)
LOOK_EVERY_S = 1.0
PURGE_EVERY_S = 60.0
IDLE_SHARE = 0.5
"""Of the freshness: for so long clocks may stand still while nothing happens."""
END_WITHIN_S = 20.0


@dataclass(slots=True)
class _KeptThread:
    """`sizes` are those of the last look."""

    kept: KeptFeed
    reached: int | None = None
    sizes: FeedSizes | None = None
    target: FeedTarget | None = None
    thread: threading.Thread | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class FeedKeepers:
    """`own_folder` is where the PostgreSQL lives that feeds without an address use; it is started when one does."""

    project: Path
    own_folder: Path
    ledger: Ledger
    store: Store
    lease: Lease
    runner: Runner[Any]
    troubles: Troubles
    slots: int = 2
    purge_every_s: float = PURGE_EVERY_S
    _running: dict[str, _KeptThread] = field(default_factory=dict)
    _own: OwnStore | None = None
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def run(self, plan: Plan, program: Program, environment: Mapping[str, str]) -> None:
        """Keeps exactly the feeds of a plan."""
        self.troubles.report_exactly(FEED, {})
        try:
            wanted = {one.feed.name: one for one in find_feeds(plan, program, self.project, environment)}
        except HeadraceError as error:
            self.troubles.report(FEED, f"feeds cannot be kept: {error}", MEND)
            wanted = {}
        for name in [name for name, running in self._running.items() if wanted.get(name) != running.kept]:
            self._end(self._running.pop(name))
        for name, kept in wanted.items():
            if name not in self._running:
                self._start(kept)

    def pushed(self) -> None:
        """Something is new."""
        for running in list(self._running.values()):
            running.wake.set()

    def progress(self) -> dict[str, tuple[int | None, FeedSizes | None]]:
        """The time that each feed has reached, and how large it was at the last look; None if not known yet."""
        return {name: (one.reached, one.sizes) for name, one in list(self._running.items())}

    def find(self, feed: str) -> tuple[KeptFeed, FeedTarget | None] | None:
        """A feed that is kept, and where; nowhere yet while its store is brought level for the first time."""
        running = self._running.get(feed)
        return None if running is None else (running.kept, running.target)

    def tell_to_end(self) -> None:
        for running in list(self._running.values()):
            running.stop.set()
            running.wake.set()

    def end(self, deadline: Deadline) -> None:
        """A step that is not done by then is done again by the next service."""
        self.tell_to_end()
        deadline.join([running.thread for running in self._running.values()])
        self._running = {}
        if self._own is not None:
            self._own.stop()

    def _start(self, kept: KeptFeed) -> None:
        running = self._running[kept.feed.name] = _KeptThread(kept)
        running.thread = threading.Thread(target=self._keep, args=(running,), name="feed", daemon=True)
        running.thread.start()

    def _end(self, running: _KeptThread) -> None:
        running.stop.set()
        running.wake.set()
        Deadline(END_WITHIN_S).join([running.thread])
        self.troubles.clear(FEED + running.kept.feed.name)

    def _keep(self, running: _KeptThread) -> None:
        failures = 0
        while not running.stop.is_set():
            try:
                target = running.kept.find_target(self.find_own_dsn)
                with closing(target.open_store(self.lease.epoch)) as feed_store:
                    advance = FeedAdvance(
                        self._item(running.kept, target),
                        feed_store,
                        self.runner,
                        self.slots,
                        pause=round(running.kept.feed.freshness_s * IDLE_SHARE * SECOND),
                    )
                    self._advance_on(running, advance, target)
                failures = 0
            except Exception as error:  # whatever it is, it is this feed's alone
                failures += 1
                self._report(running, error)
                running.stop.wait(BACKOFF_S[min(failures, len(BACKOFF_S)) - 1])

    def _advance_on(self, running: _KeptThread, advance: FeedAdvance, target: FeedTarget) -> None:
        """Goes on until it is told to end, or something fails."""
        purge_at = time.monotonic()
        while not running.stop.is_set():
            running.wake.clear()
            logs = self._find_logs(running.kept)
            if logs is not None:
                advance.advance(logs)
                running.reached, running.target = advance.reached, target
                self.troubles.clear(FEED + running.kept.feed.name)
                if time.monotonic() >= purge_at:
                    advance.feed_store.purge()
                    running.sizes = advance.feed_store.sizes()
                    purge_at = time.monotonic() + self.purge_every_s
            running.wake.wait(LOOK_EVERY_S)

    def _find_logs(self, kept: KeptFeed) -> tuple[Log, Log, Log] | None:
        """None while the feed's views are loaded."""
        found = self.ledger.logs(kept.reading.names)
        newest, pairs, stored = (found.get(name) for name in kept.reading.names)
        return None if newest is None or pairs is None or stored is None else (newest, pairs, stored)

    def _item(self, kept: KeptFeed, target: FeedTarget) -> FeedApplyItem:
        nowhere = Log("", "", 0, 0)
        return FeedApplyItem(
            feed=kept.feed.name,
            reading=kept.reading,
            target=target,
            store=self.store,
            epoch=self.lease.epoch,
            logs=(nowhere, nowhere, nowhere),
            parts=(),
            after=None,
            upto=0,
        )

    def _report(self, running: _KeptThread, error: Exception) -> None:
        if not running.stop.is_set():
            line = next(iter(str(error).splitlines()), type(error).__name__)
            hint = error.hint if isinstance(error, ConnectError) else None
            name = running.kept.feed.name
            self.troubles.report(FEED + name, f'feed "{name}" is behind: {line}', hint or MEND)

    def find_own_dsn(self) -> str:
        """The address of the PostgreSQL of the project's own, which runs from then on."""
        with self._starting:
            if self._own is None:
                self._own = open_own_store(self.own_folder)
            self._own.start()  # does nothing while it runs, and recovers it after it was killed
            return self._own.dsn()
