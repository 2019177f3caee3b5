"""A service as doors see it: it reports its state, and applies the project's files when asked.

Everything that doors show about a running service comes from here.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.coordinate.audit_document import audit_document
from headrace.coordinate.changed_sources import StoppedSources
from headrace.coordinate.check.checking import Checking
from headrace.coordinate.feeds.running_feeds import RunningFeeds
from headrace.coordinate.measured import write_measured
from headrace.coordinate.perform import find_steps, load_running, start_going
from headrace.coordinate.refused import RefusedVersions
from headrace.coordinate.replanning import LOOK_EVERY_S, Measure, Replanning, take_measured
from headrace.coordinate.status import status_document
from headrace.model.errors import HeadraceError, Problem, UnknownName, UsageError, nearest_name
from headrace.model.event_wire import EventsAsked
from headrace.model.events import Event
from headrace.model.going_over import GoingOver
from headrace.model.notes import SourceStopped, read_notes
from headrace.model.options import ApplyWishes, RunEngine
from headrace.model.plan import Plan, Rejection, settle_wishes
from headrace.model.steps import Steps
from headrace.model.words import shorten_message
from headrace.observe.shown import ContractReadings
from headrace.observe.sizes import find_held_results
from headrace.observe.times import UpkeepShare, add_upkeep
from headrace.plan.share.difference import Difference, difference
from headrace.plan.share.revalue import Measured
from headrace.run.check.pace import DEFAULT_BUDGET, CheckBudget
from headrace.run.program import Program
from headrace.site.auditor import last_look
from headrace.site.devices.processes import BrokerSettings
from headrace.site.feeds.servers import FeedServers, FeedServerSettings
from headrace.site.folder import Folder
from headrace.site.forced import write_forced
from headrace.site.last_status import FILE as STATUS_FILE
from headrace.site.last_status import State
from headrace.site.loading import Loading
from headrace.site.reading import ViewReader
from headrace.site.running import Running, make_running
from headrace.site.service import Service
from headrace.site.snapshot import take_snapshot
from headrace.site.threads import running_beside

if TYPE_CHECKING:
    from headrace.coordinate.devices.running_devices import RunningDevices

log = logging.getLogger("headrace.service")

ENDED_EVERY_S = 0.1
HELD_AGAIN_S = 30.0
"""How often a site tries to go over to a plan with contracts that are held back although nothing has changed."""
LOOKING = 0.05
"""Share of the time that may be spent on looking for better plans."""
IDLE_LOOKS = 6
"""How many times as long to wait for the next look while no rows are pushed."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan to go over to, what that changes (None if nothing runs), and the steps that it takes.

    `files` is a digest of the files that the plan was made from. The first steps were `done` by a service that died.
    `forced` says what contracts that are forced are promised, in seconds: they are planned for that, or for more if
    nothing is as fast. `program` is there if the plan was compiled to find the steps: nobody compiles it again.
    `lost` says which sources cannot be captured now, and stay as they ran. `left_out` says what the project declares
    and does not run because its sites run apart.
    """

    plan: Plan
    forced: Mapping[str, float]
    change: Difference | None
    steps: Steps
    files: str = ""
    done: int = 0
    program: Program | None = None
    lost: tuple[Problem, ...] = ()
    left_out: tuple[Problem, ...] = ()

    @property
    def left(self) -> Steps:
        """The steps that are not done yet."""
        return self.steps[self.done :]

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        """All that was asked for and will not be kept."""
        return (*self.plan.rejected, *(one.because for one in self.plan.goes_on))


@dataclass(frozen=True, slots=True)
class Applied:
    """`done` is False for a dry run. `failing` are contracts that cannot be loaded now, `held` those that go on as they
    were made before because they cannot be made otherwise yet; and why.
    """

    prepared: Prepared
    done: bool
    failing: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reread:
    """A source that was read again within so many seconds, and the contracts whose views were loaded again with it;
    `failing` are contracts that cannot be loaded now, and why.
    """

    source: str
    contracts: tuple[str, ...]
    seconds: float
    failing: Mapping[str, str]


@dataclass
class ServiceHost:
    service: Service
    folder: Folder
    prepare: Callable[[ApplyWishes], Prepared]
    state: State = State.LOADING
    stop: threading.Event = field(default_factory=threading.Event)
    engine: RunEngine = RunEngine.LOCAL

    def __post_init__(self) -> None:
        # Held while a plan is applied, a source is read again, or a better plan is looked for: before all turns of the
        # service, since the thread that loads takes these meanwhile. Nobody who holds a turn may wait for it.
        self._turn = threading.Lock()
        self._writing = threading.Lock()  # held while the status file is written: an older status never comes last
        self._replanning: Replanning | None = None
        self._checking: Checking | None = None
        self._refused = RefusedVersions()
        self._making_feeds = threading.Lock()
        self._feeds: RunningFeeds | None = None
        self._devices: RunningDevices | None = None
        self.feed_servers: FeedServers | None = None
        self._upkeep = UpkeepShare()
        self._stopped = StoppedSources()
        self._measured_plan: Plan | None = None
        self._measured_rows, self._measure_at = 0, 0.0
        self._held_for: frozenset[str] = frozenset()  # sites that did not answer when contracts were held back
        self._held_again_s, self._held_files = 0.0, ""
        self._files = ""  # a digest of the files that what runs was made from; a move keeps it

    def become(self, state: State) -> None:
        """What status says of the service from now on; the code that runs the service knows."""
        self.state = state

    # Telling

    def status(self) -> dict[str, Any]:
        moves = () if self._replanning is None else self._replanning.moves
        checks = None if self._checking is None else self._checking.book.shown
        servers = () if self.feed_servers is None else self.feed_servers.tell()
        seen, feeds = take_snapshot(self.service), self.feeds.tell_status()
        templates, devices = (
            (self.devices.tell_templates(), self.devices.tell_processes()) if self._has_devices else ([], None)
        )
        return status_document(seen, self.state, os.getpid(), moves, checks, feeds, servers, templates, devices)

    @property
    def feeds(self) -> RunningFeeds:
        """What decides about feeds. Needs an open service."""
        with self._making_feeds:
            if self._feeds is None:
                self._feeds = RunningFeeds(self.service, self.folder, self.engine)
            return self._feeds

    @property
    def _has_devices(self) -> bool:
        running = self.service.running
        return self._devices is not None or (running is not None and bool(running.plan.catalogue.templates))

    @property
    def devices(self) -> RunningDevices:
        """What places pairs of templates, with the broker and the router. Needs an open service."""
        from headrace.coordinate.devices.running_devices import RunningDevices  # much, and few projects have templates

        with self._making_feeds:
            if self._devices is None:
                self._devices = RunningDevices(self.service, self.folder, self.reader)
            return self._devices

    def write_status(self) -> None:
        with self._writing:
            # Not indented: it is written every second, and Python takes many times as long to indent.
            self.folder.write_json(STATUS_FILE, self.status(), indent=None)

    def audit(self) -> dict[str, Any]:
        """The audit of the last look; before the first of this run, of the run before."""
        return audit_document(self.service.auditor.looked or last_look(self.service.ledger) or ContractReadings(0))

    def events(self, asked: EventsAsked) -> tuple[int, tuple[Event, ...]]:
        """What happened, and the number to go on after.

        Read through a connection of its own: pushes and leases do not wait for a reader who asks for much.
        """
        with closing(self.folder.ledger()) as ledger:
            newest = ledger.events(EventsAsked(limit=1, routine=True, latest=True))
            found = ledger.events(asked)
        last = found[-1:] if len(found) == asked.limit else (*newest, *found)
        return max((one.number for one in last), default=asked.after), tuple(one.event for one in found)

    def reader(self) -> ViewReader:
        """A reader of what runs; its ledger is the service's own."""
        service = self.service
        state = service.rounds.state  # taken once: the next look may find another plan
        if state is None:
            raise UsageError("the views are not loaded yet", "`headrace status` shows the progress")
        return ViewReader(state.running.plan, state.program, service.ledger, service.store, state.running.forced)

    def calibrate_feed(self, feed: str) -> dict[str, Any]:
        """Measures the prices of a feed now; they decide from then on. What was found, and what it changes."""
        return self.feeds.calibrate(feed)

    def measured(self) -> Measured:
        """What the plan that runs has taught so far."""
        return self._measure(take_measured)

    def _measure(self, measure: Measure) -> Measured:
        service = self.service
        assert service.rounds.state is not None, "nothing runs yet"
        learning = service.rounds.state.learning
        found = measure(learning, service.ledger.logs(find_held_results(learning.plan)), service.clock() / 1e6)
        return replace(found, times=add_upkeep(found.times, self._upkeep.share))

    # Acting

    def start(self, prepared: Prepared) -> Loading:
        """Goes over to a plan, without waiting until it runs.

        A plan that does not fit together is refused before anything has changed.
        """
        wanted = make_running(prepared.plan, prepared.forced, prepared.program)
        if self.service.running is None:
            self._files = prepared.files
        return self._start(prepared, wanted)

    def _start(self, prepared: Prepared, wanted: Running) -> Loading:
        going = GoingOver(prepared.plan, prepared.forced, prepared.steps, prepared.files)
        loading = start_going(self.service, wanted, going, prepared.done)
        write_forced(self.folder, prepared.plan, prepared.forced)
        return loading

    def apply(self, wishes: ApplyWishes) -> Applied:
        """Brings what runs to the project's plan, and returns when it runs. Does nothing if nothing changed."""
        with self._turn:
            if self.service.loading is not None and not self.service.loading.done.is_set():
                raise UsageError(f"the service is busy: {self.service.loading.phase}", "try again when that is done")
            prepared = self.prepare(wishes)
            if self.held and prepared.files == self._held_files and not self.is_worth_another_try():
                return Applied(
                    replace(prepared, steps=()), done=True, failing=self.service.unloaded.why, held=self.held
                )
            is_same = self._is_same(prepared)
            if is_same:  # what is left over, or was not loaded, is upkeep's
                prepared = replace(prepared, steps=())
            if wishes.dry_run:
                return Applied(prepared, done=False)
            if not is_same:
                with _refusing_what_does_not_fit():
                    loading = self.start(prepared)
                self._wait_for(loading)
                if self.service.running is loading.wanted:  # if it failed before the switch, the plan before runs
                    self._files = prepared.files
                if loading.error is not None:
                    reread = prepared.change.reread if prepared.change is not None else ()
                    once = f", once {', '.join(reread)} was read again" if reread else ""
                    hint = f"the running plan stays in place{once}; see .headrace/service.log"
                    raise UsageError(f"the plan could not be applied: {loading.error.splitlines()[0]}", hint)
                self.write_status()
            self._held_files, self._held_for = prepared.files, self.service.find_silent_sites()
            self._held_again_s = time.monotonic() + HELD_AGAIN_S
            return Applied(prepared, done=True, failing=self.service.unloaded.why, held=self.held)

    def is_worth_another_try(self) -> bool:
        """Whether contracts that are held back may go over by now: another site answers, or some time has passed."""
        silent = self.service.find_silent_sites()
        return bool(self.held) and (not silent >= self._held_for or time.monotonic() >= self._held_again_s)

    @property
    def held(self) -> Mapping[str, str]:
        """Contracts that go on as they were made before because they cannot be made otherwise yet, and why."""
        loading = self.service.loading
        return {} if loading is None else loading.held

    def reread(self, source: str) -> Reread:
        """Reads a source anew with all that is made from it, and returns when views are loaded again."""
        with self._turn:
            service = self.service
            if service.loading is not None and not service.loading.done.is_set():
                raise UsageError(f"the service is busy: {service.loading.phase}", "try again when that is done")
            running = service.running
            if running is None:
                raise UsageError("the views are not loaded yet", "`headrace status` shows the progress")
            if source not in running.sources:
                hint = nearest_name(source, running.sources) or f"there are {', '.join(sorted(running.sources))}"
                raise UnknownName(f'no running contract reads a source "{source}"', hint)
            contracts = tuple(one.contract for one in running.watched if source in one.sources)
            began = time.monotonic()
            loading = load_running(service, running, frozenset((source,)), self._files)
            self._wait_for(loading)
            if loading.error is not None:
                hint = "the service keeps trying; `headrace status` shows the progress"
                raise UsageError(f'source "{source}" could not be read again: {loading.error.splitlines()[0]}', hint)
            self.write_status()
            return Reread(source, contracts, time.monotonic() - began, service.unloaded.why)

    def _wait_for(self, loading: Loading) -> None:
        """Waits as long as the service runs: what is large takes its time, and `status` says how far it is and what is
        wrong.

        Raises UsageError if the service ends before.
        """
        while not loading.done.wait(ENDED_EVERY_S):
            if self.stop.is_set() or not self.service.is_running:
                hint = "`headrace up` continues from there; then run `headrace apply` again"
                raise UsageError(f"the service ended before that was done: {loading.phase}", hint)

    # Moving by itself

    @contextmanager
    def replanning(self, look_every_s: float = LOOK_EVERY_S, measure: Measure = take_measured) -> Iterator[None]:
        """While this holds, what runs is moved when measured statistics say so. Needs an open service."""
        self._replanning = Replanning(self.service.ledger, self.service.lease)
        self._replanning.resume()
        with running_beside(lambda end: self._replan_until(end, look_every_s, measure), "replan"):
            yield

    @contextmanager
    def measuring(self, look_every_s: float = LOOK_EVERY_S) -> Iterator[None]:
        """While this holds, what runs here is measured, for those who see all sites. Needs an open service."""
        with running_beside(lambda end: self._measure_until(end, look_every_s), "measure"):
            yield

    def _measure_until(self, end: threading.Event, look_every_s: float) -> None:
        while not end.wait(look_every_s):
            try:
                running = self.service.running
                if running is not None and self._is_time_to_measure(running, IDLE_LOOKS * look_every_s):
                    self._note_upkeep()
                    write_measured(self.folder, self.measured())
            except OSError as error:  # a full disk
                log.warning("what was measured cannot be written: %s", error)
            except Exception:  # whatever it is: what runs goes on
                log.exception("measuring failed")

    def make_checking(self, budget: CheckBudget) -> Checking:
        """The checks of the service, which `status` shows from now on."""
        self._checking = Checking(self.service, self.reread, budget)
        return self._checking

    @contextmanager
    def checking(self, budget: CheckBudget = DEFAULT_BUDGET) -> Iterator[None]:
        """While this holds, what runs is checked in the background. Needs an open service."""
        with running_beside(self.make_checking(budget).run, "check"):
            yield

    @contextmanager
    def deciding_feeds(self) -> Iterator[None]:
        """While this holds, feeds decide what is stored ahead, and measure their prices. Needs an open service."""
        deciding = running_beside(self.feeds.deciding.run, "decide feeds")
        with deciding, running_beside(self.feeds.calibrating.run, "calibrate feeds"):
            yield

    @contextmanager
    def running_devices(self, settings: BrokerSettings) -> Iterator[None]:
        """While this holds, templates run: with a broker and a router, if there are any. Needs an open service."""
        with self.devices.running(settings):
            yield

    @contextmanager
    def serving_feeds(self, settings: FeedServerSettings | None) -> Iterator[None]:
        """Has feed servers run meanwhile, if any are asked for. They find this process by its record in the folder."""
        if settings is None:
            yield
            return
        service = self.service
        home, reads = service.home or self.folder, service.feed_pages.reads
        servers = FeedServers(self.folder, settings, reads, service.journal, service.troubles, home)
        with servers.running():
            self.feed_servers = servers
            yield

    def _replan_until(self, end: threading.Event, look_every_s: float, measure: Measure) -> None:
        pause_s = look_every_s
        while not end.wait(pause_s):
            started_s = time.thread_time()
            try:
                self._replan(end, measure, IDLE_LOOKS * look_every_s)
            except OSError as error:  # a full disk
                log.warning("looking for a better plan failed: %s", error)
            except Exception:  # whatever it is: what runs goes on as it is
                log.exception("looking for a better plan failed")
            # What waits for sites that load is no work: it must not keep anybody from looking at links.
            pause_s = max(look_every_s, (time.thread_time() - started_s) / LOOKING)

    def _replan(self, end: threading.Event, measure: Measure, idle_s: float) -> None:
        """One look; none while somebody applies a plan. While no rows are pushed, measurements are taken less often."""
        service, loading = self.service, self.service.loading
        if loading is None or not loading.done.is_set() or not self._turn.acquire(blocking=False):
            return
        try:
            running = service.running
            if running is None or self._follow_sources(running, end):
                return
            if self._is_time_to_measure(running, idle_s):
                assert self._replanning is not None
                self._note_upkeep()
                measured = self._measure(measure)
                write_measured(self.folder, measured)
                go_over = partial(self._try_to_go_over, running, end)
                if settle_wishes(running.plan.options, running.plan.catalogue).wide_area is not None:
                    return  # what a mode has placed stays there
                moved = self._replanning.step(running.plan, measured, go_over)
                if moved is None:
                    self._refused.step(running.plan, measured, go_over)
        finally:
            self._turn.release()

    def _note_upkeep(self) -> None:
        state = self.service.rounds.state
        if state is not None:
            self._upkeep.note(self.service.accounts.upkeep_s, state.learning.pushed_s)

    def _is_time_to_measure(self, running: Running, idle_s: float) -> bool:
        """Whether rows were pushed since the last measurement, or that was some time ago."""
        plan, rows, now_s = running.plan, self.service.rounds.counts.rows, time.monotonic()
        if plan is self._measured_plan and rows == self._measured_rows and now_s < self._measure_at:
            return False
        self._measured_plan, self._measured_rows, self._measure_at = plan, rows, now_s + idle_s
        return True

    def _follow_sources(self, running: Running, end: threading.Event) -> bool:
        """Goes over to what the project's files mean now if tables of stopped sources have another key or other columns
        than they had; returns whether it did.
        """
        noted = read_notes(self.service.ledger, SourceStopped)
        stopped = {name: one.why for name, one in noted.items() if name in running.sources}
        if not self._files or not self._stopped.is_worth_planning(stopped):
            return False
        try:
            prepared = self.prepare(ApplyWishes())
        except HeadraceError as error:  # a table that cannot be captured at all: the source stays stopped
            log.info("sources are stopped, and planning the files again does not help", extra={"why": str(error)})
            return False
        followed = () if prepared.change is None else prepared.change.reread
        if prepared.files != self._files or not stopped.keys() & set(followed):
            return False
        loading = self.start(prepared)
        while not loading.done.wait(ENDED_EVERY_S) and not end.is_set():
            pass
        return True

    def _try_to_go_over(self, running: Running, end: threading.Event, plan: Plan) -> str | None:
        """Returns why a plan cannot be gone over to, whatever it is: a move that fails is noted, and backs off."""
        try:
            return self._go_over(running, plan, end)
        except Exception as error:
            log.exception("going over to a better plan failed")
            return shorten_message(str(error)) or type(error).__name__

    def _go_over(self, running: Running, plan: Plan, end: threading.Event) -> str | None:
        """Goes over to a plan for the same contracts; returns why that did not work."""
        terms = plan.catalogue.contracts
        forced = {name: promised_s for name, promised_s in running.forced.items() if terms[name].forced}
        wanted = make_running(plan, forced)
        change, steps = difference(running.plan, plan), find_steps(self.service, wanted)
        # Noted without files: after a crash the plan that ran goes on, instead of a move that may have caused it.
        loading = self._start(Prepared(plan, forced, change, steps), wanted)
        while not loading.done.wait(0.1):
            if end.is_set():
                return "the service was stopped in the meantime"
        return loading.error

    def _is_same(self, prepared: Prepared) -> bool:
        running = self.service.running
        if running is None or prepared.change is None or not prepared.change.is_nothing:
            return False
        wanted = prepared.program
        if wanted is not None and (wanted.kept, wanted.exports.keys()) != (
            running.program.kept,
            running.program.exports.keys(),
        ):
            return False  # other sites have gone over from what was kept for them, or was copied to them
        return dict(running.forced) == dict(prepared.forced)


@contextmanager
def _refusing_what_does_not_fit() -> Iterator[None]:
    """Tells people of a plan that does not compile as of any other that cannot be applied: nothing has changed yet."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        log.exception("the plan could not be started")
        why = shorten_message(str(error)) or type(error).__name__
        hint = "the running plan stays in place; see .headrace/service.log"
        raise UsageError(f"the plan could not be applied: {why}", hint) from error
