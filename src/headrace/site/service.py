"""The service of a project: switches to a plan, keeps its promises, and reports its state.

One thread schedules pushes, one audits, one does upkeep, and one loads what a new plan adds; captures are separate
processes. Everything needed to continue after a crash is in the ledger and in files.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from headrace.connect.postgres.capture import CaptureSettings
from headrace.connect.postgres.slot_watch import SlotWatch
from headrace.model.catalogue import Link
from headrace.model.errors import Conflict
from headrace.model.log import Lease
from headrace.model.notes import SourceStopped, WantedTime, note_keys, read_note
from headrace.run.capture.spool import SPOOL
from headrace.run.logs.upkeep import Upkeep
from headrace.run.ports import Ledger, Runner, Store
from headrace.run.push.in_work import InWork
from headrace.run.push.push import Pushed
from headrace.site.accounts import Accounts
from headrace.site.auditor import Auditor
from headrace.site.beside import begin_beside
from headrace.site.deadline import Deadline
from headrace.site.deliver.deliveries import Deliveries
from headrace.site.deliver.withdrawn import Withdrawals
from headrace.site.engine.late_runner import Absence
from headrace.site.folder import Folder
from headrace.site.gaps import Gaps
from headrace.site.housekeeping import keep_up
from headrace.site.loading import Loader, Loading
from headrace.site.mending import Backoffs, report_bad_rows
from headrace.site.running import Running
from headrace.site.scheduler import Scheduler
from headrace.site.sources.captures import Captures
from headrace.site.sources.sources import Sources
from headrace.site.sources.troubles import report_source_troubles
from headrace.site.troubles import Troubles
from headrace.site.turns import Turns
from headrace.site.unloaded import Unloaded

log = logging.getLogger("headrace.service")

LEASE_S = 30.0
END_WITHIN_S = 30.0
"""How long work of our own may go on after we were told to end: a push, for example."""
ANSWER_WITHIN_S = 8.0
"""How long who asks databases may go on: one that stands still never answers."""
IDLE_S, YIELD_S = 0.25, 0.001
"""Pauses between rounds; however much there is to push, a load that waits for its turn gets it."""
AUDIT_EVERY_S = 1.0
SLOTS_EVERY_S = 3.0


def clock_now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


@dataclass
class Service:
    """Start with `open`, then `apply` a plan; `close` ends all threads and processes.

    `absence` tells whether the engine is away, and must not wait for it; `cores` is how many items it runs side by
    side.
    """

    folder: Folder
    environment: Mapping[str, str]
    runner: Runner[Any]
    clock: Callable[[], int] = clock_now
    in_processes: bool = True
    on_push: Callable[[list[Pushed]], None] | None = None
    absence: Callable[[], Absence | None] = lambda: None
    cores: int = 2
    scheduler: Scheduler | None = None
    loading: Loading | None = None
    pushed_rows: int = 0
    pushes: int = 0
    push_seconds: float = 0.0
    slots: SlotWatch = field(default_factory=SlotWatch)
    gaps: Gaps = field(default_factory=Gaps)
    troubles: Troubles = field(default_factory=Troubles)

    def __post_init__(self) -> None:
        self.stop = threading.Event()
        self.turns = Turns()
        self.in_work = InWork()
        self._threads: list[threading.Thread] = []
        self._answered = 0
        self._quiet_until = 0.0  # on the clock that nobody sets: no push is due before
        self.failure: BaseException | None = None
        self.unloaded = Unloaded()
        self.backoffs = Backoffs()
        self.upkeep: Upkeep | None = None

    # Life

    def open(self) -> None:
        """Takes the project: raises `LeaseHeld` if another service has it."""
        self.folder.prepare()
        self.ledger: Ledger = self.folder.ledger()
        self.store: Store = self.folder.store()
        holder = f"{platform.node()}:{os.getpid()}"
        self.lease: Lease = self.ledger.acquire("service", holder, LEASE_S)
        self.captures = Captures(self.folder, self.environment, self.in_processes)
        self.loader = Loader(self.ledger, self.captures, self.stop)
        self.sources = Sources(self.ledger, self.captures, self.stop)
        self.auditor = Auditor(self.ledger, self.clock)
        self.auditor.resume()
        self.accounts = Accounts(self.ledger)
        self.accounts.resume()
        self.deliveries = Deliveries(self.folder.project, self.ledger, self.store, self.lease, self.troubles)
        self.withdrawals = Withdrawals(self.folder, self.ledger, self.lease, self.troubles)
        self._threads = [self.start(target) for target in (self._schedule, self._audit, self._keep_up)]
        self._watching = self.start(self._watch_slots)

    def start(self, target: Callable[[], None], name: str | None = None) -> threading.Thread:
        """In a thread that takes the service with it if it fails."""
        name = target.__name__ if name is None else name
        thread = threading.Thread(target=self._guarded, args=(target, name), name=name, daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """Abandons threads that wait for a hung database, as a kill would: all that counts is in the ledger."""
        self.stop.set()
        answered, ended = Deadline(ANSWER_WITHIN_S), Deadline(END_WITHIN_S)
        asking = (self.captures, self.deliveries, self.withdrawals)
        for one in asking:
            one.tell_to_end()
        ended.join(self._threads)
        # Pushes that still run beside the others find the service stopped when it is their turn, and commit nothing.
        self.turns.wait_for_pushes(ended.left_s)
        for one in asking:
            one.end(answered)
        if answered.join([self._watching]):
            self.slots.close()
        self.ledger.release(self.lease)
        self.ledger.close()

    def _guarded(self, target: Callable[[], None], name: str) -> None:
        """A thread that fails takes the service with it: half a service would keep no promise."""
        try:
            target()
        except BaseException as error:
            log.exception("%s failed", name)
            self.failure = error
            self.stop.set()

    @property
    def is_running(self) -> bool:
        return not self.stop.is_set()

    # Plans

    @property
    def running(self) -> Running | None:
        """What runs. Take it once and keep it: the next look may find another plan."""
        return None if self.scheduler is None else self.scheduler.running

    def start_loading(self, go_over: Callable[[], None]) -> None:
        """In a thread that `close` waits for."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=go_over, name="load", daemon=True)
        self._threads.append(thread)
        thread.start()

    def links(self) -> tuple[Link, ...]:
        """Of what is on its way to run, then of what runs."""
        both = (None if self.loading is None else self.loading.wanted, self.running)
        return tuple(link for one in both if one is not None for link in one.plan.catalogue.links)

    # Pushing

    def push_to(self, t: int) -> list[Pushed]:
        """Brings every view to a time up to which everything is captured; views in full get there a little later."""
        with self.turns.pushing:
            assert self.running is not None, "nothing runs yet"
            return self._push_views({one.vertex for one in self.running.plan.contracts}, t)

    def _push_views(self, views: Set[str], t: int) -> list[Pushed]:
        assert self.scheduler is not None, "nothing runs yet"
        pushed = self.scheduler.push_asked(views, t, self.clock())
        self._quiet_until = 0.0
        self._account(pushed)
        return pushed

    def _push_as_asked(self) -> None:
        """Who looks from outside may ask for all views at one time, ahead of their turn; tried once.

        But for views that are not loaded, or read a source which is stopped.
        """
        assert self.scheduler is not None
        wanted, engine = read_note(self.ledger, WantedTime), self.scheduler.engine
        if wanted is not None and (t := wanted.t) > self._answered:
            stopped = {SPOOL + name for name in note_keys(self.ledger, SourceStopped)}
            vertices = {one.vertex for one in self.scheduler.running.plan.contracts} & self.ledger.times().keys()
            views = {vertex for vertex in vertices if stopped.isdisjoint(engine.spools([vertex]))}
            if engine.watermark(views) >= t:
                self._answered = t
                self._push_views(views, t)

    def _schedule(self) -> None:
        while not self.stop.is_set():
            with self.turns.pushing:
                if self.scheduler is not None:
                    self.auditor.look_before_pushing()
                    self._push_as_asked()
                pause_s = self._push() if self.scheduler is not None else IDLE_S
            self.stop.wait(min(max(YIELD_S, pause_s), IDLE_S))

    def _push(self) -> float:
        """One round. Returns the seconds until the next may have anything to do."""
        assert self.scheduler is not None
        if (left_s := self._quiet_until - time.monotonic()) > 0:
            return left_s
        began, now, times = time.monotonic(), self.clock(), self.ledger.times()
        lags_s = self.auditor.lags_of(times)
        decision = self.scheduler.decide(now, times, lags_s)
        scene = self.scheduler.scene(now, times, lags_s)
        aside = self.scheduler.set_aside(scene)
        if aside.begin:
            try:
                begin_beside(self, aside.begin, scene)
            except Conflict as error:
                log.warning("somebody else moved what was to be pushed beside the others: %s", error)
            return 0.0
        if not aside.due:
            quiet_s = (decision.next_wake - now) / 1e6
            self.gaps.expect_push(quiet_s)
            self._quiet_until = began + quiet_s
            return quiet_s
        started = time.perf_counter()
        try:
            with self.gaps.pushing():
                pushed = self.scheduler.round(aside, scene)
        except Conflict as error:
            log.warning("somebody else moved what was pushed: %s", error)
            return 0.0
        if pushed:
            self.note_pushed(pushed, time.perf_counter() - started)
        return 0.0 if pushed else IDLE_S

    def note_pushed(self, pushed: list[Pushed], seconds: float) -> None:
        """By whoever has the turn to push; what is made of these may be due now."""
        self._quiet_until = 0.0
        self.pushes += len(pushed)
        self.push_seconds += seconds
        self.pushed_rows += sum(one.rows_out for one in pushed)
        for one in pushed:
            if one.error is not None and not one.halted:
                log.warning("%s could not be pushed: %s", one.vertex, one.error.splitlines()[0])
        self._account(pushed, seconds)

    def _account(self, pushed: list[Pushed], round_s: float | None = None) -> None:
        now = self.clock()
        self.accounts.pushed(pushed, now, round_s)
        self.auditor.judge(self.store, {one.vertex for one in pushed if one.rows_out}, now)
        self.deliveries.pushed()
        if self.on_push is not None:
            self.on_push(pushed)

    # Watching

    def _keep_up(self) -> None:
        keep_up(self)

    def _watch_slots(self) -> None:
        while not self.stop.wait(SLOTS_EVERY_S if self.slots.found else IDLE_S):
            settings = {name: one.settings for name, one in list(self.captures.running.items())}
            self.slots.look({name: one for name, one in settings.items() if isinstance(one, CaptureSettings)})

    def look(self) -> None:
        """Takes the numbers that are shown from now on."""
        self.auditor.audit(self.lease, self.accounts.accounts)

    def _audit(self) -> None:
        renewed = time.monotonic()
        while not self.stop.wait(AUDIT_EVERY_S):
            since = time.monotonic() - renewed
            if since > LEASE_S / 4:
                self.ledger.renew(self.lease, LEASE_S)
                renewed = time.monotonic()
            if since > LEASE_S:
                log.warning(
                    "suspended for %.0f s; no other process took over the project, so the service continues", since
                )
            self.look()
            self._quiet_until = 0.0  # a capture may have fallen behind, which nobody could foresee
            self.captures.check()
            report_source_troubles(self.troubles, self.ledger, self.captures)
            report_bad_rows(self)
