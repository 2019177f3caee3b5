"""Pushes what is due, round after round, and publishes how that goes.

What pushing changes (the scheduler, the counts, until when nothing is due) belongs to `Rounds`, and only its methods
change it, with the turn to push. All others read `state` and `counts`: frozen values, swapped whole, for which nobody
needs a turn. A reader that takes `state` once has all of one plan.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from headrace.model.errors import Conflict
from headrace.model.log import NEVER
from headrace.model.notes import Learnt, SourceStopped, WantedTime, note_keys, read_document, read_note
from headrace.model.plan import Plan
from headrace.model.wish import CopyWish
from headrace.run.capture.spool import SPOOL
from headrace.run.ports import Ledger
from headrace.run.program import Program
from headrace.run.push.engine import Engine
from headrace.run.push.items import ItemOutcome
from headrace.run.push.push import Pushed
from headrace.run.push.work import Produced, WorkItem
from headrace.run.schedule.next_push import Due, Scene, Seconds
from headrace.run.schedule.next_round import RoundPush
from headrace.site.auditor import Auditor
from headrace.site.beside import Beside
from headrace.site.gaps import Gaps
from headrace.site.learning import Learning
from headrace.site.push_state import PushCounts, PushState, expect_pushes
from headrace.site.running import Running
from headrace.site.scheduler import Scheduler
from headrace.site.turns import Turns
from headrace.site.wishes import CopyWishes

log = logging.getLogger("headrace.service")

IDLE_S, YIELD_S = 0.25, 0.001
"""Pauses between rounds; however much there is to push, a load that waits for its turn gets it."""
LONGEST_PAUSE_S = 0.5
"""Where nothing is due for longer: somebody may ask for a push, or something may happen that nobody foresaw."""


class Bringing(Protocol):
    """Brings copies of what other sites make. Nothing of this waits for anybody."""

    def want(self, copy: str, t: int, deadline: int) -> None:
        """Has a copy brought to a time. Whoever is asked twice remembers the later time."""

    def find_under_way(self) -> frozenset[str]:
        """Copies that were asked for and are not there yet."""


@dataclass(slots=True)
class Rounds:
    """`account` is told what was pushed, with the seconds of a round. `slots` items run side by side."""

    ledger: Ledger
    auditor: Auditor
    gaps: Gaps
    turns: Turns
    beside: Beside
    stop: threading.Event
    clock: Callable[[], int]
    account: Callable[[list[Pushed], float | None], None]
    slots: int = 2
    copies_take_s: Callable[[], Mapping[str, float]] = dict
    """Seconds from a push until a contract's copy has it, by contract."""
    bringing: Bringing | None = None
    """Brings what comes from other sites, if there are any that run apart."""
    wishes: CopyWishes = field(default_factory=CopyWishes)
    scheduler: Scheduler | None = None
    state: PushState | None = None
    counts: PushCounts = field(default_factory=PushCounts)
    _answered: int = 0
    _looked_at: float = float("-inf")
    _is_idle: bool = False
    """Whether the last round had nothing to do but to note times."""
    _quiet_until: float = 0.0
    """On the clock that nobody sets: no push is due before."""

    @property
    def running(self) -> Running | None:
        """What runs. Take it once and keep it: the next look may find another plan."""
        state = self.state
        return None if state is None else state.running

    # What is pushed: these are for a thread that holds all turns

    def switch(self, running: Running, engine: Engine) -> None:
        """Switches to a plan: from here on it runs."""
        under_way = frozenset if self.bringing is None else self.bringing.find_under_way
        learnt = self._learnt(running.plan)
        self.scheduler = Scheduler(running, engine, learnt, self.slots, self.copies_take_s, under_way=under_way)
        self._publish()  # one assignment: a reader finds the plan before, or all of this one
        self.wake()

    def push_program(self, program: Program) -> None:
        """Pushes this from now on, for the plan that runs: what it asks for, and what a plan on its way adds."""
        if self.scheduler is not None:
            self.scheduler.engine.push_program(program)
            self._publish()

    def _learnt(self, plan: Plan) -> Learning:
        """What the plan before taught, or an earlier run of the service."""
        if self.scheduler is not None:
            return self.scheduler.learning.moved_to(plan)
        note = read_note(self.ledger, Learnt)
        earlier = None if note is None else read_document(note, partial(Learning.from_json, plan))
        return earlier or Learning(plan)

    # For everybody

    def expect(self) -> Seconds | None:
        """How long pushes of a vertex are known to take; None if nothing runs.

        As the last round published it: pushes go on meanwhile, and add to what the scheduler has learnt.
        """
        state = self.state
        return None if state is None else expect_pushes(state.paths, state.learning)

    def wake(self) -> None:
        """Something may be due that nobody could foresee."""
        self._quiet_until = 0.0

    def push_to(self, t: int) -> list[Pushed]:
        """Brings every view to a time up to which everything is captured; views in full get there a little later."""
        with self.turns.pushing:
            assert self.running is not None, "nothing runs yet"
            return self._push_views({one.vertex for one in self.running.plan.contracts}, t)

    def hurry(self, within_s: float, origin: str | None = None, share: float = 0.0) -> Mapping[str, int]:
        """Has views pushed ahead of their turn, as far as there is something now: all, or those that read something of
        another site, and whose age is this share of their promise or more. The times that they will get to, by vertex;
        none if a push goes on for so many seconds.
        """
        with self.turns.try_pushing(within_s) as is_ours:
            if not is_ours or self.scheduler is None:
                return {}
            found = self.scheduler.hurry(origin, self.clock(), self.ledger.times(), share)
            self.wake()
        return found

    # The thread

    def run(self) -> None:
        """Pushes in rounds until the service stops."""
        while not self.stop.is_set():
            with self.turns.pushing:
                if self.scheduler is not None:
                    self.auditor.look_before_pushing()
                    self._push_as_asked(self.scheduler)
                pause_s = self._push(self.scheduler) if self.scheduler is not None else IDLE_S
            self.stop.wait(min(max(YIELD_S, pause_s), LONGEST_PAUSE_S))

    def _push_as_asked(self, scheduler: Scheduler) -> None:
        """An audit may ask for all views at one time, ahead of their turn; tried once.

        But for views that are not loaded, or read a source which is stopped. Rounds follow each other quickly, and an
        audit can wait: it is looked for twice a second.
        """
        now_s = time.monotonic()
        if now_s < self._looked_at + LONGEST_PAUSE_S:
            return
        self._looked_at = now_s
        wanted, engine = read_note(self.ledger, WantedTime), scheduler.engine
        if wanted is not None and (t := wanted.t) > self._answered:
            stopped = {SPOOL + name for name in note_keys(self.ledger, SourceStopped)}
            vertices = {one.vertex for one in scheduler.running.plan.contracts} & self.ledger.times().keys()
            views = {vertex for vertex in vertices if stopped.isdisjoint(engine.spools([vertex]))}
            if engine.watermark(views) >= t:
                self._answered = t
                self._push_views(views, t)

    def _push_views(self, views: Set[str], t: int) -> list[Pushed]:
        assert self.scheduler is not None, "nothing runs yet"
        pushed = self.scheduler.push_asked(views, t, self.clock())
        self.wake()
        self._publish()
        self.account(pushed, None)
        return pushed

    def _push(self, scheduler: Scheduler) -> float:
        """One round. Returns the seconds until the next may have anything to do."""
        if (left_s := self._quiet_until - time.monotonic()) > 0:
            return left_s
        began, now, times = time.monotonic(), self.clock(), self.ledger.times()
        lags_s = self.auditor.lags_of(times)
        scheduler.hear(self.wishes.take(), times)
        decision, scene = scheduler.decide(now, times, lags_s)
        self._publish()  # what begins now is shown from now on, however long it takes
        aside = scheduler.set_aside(scene)
        if aside.begin:
            self._begin_beside(scheduler, aside.begin, scene)
            return 0.0
        if not aside.due:
            quiet_s = (decision.next_wake - now) / 1e6
            self.gaps.expect_push(quiet_s)
            self._quiet_until = began + quiet_s
            if self.wishes:  # one that was made meanwhile has woken nobody
                self.wake()
            return quiet_s
        started = time.perf_counter()
        try:
            with self.gaps.pushing():
                # Where nothing happens, all views move on together: each by itself would take a round of its own.
                moved = scheduler.move_idle(scene) if self._is_idle else []
                pushed = moved or scheduler.round(aside, scene)
                # What is due and has work is not moved. It must not wait while others move on again and again.
                helped = not moved or has_reached(moved, aside.due)
                self._is_idle = bool(pushed) and helped and not any(one.seconds or one.error for one in pushed)
        except Conflict as error:
            log.warning("somebody else moved what was pushed: %s", error)
            return 0.0
        if pushed:
            self._note_pushed(pushed, time.perf_counter() - started)
        return 0.0 if pushed else IDLE_S

    def _begin_beside(self, scheduler: Scheduler, moves: Iterable[RoundPush], scene: Scene) -> None:
        try:
            for move in moves:
                if move.vertex in scheduler.engine.program.imports:
                    assert self.bringing is not None, "nobody knows other sites"
                    self.bringing.want(move.vertex, move.target, scheduler.pending[move.contract].deadline)
                    continue
                item = scheduler.begin(move, scene)
                if isinstance(item, Pushed):
                    self._note_pushed([item], 0.0)
                else:
                    self.beside.push(item, self._finish_beside)
        except Conflict as error:
            log.warning("somebody else moved what was to be pushed beside the others: %s", error)

    def _finish_beside(self, item: WorkItem, outcome: ItemOutcome[Produced], seconds: float) -> None:
        """What runs may be another plan by now: its scheduler decides whether it wants this."""
        assert self.scheduler is not None
        try:
            pushed = self.scheduler.finish(item, outcome, self.clock())
        except Conflict as error:
            log.warning("somebody else moved what was pushed beside the others: %s", error)
            pushed = []
        self._note_pushed(pushed, seconds)

    def knows_copy(self, copy: str) -> bool:
        """Whether rounds push what another site has of us: not before anything runs, nor while a plan is loaded that
        adds it.
        """
        scheduler = self.scheduler
        return scheduler is not None and any(entry.contract == copy for entry in scheduler.paths.contracts)

    def wish(self, copy: str, wish: CopyWish) -> None:
        """Another site asks for what it has of us."""
        self.wishes.make(copy, wish)
        self.wake()

    def take_brought(self, brought: Pushed, after: int) -> None:
        """Something has come from another site. The caller has the turn to push."""
        if self.scheduler is not None:
            self.scheduler.take_brought(brought, after, self.clock())
            self._note_pushed([brought], 0.0)

    def _note_pushed(self, pushed: list[Pushed], seconds: float) -> None:
        """What is made of these may be due now."""
        self.wake()
        before, rows = self.counts, sum(one.rows_out for one in pushed)
        self.counts = PushCounts(before.pushes + len(pushed), before.rows + rows, before.seconds + seconds)
        for one in pushed:
            if one.error is not None and not one.halted:
                log.warning("%s could not be pushed: %s", one.vertex, one.error.splitlines()[0])
        self._publish()
        self.account(pushed, seconds)

    def _publish(self) -> None:
        assert self.scheduler is not None
        self.state = self.scheduler.state()


def has_reached(moved: Iterable[Pushed], due: Iterable[Due]) -> bool:
    """Whether one of those that are due got where it has to be."""
    times = {one.vertex: one.t for one in moved}
    return any(times.get(one.vertex, NEVER) >= one.target for one in due)
