"""The service of a project: wires what keeps its promises, starts the threads, and ends them.

One thread pushes (`rounds.py`), one does upkeep (`housekeeping.py`), one audits, one checks files (`scrub.py`), one
watches slots, and one loads what a new plan adds; captures are separate processes. Everything needed to continue after
a crash is in the ledger and in files.

Whatever changes while the service runs has one owner among the parts below, and only methods of the owner change it.
What threads share of it is a frozen value that the owner swaps whole: what runs and how pushing goes (`rounds.state`),
which contracts are not loaded (`unloaded.why`), what the last look found (`auditor.looked`). The locks, and the order
in which they are taken, are in `turns.py`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.connect.ledger.holder import this_holder
from headrace.connect.wire.snapshot_files import SnapshotFiles
from headrace.model.catalogue import Catalogue, Link
from headrace.model.errors import UsageError
from headrace.model.events import ServiceStopped, ServiceSuspended
from headrace.model.log import Commit, Lease
from headrace.model.words import shorten_message
from headrace.run.ports import Ledger, Runner, Store
from headrace.run.push.engine import Engine
from headrace.run.push.in_work import InWork
from headrace.run.push.push import Pushed
from headrace.run.push.simulated_links import Ends, LinkQueue
from headrace.site.accounts import Accounts
from headrace.site.auditor import Auditor, WatchedContract
from headrace.site.beside import Beside
from headrace.site.deadline import Deadline
from headrace.site.deliver.deliveries import Deliveries
from headrace.site.deliver.withdrawn import Withdrawals
from headrace.site.engine.late_runner import Absence
from headrace.site.exporting import Exporting
from headrace.site.feeds.apps import FeedApps
from headrace.site.feeds.door import FeedDoor
from headrace.site.feeds.keepers import FeedKeepers
from headrace.site.feeds.pages import FeedPages
from headrace.site.feeds.served import OWN_STORE
from headrace.site.folder import Folder
from headrace.site.gaps import Gaps
from headrace.site.given_contents import GivenContents
from headrace.site.holding_sources import HoldingSources
from headrace.site.housekeeping import Housekeeping
from headrace.site.importing import YOUNG, Importing, SitePeer
from headrace.site.journal import Journal
from headrace.site.latencies import Latencies
from headrace.site.left_fresh import LeftFresh, find_left
from headrace.site.link_states import LinkState, find_declared
from headrace.site.loading import Loader, Loading
from headrace.site.mending import Mending, report_bad_rows
from headrace.site.process import SERVICE
from headrace.site.push_state import ShownStarts
from headrace.site.received_contents import ReceivedContents
from headrace.site.repairs import Repairs
from headrace.site.rounds import IDLE_S, Rounds
from headrace.site.running import Running
from headrace.site.scrub import Scrub
from headrace.site.sources.captures import Captures
from headrace.site.sources.kept_logs import KeptLogs
from headrace.site.sources.sources import Sources
from headrace.site.sources.troubles import report_source_troubles
from headrace.site.threads import GuardedThreads
from headrace.site.troubles import Troubles, find_cause, find_slow_link
from headrace.site.turns import Turns
from headrace.site.unloaded import Unloaded

log = logging.getLogger("headrace.service")

LEASE_S = 30.0
END_WITHIN_S = 30.0
"""How long work of our own may go on after we were told to end: a push, for example."""
ANSWER_WITHIN_S = 8.0
"""How long threads that ask databases may go on: a database that stands still never answers."""
LEFT_WITHIN_S, LOOK_EVERY_S = 4.0, 0.05
"""How long a site that ends waits until others have what they lack of it: they hear of its end within two seconds."""
LEFT_FRESH_EVERY_S = 0.5
AUDIT_EVERY_S = 1.0
LOOK_AT_STEPS_EVERY_S = 3.0
SLOTS_EVERY_S = 3.0
WAKE_EVERY_S = 5.0
COUNT_WAITING_EVERY_S = 3.0
TIDY_EVERY_S = 60.0

OnPush = Callable[[list[Pushed]], None]


def clock_now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


@dataclass
class Service:
    """Start with `open`, then `apply` a plan; `close` ends all threads and processes.

    `absence` tells whether the engine is away, and must not wait for it; `links_now` tells what is on its way over
    links, if these take time; `cores` is how many items run side by side. A service of one `site` finds
    others by `find_peer`.
    """

    folder: Folder
    environment: Mapping[str, str]
    runner: Runner[Any]
    clock: Callable[[], int] = clock_now
    in_processes: bool = True
    on_push: OnPush | None = None
    absence: Callable[[], Absence | None] = lambda: None
    links_now: Callable[[], Mapping[Ends, LinkQueue]] | None = None
    site: str | None = None
    home: Folder | None = None
    """The folder of the project whose site this is, if it is on this machine: people say there who may use feeds."""
    find_peer: Callable[[str], SitePeer] | None = None
    cores: int = 2
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.threads = GuardedThreads(self.stop)
        self.turns, self.gaps, self.in_work = Turns(), Gaps(), InWork()
        self.journal = Journal()
        self.starts = ShownStarts()
        self.latencies = Latencies()
        self.troubles, self.unloaded, self.slots = Troubles(journal=self.journal), Unloaded(self.journal), KeptLogs()
        self._loading: Loading | None = None
        self._loaded: Engine | None = None
        self._waiting: Mapping[Ends, int] = {}
        self._counted_at = float("-inf")
        self._given = SnapshotFiles(self.folder.root / "snapshots" / "given")
        self._received = SnapshotFiles(self.folder.root / "snapshots" / "received")
        self._wake_at = self._tidied_at = 0.0
        self._own_threads: list[threading.Thread] = []

    # Life

    def open(self) -> None:
        """Takes the project: raises `LeaseHeld` if another service has it."""
        self.folder.prepare()
        self.ledger: Ledger = self.folder.ledger()
        self.store: Store = self.folder.store()
        self.lease: Lease = self.ledger.acquire(SERVICE, this_holder(), LEASE_S)
        self._make_parts()
        own = {"push": self.rounds.run, "audit": self._audit, "upkeep": self.housekeeping.run, "scrub": self.scrub.run}
        self._own_threads = [self.threads.start(target, name) for name, target in own.items()]
        self._watching = self.threads.start(self._watch_slots, "watch slots")

    def _make_parts(self) -> None:
        ledger, lease, turns, stop = self.ledger, self.lease, self.turns, self.stop
        self.captures = Captures(self.folder, self.environment, self.in_processes, self.journal)
        self.loader = Loader(ledger, self.captures, stop, self.forget_lost, self.find_silent_sites)
        self.sources = Sources(ledger, self.captures, stop)
        self.deliveries = Deliveries(
            self.folder.project, ledger, self.store, lease, self.troubles, tell_reached=self._judge_copy
        )
        self.feeds = FeedKeepers(
            self.folder.project,
            self.folder.root / OWN_STORE,
            ledger,
            self.store,
            lease,
            self.runner,
            self.troubles,
            self.cores,
        )
        self.feed_pages = FeedPages(self.feeds, self.folder.root, self.clock)
        apps = FeedApps(self.home or self.folder, lambda: self.feed_pages.key)
        self.feed_door = FeedDoor(self.feed_pages, self.folder, self._find_catalogue, apps)
        self.auditor = Auditor(
            ledger,
            self.clock,
            self.journal,
            cause_of=self.cause_of,
            copies=self.deliveries.reached,
            find_reach=self._find_told_reach,
        )
        self.auditor.resume()
        self.accounts = Accounts(ledger, self.clock, self.journal)
        self.accounts.resume()
        self.withdrawals = Withdrawals(self.folder, ledger, lease, self.feeds.find_own_dsn, self.troubles, self.journal)
        beside = Beside(self.runner, self.in_work, turns, self.threads)
        self.importing = self._make_importing()
        self.rounds = Rounds(
            ledger,
            self.auditor,
            self.gaps,
            turns,
            beside,
            stop,
            self.clock,
            self._account,
            slots=self.cores,
            copies_take_s=self.deliveries.takes_s,
            bringing=self.importing,
        )
        given = GivenContents(self._given)
        self.exporting = Exporting(
            lambda: self.loaded_engine, self.rounds.wish, given, self.rounds.knows_copy, want=self._want_copy
        )
        self.repairs = Repairs(
            ledger=ledger,
            lease=lease,
            store=self.store,
            turns=turns,
            sources=self.sources,
            unloaded=self.unloaded,
            troubles=self.troubles,
            journal=self.journal,
            clock=self.clock,
        )
        self.scrub = Scrub(ledger, lease, self.store, stop, self.folder.check_ledger)
        self.housekeeping = Housekeeping(
            ledger=ledger,
            lease=lease,
            turns=turns,
            gaps=self.gaps,
            rounds=self.rounds,
            sources=self.sources,
            auditor=self.auditor,
            accounts=self.accounts,
            repairs=self.repairs,
            mending=Mending(self.loader, self.unloaded, self.deliveries, turns, stop),
            unloaded=self.unloaded,
            holding=HoldingSources(self.captures, self.troubles, self.exporting.find_answering, self.clock),
            clock=self.clock,
            stop=stop,
        )

    def _make_importing(self) -> Importing | None:
        if self.site is None or self.find_peer is None:
            return None
        return Importing(
            self.site,
            self.find_peer,
            self.ledger,
            self.turns,
            self.troubles,
            self.threads,
            engine=lambda: self.loaded_engine,
            arrived=lambda brought, after: self.rounds.take_brought(brought, after),
            clock=self.clock,
            contents=ReceivedContents(self._received, self.clock),
            shortest_s=self._find_shortest,
            find_link=self._find_link_from,
            find_budget=self._find_budget,
            hurry=lambda origin, share: self.rounds.hurry(LEFT_WITHIN_S, origin, share),
            find_views=self._find_views,
        )

    def _find_link_from(self, origin: str) -> Link | None:
        return next((link for link in self.links() if (link.src, link.dst) == (origin, self.site)), None)

    def _find_budget(self) -> int | None:
        running = self.running
        return None if running is None or self.site is None else running.budgets.get(self.site)

    def _find_views(self) -> tuple[str, ...]:
        running = self.running
        return () if running is None else tuple(entry.vertex for entry in running.plan.contracts)

    def _find_told_reach(self) -> Mapping[str, int]:
        return {} if self.importing is None else self.importing.find_told_reach()

    def find_silent_sites(self) -> frozenset[str]:
        """Other sites that do not answer now."""
        return frozenset() if self.importing is None else self.importing.find_silent()

    def _want_copy(self, copy: str, t: int, deadline: int) -> None:
        assert self.importing is not None, "nobody knows other sites"
        self.importing.want(copy, t, deadline)

    def _find_shortest(self) -> float:
        """The shortest freshness that is promised, here or at other sites."""
        plan = None if self.running is None else self.running.plan
        promised = () if plan is None else (*plan.contracts, *plan.elsewhere)
        if plan is not None and any(plan.catalogue.contracts[entry.contract].streaming for entry in promised):
            return 0.0
        return min((entry.freshness_s for entry in promised), default=0.0)

    def leave_fresh(self) -> LeftFresh | None:
        """Has views pushed and others take what they lack of them, ahead of their turn, before a site ends. Promises
        then hold for longer without it: until when, None if there are none. Waits for a moment at most, and for nobody
        who does not answer.
        """
        if self.site is None or self.importing is None or self.rounds.state is None:
            return None
        self._leave_fresh(self.importing)
        state = self.rounds.state
        return find_left(
            state.running.plan, state.program, self.ledger.times(), self.exporting.tell_given(), self.clock()
        )

    def _leave_fresh(self, importing: Importing) -> None:
        given, deadline = self.exporting.tell_end(), Deadline(LEFT_WITHIN_S)
        importing.hear_all(deadline)
        pushed, again = self.rounds.hurry(deadline.left_s), Deadline(LEFT_FRESH_EVERY_S)
        while deadline.left_s > 0 and not self.stop.wait(LOOK_EVERY_S):
            times, silent = self.ledger.times(), importing.find_silent()
            behind = any(times.get(vertex, t) < t for vertex, t in pushed.items())
            if not behind and not self.exporting.find_not_given(given, silent):
                return
            if again.left_s <= 0:  # what waits for others does not age meanwhile
                self.rounds.hurry(deadline.left_s, share=YOUNG)
                again = Deadline(LEFT_FRESH_EVERY_S)

    def close(self) -> None:
        """Abandons threads that wait for a hung database, as a kill would: all that counts is in the ledger."""
        self.stop.set()
        answered, ended = Deadline(ANSWER_WITHIN_S), Deadline(END_WITHIN_S)
        # Stores of feeds last: to drop one, the PostgreSQL of the project's own is started.
        asking = (self.captures, self.deliveries, self.withdrawals, self.feeds)
        for one in asking:
            one.tell_to_end()
        if self.importing is not None:
            self.importing.tell_to_end()
        ended.join(self._own_threads)
        # Pushes that still run beside the others find the service stopped when it is their turn, and commit nothing.
        self.turns.wait_for_pushes(ended.left_s)
        self.feed_pages.close()
        for one in asking:
            one.end(answered)
        if answered.join([self._watching]):
            self.slots.close()
        self._tell_end()
        self.ledger.release(self.lease)
        self.ledger.close()

    def _tell_end(self) -> None:
        """Last of all. Somebody else may have the project by now, and what was not told yet then stays untold."""
        failure = self.failure
        try:
            why = None if failure is None else shorten_message(str(failure)) or type(failure).__name__
            self.journal.emit(ServiceStopped(self.clock(), os.getpid(), reason=why))
            with self.journal.committing() as events:
                self.ledger.commit(self.lease, Commit(events=events))
        except Exception as error:  # whatever it is: the lease is given back, so that the next service can start
            log.warning("the last events could not be kept: %s", error)

    def cause_of(self, watched: WatchedContract) -> str | None:
        """Why a contract is late, as far as that is known."""
        found = find_cause(self.troubles.get, watched.sources, watched.databases, self.absence(), watched.links)
        slow = find_slow_link(watched.links, self.look_at_links())
        return found or slow or self.deliveries.find_cause(watched.contract)

    @property
    def links_take_time(self) -> bool:
        return self.links_now is not None

    def look_at_links(self, states: Mapping[Ends, LinkState] | None = None) -> Mapping[Ends, LinkQueue]:
        """What is on its way over links now. `states` are those of links, for those who have them already."""
        if self.links_now is not None:
            return self.links_now()
        found = self.find_link_states() if states is None else states
        return {ends: one.queue for ends, one in found.items() if one.waiting_bytes}

    def find_link_states(self) -> Mapping[Ends, LinkState]:
        """The links of a site that runs apart: those that lead here. Waits for nobody."""
        return {} if self.importing is None else self.importing.look_at_links(find_declared(self.links()))

    def count_waiting(self) -> Mapping[Ends, int]:
        """Bytes of changes that are kept for other sites, by the link over which they will go."""
        now = time.monotonic()
        if self.site is None or now < self._counted_at + COUNT_WAITING_EVERY_S:
            return self._waiting
        self._counted_at = now
        self._waiting = {(self.site, other): size for other, size in self.exporting.count_waiting().items()}
        return self._waiting

    @property
    def is_running(self) -> bool:
        return not self.stop.is_set()

    @property
    def failure(self) -> BaseException | None:
        """Why the service ended by itself."""
        return self.threads.failure

    # Plans

    @property
    def running(self) -> Running | None:
        """What runs. Take it once and keep it: the next look may find another plan."""
        return self.rounds.running

    @property
    def loading(self) -> Loading | None:
        """What was asked for last, and how far it is."""
        return self._loading

    def start_loading(self, loading: Loading, go_over: Callable[[], None]) -> None:
        """Loads in a thread that `close` waits for. What is held back stays so until a switch says otherwise."""
        if self._loading is not None:
            loading.hold(loading.wanted, self._loading.held)
        self._loading = loading
        self._own_threads = [thread for thread in self._own_threads if thread.is_alive()]
        thread = threading.Thread(target=go_over, name="load", daemon=True)
        self._own_threads.append(thread)
        thread.start()

    @property
    def loaded_engine(self) -> Engine | None:
        """The engine of what runs, or is being loaded before anything runs; None before that."""
        scheduler = self.rounds.scheduler
        return self._loaded if scheduler is None else scheduler.engine

    def note_loading(self, engine: Engine) -> None:
        """Other sites may ask for what is loaded from now on, also before anything runs."""
        self._loaded = engine

    def forget_lost(self, engine: Engine) -> None:
        """Forgets copies that have to start anew, with what is made of them: it is loaded again.

        The caller has the turn for upkeep.
        """
        lost = {} if self.importing is None else self.importing.take_lost()
        for copy, why in lost.items():
            with self.turns.pushing:
                gone = engine.forget([copy]) if copy in engine.program.imports else []
            log.warning("to be loaded again: %s (%s)", ", ".join(gone), why)
            if self.rounds.state is not None:
                self.unloaded.leave_out(self.rounds.state.running.plan, engine.program, gone, why)

    def switch(self, wanted: Running, engine: Engine) -> None:
        """Switches to a plan: from here on it runs. The caller holds all turns."""
        self.rounds.switch(wanted, engine)
        self.housekeeping.follow(wanted, engine)
        self.accounts.follow(wanted.plan)
        self.auditor.watch(wanted.watched)
        self.look()  # the next status has numbers of what runs now, by the promises that hold now

    def _find_catalogue(self) -> Catalogue:
        if self.running is None:
            raise UsageError("the views are not loaded yet", "`headrace status` shows the progress")
        return self.running.plan.catalogue

    def links(self) -> tuple[Link, ...]:
        """The links of what is on its way to run, then of what runs."""
        both = (None if self._loading is None else self._loading.wanted, self.running)
        return tuple(link for one in both if one is not None for link in one.plan.catalogue.links)

    def find_limit(self, site: str) -> float | None:
        """Bytes/s that may be sent from here to another site at most; None if that is not limited."""
        return next((link.limit for link in self.links() if (link.src, link.dst) == (self.site, site)), None)

    # Watching

    def tell_pushes(self, on_push: OnPush | None) -> None:
        """Tells this of all pushes from now on; None to tell nobody."""
        self.on_push = on_push

    def _account(self, pushed: list[Pushed], round_s: float | None) -> None:
        """Accounts for pushes. The caller has the turn to push."""
        now = self.clock()
        self.accounts.pushed(pushed, round_s)
        running = self.running
        if running is not None:
            self.latencies.note(pushed, {entry.vertex for entry in running.plan.contracts}, now)
        self.auditor.judge(self.store, {one.vertex for one in pushed if one.rows_out}, now)
        self.deliveries.pushed()
        self.feeds.pushed()
        self.exporting.note_pushed()
        if self.on_push is not None:
            self.on_push(pushed)

    def _judge_copy(self, contract: str, t: int) -> None:
        self.auditor.judge_copy(self.store, contract, t, self.clock())

    def look(self) -> None:
        """Takes the numbers that are shown from now on."""
        self.auditor.audit(self.lease, self.accounts.catch_up())

    def report_source_troubles(self) -> None:
        report_source_troubles(self.troubles, self.ledger, self.captures)

    def _wake_rounds(self) -> None:
        """Has rounds decide anew where something may be that they could not foresee: a capture that has fallen behind,
        a vertex that failed, a view that was loaded again. Whatever else it may be is seen a little later.
        """
        state, now_s = self.rounds.state, time.monotonic()
        failing = state is not None and bool(state.failing or state.halted or state.in_flight)
        unusual = failing or bool(self.unloaded.why) or self.auditor.finds_captures_behind
        if unusual or now_s >= self._wake_at:
            self.rounds.wake()
            # Once more when it is over: rounds may not have seen that yet.
            self._wake_at = now_s + (0.0 if unusual else WAKE_EVERY_S)

    def _tidy_snapshots(self) -> None:
        if time.monotonic() - self._tidied_at > TIDY_EVERY_S:
            self._tidied_at = time.monotonic()
            self._given.forget_idle()
            self._received.forget_idle()

    def _watch_slots(self) -> None:
        while not self.stop.wait(SLOTS_EVERY_S if self.slots.found else IDLE_S):
            self.slots.look({name: one.task for name, one in list(self.captures.running.items())})

    def _audit(self) -> None:
        renewed, stepped = time.monotonic(), float("-inf")
        while not self.stop.wait(AUDIT_EVERY_S):
            since = time.monotonic() - renewed
            if since > LEASE_S / 4:
                self.ledger.renew(self.lease, LEASE_S)
                renewed = time.monotonic()
            if since > LEASE_S:
                self.journal.emit(ServiceSuspended(self.clock(), since))
            self.look()
            self._wake_rounds()
            self.captures.check()
            if time.monotonic() - stepped > LOOK_AT_STEPS_EVERY_S:
                stepped = time.monotonic()
                self.captures.look_at_steps(self.ledger)
            self.report_source_troubles()
            self._tidy_snapshots()
            state = self.rounds.state
            self.repairs.look(state)
            if state is not None:
                report_bad_rows(self.troubles, self.ledger, state)
