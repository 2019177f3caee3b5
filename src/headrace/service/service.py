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
from headrace.model.errors import Fenced, HeadraceError
from headrace.model.log import Lease, Round
from headrace.model.plan import Plan
from headrace.plan.document import plan_document
from headrace.run.compile import SPOOL, compile_plan
from headrace.run.execute import Engine, NotThereYet
from headrace.run.ports import Ledger, Runner, Store
from headrace.run.push import Pushed
from headrace.run.upkeep import Upkeep
from headrace.service.accounts import Accounts
from headrace.service.auditor import Auditor
from headrace.service.captures import Captures
from headrace.service.databases import Database, databases_of
from headrace.service.deliveries import Deliveries
from headrace.service.folder import Folder
from headrace.service.learning import Learning
from headrace.service.plan_facts import budgets_of, sources_of, watched_of
from headrace.service.scheduler import Scheduler

log = logging.getLogger("headrace.service")

LEASE_S = 30.0
IDLE_S = 0.25
AUDIT_EVERY_S = 1.0
UPKEEP_EVERY_S, NOTHING_DUE_S = 0.5, 3.0
"""Looking for upkeep reads all logs: less often when there was none."""
TRIM_EVERY_S = 20.0
SLOTS_EVERY_S = 3.0
LOAD_TRIES = 5
CATCH_UP_S = 20.0
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


@dataclass(slots=True)
class Loading:
    """What is on its way to run: a plan, and how far it is.

    `forced` contracts were refused and are kept as well as it goes: what they are promised, in seconds.
    """

    plan: Plan
    forced: Mapping[str, float] = field(default_factory=dict)
    phase: str = "starting captures"
    error: str | None = None
    done: threading.Event = field(default_factory=threading.Event)


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
        self._swap = threading.Lock()
        self._upkeep_turn = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._answered = 0
        self.failure: BaseException | None = None
        self.unloaded: dict[str, str] = {}

    # Life

    def open(self) -> None:
        """Takes the project: raises `Held` if another service has it."""
        self.folder.prepare()
        self.ledger: Ledger = self.folder.ledger()
        self.store: Store = self.folder.store()
        holder = f"{platform.node()}:{os.getpid()}"
        self.lease: Lease = self.ledger.acquire("service", holder, LEASE_S)
        self.captures = Captures(self.folder, self.environment, self.in_processes)
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
        thread = threading.Thread(target=self._load, args=(loading,), name="load", daemon=True)
        self._threads.append(thread)
        thread.start()
        return loading

    def _load(self, loading: Loading) -> None:
        try:
            self._bring_up(loading)
        except Exception as error:  # whatever it is: what ran before goes on
            log.exception("loading failed")
            loading.error = str(error) or type(error).__name__
        finally:
            loading.done.set()

    def _bring_up(self, loading: Loading) -> None:
        plan = loading.plan
        program = compile_plan(plan)
        used = sources_of(program)
        databases = databases_of(plan.catalogue, used)
        self.captures.run(plan, databases)
        loading.phase = "reading the sources"
        self._wait_for_sources(used, loading)
        loading.phase = "starting what computes"
        self.runner.run([])  # returns once it has started: what views start from is then not old already
        loading.phase = "computing the views"
        engine = Engine(program, self.ledger, self.store, self.runner, self.lease)
        with self._upkeep_turn:  # what views start from must not be compacted past their start
            self._forget_remade(engine)
            self._load_new(engine, plan)
            with self._swap:  # nobody pushes by the old plan while keys that only the new one has are built
                self._switch(loading, engine, databases)
        self.captures.keep_only(plan, databases)
        self.deliveries.run(plan, program, self.environment)
        loading.phase = "running"

    def _forget_remade(self, engine: Engine) -> None:
        """Vertices that are made in another way than before, by an operator with a state that is not there, start
        anew, and all that reads them.
        """
        times, tasks = self.ledger.times(), engine.program.tasks
        remade: dict[str, None] = {}
        for name, task in tasks.items():
            lacks_state = task.state is not None and task.state.name not in times
            if name in times and (lacks_state or any(read in remade for read in task.reads)):
                remade[name] = None
        if remade:
            log.warning("loaded anew, since they are made in another way: %s", ", ".join(remade))
            with self._swap:
                self.scheduler = None
                engine.forget(remade)

    def _load_new(self, engine: Engine, plan: Plan) -> None:
        """All at once; what cannot be computed is left out, and does not keep the others waiting."""
        self.unloaded = {}
        error = self._try_to_load(engine)
        if error is None:
            return
        log.warning("loading one by one: %s", error)
        for entry in plan.contracts:
            error = self._try_to_load(engine, [entry.vertex])
            if error is not None:
                log.warning('contract "%s" cannot be loaded: %s', entry.contract, error)
                self.unloaded[entry.contract] = error
        if len(self.unloaded) == len(plan.contracts):
            raise RuntimeError(next(iter(self.unloaded.values())))

    def _try_to_load(self, engine: Engine, wanted: list[str] | None = None) -> str | None:
        """Why it did not work; None if it did. Sources of several databases may not have come to a common time yet."""
        for left in range(LOAD_TRIES - 1, -1, -1):
            try:
                engine.load(wanted)
                return None
            except NotThereYet as error:
                if not left or self._stop.wait(1.0):
                    return str(error)
            except RuntimeError as error:
                return str(error)
        return None

    def _load_left_out(self) -> None:
        """What could not be computed may be computed now."""
        assert self.plan is not None and self.scheduler is not None
        for entry in self.plan.contracts:
            if entry.contract in self.unloaded:
                error = self._try_to_load(self.scheduler.engine, [entry.vertex])
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
            error = self._try_to_load(engine)
            if error is not None:
                log.warning("loading again failed: %s", error)

    def _wait_for_sources(self, used: frozenset[str], loading: Loading) -> None:
        while not self._stop.is_set():
            notes = self.ledger.notes("loaded:")
            missing = sorted(name for name in used if f"loaded:{name}" not in notes)
            if not missing:
                self._wait_for_times({SPOOL + name: max(map(int, notes.values())) for name in used})
                return
            self.captures.check()
            loading.phase = f"reading {len(missing)} of {len(used)} sources: {', '.join(missing[:3])}"
            self._stop.wait(0.1)
        raise RuntimeError("the service is stopping")

    def _wait_for_times(self, wanted: Mapping[str, int]) -> None:
        """Until logs have reached times: views loaded before that would lack rows that were read a moment later.

        Not for ever: a source that does not move on any more holds up nobody but its own views.
        """
        until = time.monotonic() + CATCH_UP_S
        while time.monotonic() < until and not self._stop.is_set():
            times = self.ledger.times()
            if all(times.get(name, t) >= t for name, t in wanted.items()):
                return
            self._stop.wait(0.05)

    def _switch(self, loading: Loading, engine: Engine, databases: tuple[Database, ...]) -> None:
        plan, program = loading.plan, engine.program
        keep = set(program.logs) | {SPOOL + source for source in sources_of(program)}
        gone = tuple(sorted(set(self.ledger.times()) - keep))
        self.folder.save_running(plan, plan_document(plan))
        if gone:
            # A source that comes back is read anew.
            read = {"loaded:" + name.removeprefix(SPOOL): None for name in gone if name.startswith(SPOOL)}
            self.ledger.commit(self.lease, Round(notes=read, forget=gone))
        self.plan, self.forced = plan, loading.forced
        self.scheduler = Scheduler(plan, engine, forced=frozenset(loading.forced), learning=self._learnt(plan))
        self.upkeep = Upkeep(engine, KEEP_US, budgets_of(plan))
        self.upkeep.build_keys()
        self.accounts.plan = plan
        self.auditor.watch(
            tuple(
                replace(one, freshness_s=loading.forced.get(one.contract, one.freshness_s))
                for one in watched_of(plan, program, databases)
            )
        )

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
                    self._push_as_asked()
                busy = self._push() if self.scheduler is not None else False
            if not busy:
                self._stop.wait(IDLE_S)

    def _push(self) -> bool:
        """One round; whether there was anything to do."""
        assert self.scheduler is not None
        self.auditor.look_before_pushing()
        now, times = self.clock(), self.ledger.times()
        self.scheduler.decide(now, times, self.auditor.lags_s)
        if not self.scheduler.pending:
            return False
        started = time.perf_counter()
        pushed = self.scheduler.round(now, times, self.auditor.lags_s)
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
            upkeep = getattr(self, "upkeep", None)
            if upkeep is None:
                continue
            try:
                with self._upkeep_turn:
                    pause = UPKEEP_EVERY_S if upkeep.step() is not None else NOTHING_DUE_S
                    if time.monotonic() - trimmed > TRIM_EVERY_S:
                        trimmed = time.monotonic()
                        self.accounts.keep(self.clock())
                        self._keep_learnt()
                        self._load_left_out()
                        self._load_again(upkeep.trim(self.clock()))
                        upkeep.sweep(time.time(), grace=GRACE_S)
            except Fenced:
                raise
            except (HeadraceError, RuntimeError) as error:
                log.warning("upkeep: %s", error)
