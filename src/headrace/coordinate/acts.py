"""What each step does to a service. Every act may be repeated: it asks what is there, and does what is missing.

Sources are captured for both plans until the switch, and logs are kept up for both programs, so that what runs goes on
whatever happens to the plan that is wanted. Captures, threads and the engine do not outlive a service: each act sees to
it that those it needs are there, also in a service that goes on where another one died.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, assert_never

from headrace.coordinate.holding_back import ContractHolding, find_that_may_be_held, report_held
from headrace.coordinate.steps import copies_asked
from headrace.coordinate.telling_plans import tell_applied
from headrace.model.log import Commit
from headrace.model.notes import LogKeys, read_notes
from headrace.model.plan import Plan
from headrace.model.plan_events import SourcesReread
from headrace.model.steps import (
    BuildIndex,
    ChangeContract,
    ForgetVertices,
    GiveBackSlot,
    KeepContract,
    LoadVertices,
    MoveVertex,
    ReadAgain,
    ReadSources,
    RemoveCopy,
    RewireVertex,
    StartCapture,
    Step,
    Steps,
    StopCapture,
    StopContract,
    SwitchPlan,
    TakeOver,
    WriteCopy,
    join_names,
)
from headrace.plan.document import plan_document
from headrace.run.capture.spool import SPOOL
from headrace.run.load.transition import between, find_turned, make_tidying_commit
from headrace.run.logs.upkeep import Upkeep
from headrace.run.program import Ingest, Program
from headrace.run.push.engine import Engine
from headrace.site.deliver.leftovers import Noted, captures_of, stores_of_feeds
from headrace.site.loading import Loading
from headrace.site.running import Running, make_running
from headrace.site.site_folders import read_part
from headrace.site.unloaded import find_left_out

if TYPE_CHECKING:
    from headrace.site.service import Service

log = logging.getLogger("headrace.service")

NOT_LOADED = "it is not loaded yet"
READ_AGAIN = "it changed, or somebody asked for it"


@dataclass
class ServiceActs:
    """Does steps in a service. One thread at a time, which has the turn to go over to a plan.

    What is `held` until the switch is let go at the end.
    """

    service: Service
    loading: Loading
    held: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.wanted = self.loading.wanted
        self.before = self.service.running or ran_last(self.service)
        self._between: Engine | None = None
        self._unloaded: dict[str, str] = {}
        self._held_logs: Collection[str] = ()
        self._ending: tuple[threading.Thread, ...] = ()
        self._captures = False
        self._began = time.monotonic()

    def begin(self, left: Steps) -> None:
        """A service that has just started runs nothing yet: what is wanted may need no switch, or had it already."""
        if self.service.running is None and SwitchPlan() not in left:
            self._switch()

    def act(self, steps: Steps) -> None:
        """Does steps that are one act (`split_acts`)."""
        first = steps[0]
        match first:
            case ReadAgain():
                self.read_again([step.source for step in steps if isinstance(step, ReadAgain)])
            case StartCapture():
                self._capture()
            case ReadSources():
                self._read()
            case BuildIndex():
                self._engine_between()
            case LoadVertices() | MoveVertex():
                self._load(_logs_of(steps))
            case TakeOver() | RewireVertex() | ChangeContract() | KeepContract() | SwitchPlan():
                self._switch()
            case StopContract() | ForgetVertices():
                self._forget(steps)
            case StopCapture():
                self.service.sources.capture_only(self.wanted)
                self.service.sources.forget_unread(self.wanted.sources, self.service.lease)
            case WriteCopy():
                self._note_copies()
                self._deliver()
            case RemoveCopy() | GiveBackSlot():
                withdraw_others(self.service, self.wanted, self._ending)
            case _:
                assert_never(first)

    def finish(self) -> None:
        self.service.sources.capture_only(self.wanted)
        # A list that was resumed does not name what a plan that was given up in between has made.
        withdraw_others(self.service, self.wanted, self._ending)
        tell_applied(self.service, self.before, self.wanted, time.monotonic() - self._began)
        self.loading.say("running")

    # Sources

    def read_again(self, sources: Collection[str]) -> None:
        """Forgets what was read of sources, and everything made from that, in one commit."""
        names = ", ".join(sorted(sources))
        self.loading.say(f"starting again: {names}")
        reread = SourcesReread(self.service.clock(), tuple(sorted(sources)), reason=READ_AGAIN)
        self.service.journal.emit(reread)
        self.service.captures.end_of(sources)
        with self.service.turns.upkeep_and_pushing():
            self._forget_made_from(sources)
        self.service.sources.note_shapes(self.wanted, self.service.lease)

    def _forget_made_from(self, sources: Collection[str]) -> None:
        """Forgets what is made by what runs or ran last, and by what is wanted: it may have been on its way before."""
        service = self.service
        programs = [program for program in (self._pushed(), self.wanted.program) if program is not None]
        made = service.sources.forget_made_from(sources, programs, service.lease)
        state = service.rounds.state
        if state is not None:
            service.unloaded.leave_out(state.running.plan, state.program, made, "its sources are being read again")

    def _capture(self) -> None:
        """Captures what runs and what is wanted; what a capture makes in its database is noted before it does."""
        if self._captures:
            return
        self._captures = True
        service, both = self.service, [one for one in (self.before, self.wanted) if one is not None]
        service.withdrawals.keep([capture for one in both for capture in captures_of(one, service.folder)])
        # After the sources that changed were forgotten: a note says of what shape the rows in a spool are.
        service.sources.note_shapes(self.wanted, service.lease)
        service.sources.capture_both(service.running, self.wanted)

    def _read(self) -> None:
        self._capture()
        self.loading.say("reading the sources")
        self.service.loader.wait_for_sources(self.loading, first=self.service.running is None)
        self.service.report_source_troubles()  # what was mended meanwhile is told before `up --detach` says it runs

    # Vertices

    def _pushed(self) -> Program | None:
        """What is pushed now, or was last: while a plan is loaded that is more than the plan that runs asks for."""
        state = self.service.rounds.state
        if state is not None:
            return state.program
        return None if self.before is None else self.before.program

    def _engine_between(self) -> Engine:
        """Makes what runs, or ran last, as before, and from now on keeps it up for what is wanted as well.

        Builds the indexes that are missing. From here to the switch nobody compacts what views start from.
        """
        if self._between is None:
            service, program = self.service, self.wanted.program
            self._mend_what_ran()
            self._capture()
            self.loading.say("starting the engine")
            service.runner.run([])  # returns once it has started: what views start from is then not old already
            self.held.enter_context(service.turns.upkeep)
            there = service.ledger.times()
            anew = frozenset(name for name in program.logs if name not in there)
            both = between(self._pushed(), program, anew)
            self._between = self._engine(both, running=service.running is not None, charging=False)
            service.note_loading(self._between)
            pushed = self._pushed()
            with service.turns.pushing:
                if pushed is not None:
                    self._start_turned_anew(find_turned(pushed, both), self._between)
                # Before the first push by this program: an index that another plan built and this one does not keep up
                # would lack what is pushed from here on, and be taken for whole later.
                tidy_keys(service, both)
                service.rounds.push_program(self._between.program)
            self.loading.say("building indexes")
            Upkeep(self._between).build_keys()
        return self._between

    def _mend_what_ran(self) -> None:
        """Forgets what a service that died left in a state from which it cannot go on: it is loaded again."""
        program = self._pushed()
        if self.service.running is not None or program is None:
            return
        engine = self._engine(program, running=False)
        steps = [program.tasks[name].step for name in engine.find_cut_off()]
        sources = {step.spool.removeprefix(SPOOL) for step in steps if isinstance(step, Ingest)}
        if sources:
            self.read_again(sources)
        self._forget_cut_off(engine)

    def _engine(self, program: Program, running: bool, charging: bool = True) -> Engine:
        service = self.service
        turn = service.turns.pushing if running else None
        ports = (service.ledger, service.store, service.runner, service.lease)
        expect = service.rounds.expect()  # what is known to take long may do so
        told = (turn, service.accounts.loaded, service.in_work)
        # What loading pushes is charged to nobody: contracts would cost more in their first hour than later.
        tell = service.accounts.tell if charging else service.accounts.tell_loading
        slow = service.links_take_time
        neighbours = service.importing
        return Engine(program, *ports, *told, expect=expect, tell=tell, links_take_time=slow, neighbours=neighbours)

    def _load(self, names: Collection[str]) -> None:
        engine = self._engine_between()
        self.loading.say(f"computing {len(names)} vertices")
        loader = self.service.loader
        if self.service.importing is None:
            self._unloaded = loader.load_contracts(engine, self.wanted, names)
        else:
            # Contracts that may go on as they are made now wait for nobody.
            running = self.service.running
            kept = set() if running is None else {one.contract for one in running.plan.contracts}
            kept -= find_that_may_be_held(running, self.wanted, ())
            self._unloaded = loader.load_as_available(engine, self.loading, names, kept)

    def _forget(self, steps: Steps) -> None:
        """Forgets logs that nothing reads. What was left over goes before the switch, when nothing is loaded yet."""
        service, known = self.service, self.service.ledger.times()
        spools = frozenset(name for step in steps if isinstance(step, ForgetVertices) for name in step.spools)
        if spools and self.before is not None:
            service.sources.forget_unread(self.before.sources, service.lease, spools)
        names = tuple(name for name in _logs_of(steps) if name in known and name not in self._held_logs)
        with service.turns.upkeep_and_pushing():
            keys = tuple(LogKeys.remove(name) for name in names)
            service.ledger.commit(service.lease, Commit(notes=keys, forget=names))

    # The switch

    def _switch(self) -> None:
        """Switches to the plan. One file says so: a crash before it is written leaves the plan before."""
        service = self.service
        both = self._engine_between()
        service.loader.level(both, self.wanted.program)
        held = self._hold_back()
        wanted = self.wanted
        self.loading.say("switching")
        self._note_copies()
        with service.turns.pushing:
            engine = self._engine(wanted.program, running=True)
            self._forget_cut_off(engine)
            self._start_turned_anew(find_turned(both.program, wanted.program), engine)
            self._leave_out(engine)
            self._start_states(engine, wanted.plan)
            service.folder.save_running(wanted.plan, plan_document(wanted.plan))
            tidy_keys(service, wanted.program)
            service.switch(wanted, engine)
        self.loading.hold(wanted, held)
        report_held(service.troubles, held)
        self.held.close()
        self._deliver()

    def _hold_back(self) -> Mapping[str, str]:
        """Where sites run apart, contracts that cannot be made in the new way yet go on in the old one. Why they do."""
        service, before = self.service, self.before
        if service.importing is None or before is None:
            return {}
        if before is self.wanted:  # read again: what is held back goes on being so
            return self.loading.held
        part = read_part(service.folder)
        earlier = () if part is None else part.earlier
        make_engine, silent = partial(self._engine, running=True), service.find_silent_sites()
        held = ContractHolding(before, self.wanted, earlier, make_engine, silent).hold(self._unloaded)
        if held is None:
            return {}
        log.info("these go on as before: %s", ", ".join(held.why) or "what other sites read")
        self.wanted, self._held_logs = held.running, held.running.program.logs
        self._unloaded = {name: why for name, why in self._unloaded.items() if name not in held.why}
        return held.why

    def _start_turned_anew(self, turned: Collection[str], engine: Engine) -> None:
        """Forgets copies of views in full whose changes come from elsewhere from now on: upkeep loads them again."""
        gone = engine.forget(turned) if turned else []
        if gone:
            log.warning("to be loaded again, because it is computed at another site: %s", ", ".join(gone))
            self.service.unloaded.leave_out(self.wanted.plan, engine.program, gone, NOT_LOADED)

    def _forget_cut_off(self, engine: Engine) -> None:
        """Forgets vertices that could not go on by the plan: what they lack will not come. Upkeep loads them again.

        Raises RuntimeError where what runs can go on with them: its views are better than none.
        """
        lost = engine.find_cut_off()
        if self.service.running is not None and self._between is not None:
            halted = self._between.waiting()
            going_on = [name for name in lost if name not in halted]
            if going_on:
                names = find_left_out(self.wanted.plan, engine.program, going_on)
                raise RuntimeError(
                    f"contracts {join_names(names)} would have no rows for some time: some of their sources are not"
                    " captured as far as others now"
                )
        if lost:
            gone = engine.forget(lost)
            log.warning("to be loaded again, because changes that they lack are gone: %s", ", ".join(gone))

    def leave_cut_off(self) -> None:
        """Forgets what cannot go on by the plan that runs, after another one was given up. The caller has the turns."""
        engine, plan = self._engine(self.wanted.program, running=True), self.wanted.plan
        lost = engine.find_cut_off()
        if lost:
            self.service.unloaded.leave_out(plan, engine.program, engine.forget(lost), NOT_LOADED)

    def _leave_out(self, engine: Engine) -> None:
        """Contracts whose views could not be loaded: upkeep tries again. A service before this one may have tried."""
        plan = self.wanted.plan
        missing = dict.fromkeys(find_left_out(plan, engine.program, engine.missing()), NOT_LOADED)
        self.service.unloaded.start({**missing, **self._unloaded}, [entry.contract for entry in plan.contracts])

    def _start_states(self, engine: Engine, plan: Plan) -> None:
        """Starts the states of vertices that are made in another way than before, or the vertices if it is too late."""
        lost = {name: error for name, error in engine.start_states().items() if error is not None}
        for error in lost.values():
            log.warning("loaded again, because it is now computed differently: %s", error)
        if lost:
            gone = engine.forget(list(lost))
            failed = self.service.loader.try_to_load(engine, gone)
            if failed is not None:
                self.service.unloaded.leave_out(plan, engine.program, gone, str(failed))

    def _note_copies(self) -> None:
        """Notes copies before they are made, and those of a plan that is about to go before it does."""
        withdrawals = self.service.withdrawals
        withdrawals.keep([*copies_asked(self.wanted.plan), *stores_of_feeds(self.wanted.plan)])
        if self.before is not None:
            withdrawals.note([*copies_asked(self.before.plan), *stores_of_feeds(self.before.plan)])

    def _deliver(self) -> None:
        ending = self.service.deliveries.run(self.wanted.plan, self.wanted.program, self.service.environment)
        self._ending = (*self._ending, *ending)
        self.service.feeds.run(self.wanted.plan, self.wanted.program, self.service.environment)


def ran_last(service: Service) -> Running | None:
    """What ran when the service ended last."""
    plan = service.folder.running()
    return None if plan is None else make_running(plan)


def _logs_of(steps: Iterable[Step]) -> list[str]:
    kinds = LoadVertices | MoveVertex | StopContract | ForgetVertices
    return [name for step in steps if isinstance(step, kinds) for name in step.logs]


def withdraw_others(service: Service, running: Running, writing: tuple[threading.Thread, ...] = ()) -> None:
    """Gives back what is noted and the plan does not ask for; some threads may still write copies."""
    plan = running.plan
    asked: tuple[Noted, ...] = (*copies_asked(plan), *captures_of(running, service.folder), *stores_of_feeds(plan))
    service.withdrawals.run(asked, service.environment, writing)


def tidy_keys(service: Service, program: Program) -> None:
    """Drops the indexes that a program does not keep up; nobody may push meanwhile.

    One that misses a few changes would be wrong for ever, so this belongs to the switch.
    """
    logs = service.ledger.logs(program.logs)
    service.ledger.commit(service.lease, make_tidying_commit(program, logs, read_notes(service.ledger, LogKeys)))


def tidy(service: Service, program: Program) -> None:
    """Forgets all that a program has no use for; nobody may push meanwhile."""
    logs = {name: one for name, one in service.ledger.logs().items() if not name.startswith(SPOOL)}
    service.ledger.commit(service.lease, make_tidying_commit(program, logs, read_notes(service.ledger, LogKeys)))
