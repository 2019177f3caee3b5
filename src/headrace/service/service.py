"""The service of a project: brings what runs to a plan, keeps it, and says how it goes.

One thread schedules pushes, one audits, one does upkeep, one loads what a new plan adds; captures are processes of
their own. All that is needed to go on after a crash is in the ledger and in files.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.connect.postgres.capture import CaptureSettings
from headrace.connect.postgres.slot_watch import SlotWatch
from headrace.model.errors import Conflict, Fenced, HeadraceError
from headrace.model.log import Lease, Round
from headrace.model.plan import Plan
from headrace.plan.document import plan_document
from headrace.run.compile import SPOOL, compile_plan
from headrace.run.execute import KEYS_NOTE, Engine
from headrace.run.ports import Ledger, Runner, Store
from headrace.run.push import Pushed
from headrace.run.steps import Program
from headrace.run.transition import between, tidied
from headrace.run.upkeep import Upkeep
from headrace.service.accounts import Accounts
from headrace.service.auditor import Auditor
from headrace.service.captures import Captures
from headrace.service.databases import databases_of
from headrace.service.deliveries import Deliveries
from headrace.service.folder import Folder
from headrace.service.learning import Learning
from headrace.service.loading import Loader, Loading
from headrace.service.plan_facts import budgets_of, sources_of, watched_of
from headrace.service.scheduler import Scheduler
from headrace.service.sources import Sources

log = logging.getLogger("headrace.service")

LEASE_S = 30.0
IDLE_S, YIELD_S = 0.25, 0.001
"""Pauses between rounds; however much there is to push, who waits for its turn to load gets it."""
AUDIT_EVERY_S = 1.0
UPKEEP_EVERY_S, NOTHING_DUE_S = 0.5, 3.0
"""Looking for upkeep reads all logs: less often when there was none."""
TRIM_EVERY_S = 20.0
SLOTS_EVERY_S = 3.0
KEEP_US = 600 * 1_000_000
"""Changes are kept ten minutes for those who read `changes`; longer while a reader needs them."""
GRACE_S = 60.0
WANTED_NOTE = "wanted"
"""The note of a time to which somebody wants all views to be pushed."""

LEARNT_NOTE = "learnt"
"""The note of how long pushes take."""


def clock_now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


@dataclass
class Service:
    """Start with `open`, then `apply` a plan; `close` ends all threads and processes."""

    folder: Folder
    environment: Mapping[str, str]
    runner: Runner[Any]
    clock: Callable[[], int] = clock_now
    in_processes: bool = True
    on_push: Callable[[list[Pushed]], None] | None = None
    plan: Plan | None = None
    scheduler: Scheduler | None = None
    loading: Loading | None = None
    pushed_rows: int = 0
    pushes: int = 0
    push_seconds: float = 0.0
    forced: Mapping[str, float] = field(default_factory=dict)
    slots: SlotWatch = field(default_factory=SlotWatch)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._swap = threading.RLock()
        self._upkeep_turn = threading.Lock()
        self._plan_turn = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._answered = 0
        self.failure: BaseException | None = None
        self.unloaded: dict[str, str] = {}
        self.upkeep: Upkeep | None = None

    # Life

    def open(self) -> None:
        """Takes the project: raises `Held` if another service has it."""
        self.folder.prepare()
        self.ledger: Ledger = self.folder.ledger()
        self.store: Store = self.folder.store()
        holder = f"{platform.node()}:{os.getpid()}"
        self.lease: Lease = self.ledger.acquire("service", holder, LEASE_S)
        self.captures = Captures(self.folder, self.environment, self.in_processes)
        self.loader = Loader(self.ledger, self.captures, self._stop)
        self.sources = Sources(self.ledger, self.captures, self._stop)
        self.auditor = Auditor(self.ledger, self.clock)
        self.auditor.resume()
        self.accounts = Accounts(self.ledger)
        self.accounts.resume()
        self.deliveries = Deliveries(self.folder.project, self.ledger, self.store, self.lease)
        for target in (self._schedule, self._audit, self._keep_up, self._watch_slots):
            thread = threading.Thread(target=self._guarded, args=(target,), name=target.__name__, daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=30)
        self.deliveries.stop()
        self.captures.stop()
        self.slots.close()
        self.ledger.release(self.lease)
        self.ledger.close()

    def _guarded(self, target: Callable[[], None]) -> None:
        """A thread that fails takes the service with it: half a service would keep no promise."""
        try:
            target()
        except BaseException as error:
            log.exception("%s failed", target.__name__)
            self.failure = error
            self._stop.set()

    @property
    def is_running(self) -> bool:
        return not self._stop.is_set()

    # Plans

    def apply(self, plan: Plan, forced: Mapping[str, float] | None = None) -> Loading:
        """Moves to a plan in the background: what is new is loaded first, then what is old goes."""
        loading = Loading(plan, forced or {})
        self.loading = loading
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=self._load, args=(loading,), name="load", daemon=True)
        self._threads.append(thread)
        thread.start()
        return loading

    def _load(self, loading: Loading) -> None:
        with self._plan_turn:
            try:
                self._bring_up(loading)
            except Exception as error:  # whatever it is: what ran before goes on
                log.exception("loading failed")
                loading.error = str(error) or type(error).__name__
                self._take_back()
            finally:
                loading.done.set()

    def _bring_up(self, loading: Loading) -> None:
        program, before = compile_plan(loading.plan), self.plan or self.folder.running()
        used = sources_of(program)
        if self.plan is not None:
            self.sources.forget_unread(self._read(), self.lease, used)
        self.sources.capture_both(self.plan, loading.plan)
        loading.phase = "reading the sources"
        self.loader.wait_for_sources(used, loading)
        loading.phase = "starting what computes"
        self.runner.run([])  # returns once it has started: what views start from is then not old already
        with self._upkeep_turn:  # what views start from must not be compacted past their start
            unloaded = self.loader.load_new(self._between(program), program, loading)
            with self._swap:
                self.unloaded = unloaded
                self._switch(loading, self._engine(program, running=True))
        self.sources.capture_only(loading.plan)
        self.deliveries.run(loading.plan, program, self.environment, before)
        loading.phase = "running"

    def _engine(self, program: Program, running: bool) -> Engine:
        turn = self._swap if running else None
        return Engine(program, self.ledger, self.store, self.runner, self.lease, turn)

    def _between(self, program: Program) -> Engine:
        """Makes what runs, or ran last, as before, and from now on keeps it up for both that and the program."""
        last = self.folder.running() if self.scheduler is None else None
        old = None if last is None else compile_plan(last)
        if self.scheduler is not None:
            old = self.scheduler.engine.program
        engine = self._engine(between(old, program), running=self.scheduler is not None)
        with self._swap:
            if self.scheduler is not None:
                self.scheduler.engine.program = engine.program
        return engine

    def _take_back(self) -> None:
        """What ran before goes on, as if no other plan had been asked for."""
        if self.plan is None or self.scheduler is None or self._stop.is_set():
            return
        program = compile_plan(self.plan)
        with self._upkeep_turn, self._swap:
            self.scheduler.engine.program = program
            self._tidy(program)
        self.sources.capture_only(self.plan)

    def _read(self) -> frozenset[str]:
        """Sources that what runs reads."""
        assert self.scheduler is not None
        return sources_of(self.scheduler.engine.program)

    def _tidy(self, program: Program) -> None:
        """Forgets what a program has no use for; nobody may push meanwhile."""
        logs = {name: one for name, one in self.ledger.logs().items() if not name.startswith(SPOOL)}
        self.ledger.commit(self.lease, tidied(program, logs, self.ledger.notes(KEYS_NOTE)))

    # Loading later

    def _load_left_out(self) -> None:
        """What could not be computed may be computed now."""
        assert self.plan is not None and self.scheduler is not None
        for entry in self.plan.contracts:
            if entry.contract in self.unloaded:
                error = self.loader.try_to_load(self.scheduler.engine, [entry.vertex])
                if error is None:
                    del self.unloaded[entry.contract]
                else:
                    self.unloaded[entry.contract] = error

    def _load_again(self, cut_off: tuple[str, ...]) -> None:
        """Vertices that lagged behind what the budget of their site keeps start anew."""
        if cut_off and self.scheduler is not None:
            engine = self.scheduler.engine
            with self._swap:
                again = engine.forget(cut_off)
            log.warning("cut off by the budget of their site, and loaded again: %s", ", ".join(again))
            error = self.loader.try_to_load(engine)
            if error is not None:
                log.warning("loading again failed: %s", error)

    def _switch(self, loading: Loading, engine: Engine) -> None:
        """From here on the plan runs. Nobody pushes meanwhile."""
        plan, program = loading.plan, engine.program
        self._start_states(engine)
        self.folder.save_running(plan, plan_document(plan))
        self._tidy(program)
        self.plan, self.forced = plan, loading.forced
        self.scheduler = Scheduler(plan, engine, forced=frozenset(loading.forced), learning=self._learnt(plan))
        unnamed = self.upkeep.unnamed if self.upkeep is not None else {}
        self.upkeep = Upkeep(engine, KEEP_US, budgets_of(plan), unnamed)
        self.accounts.follow(plan)
        self.auditor.watch(
            tuple(
                replace(one, freshness_s=loading.forced.get(one.contract, one.freshness_s))
                for one in watched_of(plan, program, databases_of(plan.catalogue, sources_of(program)))
            )
        )

    def _start_states(self, engine: Engine) -> None:
        """Of vertices that are made in another way than before; those for which that is too late start anew."""
        try:
            engine.start_states()
        except RuntimeError as error:
            log.warning("loaded anew, since they are made in another way: %s", error)
            engine.forget(engine.without_state())
            self.loader.try_to_load(engine)

    def _learnt(self, plan: Plan) -> Learning:
        """What the plan before taught, or an earlier run of the service."""
        if self.scheduler is not None:
            return self.scheduler.learning.moved_to(plan)
        text = self.ledger.notes(LEARNT_NOTE).get(LEARNT_NOTE)
        try:
            return Learning(plan) if text is None else Learning.from_json(plan, text)
        except (KeyError, TypeError, ValueError) as error:
            log.info("starts to learn how long pushes take: what was kept of that is not readable (%s)", error)
            return Learning(plan)

    def push_to(self, t: int) -> list[Pushed]:
        """Brings every view to a time up to which everything is captured."""
        with self._swap:
            return self._push_all(t)

    def _push_all(self, t: int) -> list[Pushed]:
        assert self.plan is not None and self.scheduler is not None, "nothing runs yet"
        pushed = self.scheduler.engine.push({one.vertex for one in self.plan.contracts}, t)
        self._account(pushed)
        return pushed

    def _push_as_asked(self) -> None:
        """Who looks from outside may ask for all views at one time, ahead of their turn; tried once."""
        assert self.plan is not None and self.scheduler is not None
        t = int(self.ledger.notes(WANTED_NOTE).get(WANTED_NOTE, "0"))
        views = {one.vertex for one in self.plan.contracts}
        if t > self._answered and self.scheduler.engine.watermark(views) >= t:
            self._answered = t
            self._push_all(t)

    # Threads

    def _schedule(self) -> None:
        while not self._stop.is_set():
            with self._swap:
                if self.scheduler is not None:
                    self.auditor.look_before_pushing()
                    self._push_as_asked()
                busy = self._push() if self.scheduler is not None else False
            self._stop.wait(YIELD_S if busy else IDLE_S)

    def _push(self) -> bool:
        """One round; whether there was anything to do."""
        assert self.scheduler is not None
        now, times = self.clock(), self.ledger.times()
        self.scheduler.decide(now, times, self.auditor.lags_s)
        if not self.scheduler.pending:
            return False
        started = time.perf_counter()
        try:
            pushed = self.scheduler.round(now, times, self.auditor.lags_s)
        except Conflict as error:
            log.warning("somebody else moved what was pushed: %s", error)
            return True
        if pushed:
            self.pushes += len(pushed)
            seconds = time.perf_counter() - started
            self.push_seconds += seconds
            self.pushed_rows += sum(one.rows_out for one in pushed)
            for one in pushed:
                if one.error is not None:
                    log.warning("%s could not be pushed: %s", one.vertex, one.error.splitlines()[0])
            self._account(pushed, seconds)
        return bool(pushed)

    def _account(self, pushed: list[Pushed], round_s: float | None = None) -> None:
        now = self.clock()
        self.accounts.pushed(pushed, now, round_s)
        self.auditor.judge(self.store, {one.vertex for one in pushed if one.rows_out}, now)
        self.deliveries.pushed()
        if self.on_push is not None:
            self.on_push(pushed)

    def _watch_slots(self) -> None:
        while not self._stop.wait(SLOTS_EVERY_S if self.slots.found else IDLE_S):
            settings = {name: one.settings for name, one in list(self.captures.running.items())}
            self.slots.look({name: one for name, one in settings.items() if isinstance(one, CaptureSettings)})

    def _audit(self) -> None:
        renewed = time.monotonic()
        while not self._stop.wait(AUDIT_EVERY_S):
            since = time.monotonic() - renewed
            if since > LEASE_S / 4:
                self.ledger.renew(self.lease, LEASE_S)
                renewed = time.monotonic()
            if since > LEASE_S:
                log.warning("stood still for %.0f s; nobody else took the project, so it goes on", since)
            self.auditor.audit(self.lease, self.accounts.notes())
            self.captures.check()

    def _keep_learnt(self) -> None:
        if self.scheduler is not None:
            self.ledger.commit(self.lease, Round(notes={LEARNT_NOTE: self.scheduler.learning.to_json()}))

    def _keep_up(self) -> None:
        trimmed, pause = time.monotonic(), UPKEEP_EVERY_S
        while not self._stop.wait(pause):
            try:
                with self._upkeep_turn:
                    if self.upkeep is None:
                        continue
                    pause = UPKEEP_EVERY_S if self.upkeep.step() is not None else NOTHING_DUE_S
                    if time.monotonic() - trimmed > TRIM_EVERY_S:
                        trimmed = time.monotonic()
                        self._trim(self.upkeep)
                self._tidy_spools()
            except Fenced:
                raise
            except (HeadraceError, RuntimeError) as error:
                log.warning("upkeep: %s", error)

    def _trim(self, upkeep: Upkeep) -> None:
        self.accounts.keep(self.clock())
        self._keep_learnt()
        self._load_left_out()
        self._load_again(upkeep.trim(self.clock()))
        upkeep.sweep(time.time(), grace=GRACE_S)
        self._forget_withdrawn()
        self.auditor.forget_moments(self.lease)

    def _forget_withdrawn(self) -> None:
        """Contracts that are not asked for any more: nothing is owed to them."""
        assert self.plan is not None
        asked = self.plan.catalogue.contracts.keys()
        notes = {**self.auditor.forget_others(asked), **self.accounts.forget_others(asked)}
        if notes:
            self.ledger.commit(self.lease, Round(notes=notes))

    def _tidy_spools(self) -> None:
        """While a plan is loaded it is not certain which of them are read."""
        if self.plan is not None and self._plan_turn.acquire(blocking=False):
            try:
                self.sources.forget_unread(self._read(), self.lease)
            finally:
                self._plan_turn.release()
