"""Pushing: brings vertices of a program to times, and commits what was made.

`push` brings vertices (and what they need) to a time, level by level: the items of a level run together, and one commit
makes a level visible. Pushes are idempotent and commute; whatever fails before its commit leaves garbage files, nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.meaning.python_functions import surroundings_of
from headrace.meaning.scalar import Surroundings
from headrace.model.bad_row import BadRow
from headrace.model.errors import Conflict
from headrace.model.events import Event
from headrace.model.log import NEVER, Commit, Edit, Lease, Log
from headrace.model.notes import Halted
from headrace.run.compile.timers import is_helper
from headrace.run.ports import Ledger, Neighbours, Runner, Store
from headrace.run.program import Ingest, Program, RecomputeStep
from headrace.run.push.chains import ChainItem, ChainOutcome
from headrace.run.push.halted import read_halted, waiting_for
from headrace.run.push.items import ItemOutcome
from headrace.run.push.locate import say_where
from headrace.run.push.push_items import edits_of, edits_of_time, has_work, make_item
from headrace.run.push.slices import run_sliced
from headrace.run.push.work import Produced, WorkItem, count_sent_bytes
from headrace.run.schedule.next_job import together
from headrace.run.schedule.next_push import FOREVER, SECOND

ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Pushed:
    """What became of a push of one vertex. `error` says why it did not get there; `seconds` of its item alone.

    One that is `halted` by a bad row, or waits for one that is, is pushed no more until it is rebuilt. A view in full
    that `has_no_answer` because of a row is tried again by its next push.
    `bytes` were written, `sent` of them came from the site `origin`, if that is another one; `waited_s` of the seconds
    were spent on their way. `harmful` if it, or one that ran with it, held up or brought down whatever ran it; `hung`
    if it was ended because it took too long.
    """

    vertex: str
    t: int
    seconds: float = 0.0
    rows_in: int = 0
    rows_out: int = 0
    bytes: int = 0
    skipped: bool = False
    error: str | None = None
    origin: str | None = None
    sent: int = 0
    waited_s: float = 0.0
    harmful: bool = False
    hung: bool = False
    halted: bool = False
    has_no_answer: bool = False


@dataclass(slots=True)
class Pusher:
    """Holds no state of its own: everything is in the ledger and the store."""

    program: Program
    ledger: Ledger
    store: Store
    runner: Runner[Any]
    lease: Lease
    expect: Callable[[str, float], float] | None = field(default=None, kw_only=True)
    """Seconds that nine of ten pushes of a vertex take at most, from the seconds of changes that it lacks."""
    alone: Collection[str] = field(default=(), kw_only=True)
    """What views compute of vertices and is not pushed along with these: somebody pushes it beside the others."""
    tell: Callable[[Sequence[Pushed]], tuple[Event, ...]] = field(default=lambda _: (), kw_only=True)
    """The events that a commit of pushes brings with it."""
    neighbours: Neighbours | None = field(default=None, kw_only=True)
    """Other sites, if the program is the part of one."""

    @property
    def around(self) -> Surroundings:
        return surroundings_of(self.program.functions)

    # What is known of pushes

    def push_program(self, program: Program) -> None:
        """Pushes by another program from now on; nobody pushes meanwhile."""
        self.program = program

    def expect_seconds(self, expect: Callable[[str, float], float]) -> None:
        self.expect = expect

    def leave_alone(self, vertices: Collection[str]) -> None:
        self.alone = vertices

    # Time

    def watermark(self, vertices: Collection[str], times: Mapping[str, int] | None = None) -> int:
        """The latest time to which vertices can be pushed: everything up to it is captured, here and elsewhere."""
        found, imports = [self.captured(vertices, times)], self.program.imports_of(vertices)
        if imports:
            reach = self.reach()
            found += [reach.get(name, NEVER) for name in imports]
        # What is made of other sites' rows alone has nothing captured here.
        return min((t for t in found if t < FOREVER), default=NEVER)

    def captured(self, vertices: Collection[str], times: Mapping[str, int] | None = None) -> int:
        """Up to where everything is captured here that vertices need; without end if that is nothing."""
        times = self.ledger.times() if times is None else times
        return min((times.get(spool, NEVER) for spool in self.spools(vertices)), default=FOREVER)

    def reach(self) -> Mapping[str, int]:
        """How far what comes from other sites can be brought, by log."""
        return {} if self.neighbours is None else self.neighbours.reach()

    def spools(self, vertices: Collection[str]) -> set[str]:
        """Everything captured that vertices need."""
        steps = (self.program.tasks[name].step for name in self.upstream(vertices))
        return {step.spool for step in steps if isinstance(step, Ingest)}

    def upstream(self, vertices: Collection[str]) -> list[str]:
        """Vertices and all they need, inputs first."""
        return self.program.upstream(vertices)

    # Pushing

    def push(self, vertices: Collection[str], t: int) -> list[Pushed]:
        """Brings vertices to a time, and what they need; vertices that are there already are skipped."""
        done: dict[str, Pushed] = {}
        for level in self.levels(self.upstream(vertices)):
            ready = [name for name in level if not self._is_blocked(name, done)]
            for name in set(level) - set(ready):
                done[name] = Pushed(name, NEVER, error="an input could not be pushed")
            done |= {pushed.vertex: pushed for pushed in self.push_round(dict.fromkeys(ready, t))}
        return list(done.values())

    def _is_blocked(self, vertex: str, done: Mapping[str, Pushed]) -> bool:
        return any(done[read].error is not None for read in self.program.tasks[vertex].reads if read in done)

    def levels(self, vertices: Sequence[str]) -> list[list[str]]:
        """Vertices by the longest way from the sources."""
        depth: dict[str, int] = {}
        for name in vertices:
            depth[name] = 1 + max((depth.get(read, -1) for read in self.program.tasks[name].reads), default=-1)
        found: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
        for name in vertices:
            found[depth[name]].append(name)
        return found

    def push_round(self, targets: Mapping[str, int]) -> list[Pushed]:
        """Brings vertices to times that their inputs have reached: one job, one commit; then what views compute."""
        if any(is_helper(read) for name in targets for read in self.program.tasks[name].reads):
            return self.push_chains(targets)
        done = self._push_level(targets)
        answers = self._answers({one.vertex: one.t for one in done if one.error is None})
        return [*done, *(self._push_level(answers) if answers else [])]

    def _push_level(self, targets: Mapping[str, int]) -> list[Pushed]:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._attempt_round(targets)
            except Conflict:
                continue  # a log moved on meanwhile: what is left to do is less
        return self._attempt_round(targets)

    def _attempt_round(self, targets: Mapping[str, int]) -> list[Pushed]:
        logs, waiting = self.ledger.logs(self._find_involved(targets)), self.waiting()
        done, moved, items, edits = list[Pushed](), list[Pushed](), list[WorkItem](), list[Edit]()
        times = {name: log.t for name, log in logs.items()}
        for name, wanted in targets.items():
            if name in waiting:
                done.append(Pushed(name, times.get(name, NEVER), error=waiting[name], halted=True))
                continue
            t = self._as_far_as(name, wanted, times)
            made = self._prepare_push(name, t, logs)
            match made:
                case WorkItem():
                    items.append(made)
                case Pushed():
                    done.append(made)
                    if not made.skipped and made.error is None:
                        moved.append(made)
                        edits += edits_of_time(self.program.tasks[name], logs[name].t, t)
        outcomes = list(zip(items, run_sliced(self.runner, items), strict=True))
        # The ledger is not locked while items run. If a log has moved on meanwhile, the commit below is refused as a
        # whole (every edit names the time that it expects), and `_push_level` tries again with the logs as they are.
        return [*done, *self._commit(edits, outcomes, moved)]

    def _commit(
        self,
        edits: list[Edit],
        outcomes: Sequence[tuple[WorkItem, ItemOutcome[Produced]]],
        moved: Sequence[Pushed] = (),
    ) -> list[Pushed]:
        """Makes visible what items made; those that met a bad row are halted from here on. `moved` are the pushes that
        `edits` belong to: their vertices move on without any work.
        """
        pushed = [_make_pushed(item, outcome) for item, outcome in outcomes]
        made = [edit for item, outcome in outcomes if outcome.value for edit in edits_of(item, outcome.value)]
        if edits or made:
            events = self.tell([*moved, *(one for one in pushed if one.error is None)])
            self.ledger.commit(self.lease, Commit((*edits, *made), events=events))
        # Only now: the bad row is looked for among the rows that were just committed.
        failed = {
            item.name: self._make_halted(item, outcome.bad_row)
            for item, outcome in outcomes
            if outcome.bad_row is not None
        }
        # A view in full needs no mending: its next push reads what is there then, not the change that brought the row.
        halted = {
            item.name: failed[item.name]
            for item, _ in outcomes
            if item.name in failed and not isinstance(item.task.step, RecomputeStep)
        }
        # A crash between the two commits loses nothing: the next push meets the same bad row again.
        if halted:
            self.ledger.commit(self.lease, Commit(notes=tuple(halted.values())))
        return [
            replace(one, error=failed[one.vertex].why, halted=one.vertex in halted, has_no_answer=True)
            if one.vertex in failed
            else one
            for one in pushed
        ]

    # Beside others

    def begin(self, name: str, t: int) -> WorkItem | Pushed:
        """The work of a push that is to run beside others; or what became of it without any.

        Nobody else may push meanwhile, nor while `finish` commits what was made; in between everybody may.
        """
        logs = self.ledger.logs(self._find_involved([name]))
        if (why := self.waiting().get(name)) is not None:
            return Pushed(name, logs[name].t if name in logs else NEVER, error=why, halted=True)
        t = self._as_far_as(name, t, {read: log.t for read, log in logs.items()})
        made = self._prepare_push(name, t, logs)
        if isinstance(made, Pushed) and not made.skipped and made.error is None:
            edits = edits_of_time(self.program.tasks[name], logs[name].t, t)
            self.ledger.commit(self.lease, Commit(tuple(edits), events=self.tell([made])))
        return made

    def wants(self, item: WorkItem) -> bool:
        """Whether what a push makes still has a place here: its vertex is there, and made and looked up as it was.

        A log that is looked up by one more key must not get changes without an index for that. Whether the vertex is
        still where the push began is for the ledger to say.
        """
        task, logs = self.program.tasks.get(item.name), self.program.logs
        is_same = task == item.task and all(logs.get(name) == spec for name, spec in item.written.items())
        return is_same and self.program.functions == item.functions and item.name not in self.waiting()

    def finish(self, item: WorkItem, outcome: ItemOutcome[Produced]) -> list[Pushed]:
        """Commits what a push made; then pushes what views compute of it. Raises Conflict if the vertex has moved."""
        done = self._commit([], [(item, outcome)])
        answers = self._answers({one.vertex: one.t for one in done if one.error is None})
        return [*done, *(self._push_level(answers) if answers else [])]

    def _make_halted(self, item: WorkItem, bad_row: BadRow) -> Halted:
        why = say_where(bad_row, self.program, self.ledger, self.store)
        return Halted(item.name, why, item.upto if bad_row.time is None else bad_row.time, item.upto)

    def waiting(self) -> dict[str, str]:
        """Vertices that are halted, or wait for one that is, and why."""
        halted = read_halted(self.ledger)
        return {name: halted[first].why for name, first in waiting_for(self.program, halted).items()}

    def _answers(self, targets: Mapping[str, int]) -> dict[str, int]:
        """What views compute of vertices that are at some times; not of those that are not loaded, or halted."""
        found = {answer: t for name, t in targets.items() for answer in self.program.answers_of(name)}
        if not found:
            return {}
        there, waiting = self.ledger.times(), self.waiting()
        left_out = {*targets, *waiting, *self.alone}
        return {name: t for name, t in found.items() if name in there and name not in left_out}

    def _prepare_push(self, name: str, t: int, logs: Mapping[str, Log]) -> WorkItem | Pushed:
        """The work of a push; or what became of it without any."""
        task, log = self.program.tasks[name], logs.get(name)
        if log is None:
            return Pushed(name, NEVER, error="it is not loaded")
        if log.t >= t:
            return Pushed(name, log.t, skipped=True)
        late = [read for read in task.reads if read not in logs or logs[read].t < t]
        if late:
            return Pushed(name, log.t, error=f'its input "{late[0]}" is not there yet')
        return self._work(name, t, logs) if has_work(task, log, t, logs) else Pushed(name, t)

    def _as_far_as(self, name: str, t: int, times: Mapping[str, int]) -> int:
        """The time to push a vertex to that is asked for at t.

        A view that is recomputed is known at the times of its pushes alone. A vertex that hands it on goes as far as it
        is: in between it would claim to be what the view was at an earlier time.
        """
        task = self.program.tasks[name]
        return max(t, *(times.get(read, NEVER) for read in task.reads)) if task.follows else t

    def push_chains(self, targets: Mapping[str, int]) -> list[Pushed]:
        """Brings vertices to times, each with all that it lacks among the targets: one job, one commit.

        Vertices that build on each other are pushed one after the other; those that do not, side by side.
        """
        targets = self._with_helpers({**targets, **self._answers(targets)})
        for _ in range(ATTEMPTS - 1):
            try:
                return self._attempt_chains(targets)
            except Conflict:
                continue
        return self._attempt_chains(targets)

    def _with_helpers(self, targets: Mapping[str, int]) -> dict[str, int]:
        """Adds the parts that vertices are made of."""
        found = dict(targets)
        for name in reversed(self.upstream(targets)):
            for read in self.program.tasks[name].reads if name in found else ():
                if is_helper(read):
                    found[read] = max(found[name], found.get(read, NEVER))
        return found

    def _attempt_chains(self, targets: Mapping[str, int]) -> list[Pushed]:
        logs, waiting = self.ledger.logs(self._find_involved(targets)), self.waiting()
        done, lacking = list[Pushed](), dict[str, int]()
        times = {name: log.t for name, log in logs.items()}
        for name in (one for one in self.upstream(targets) if one in targets):
            t = self._as_far_as(name, targets[name], times)
            if name in waiting:
                done.append(Pushed(name, times.get(name, NEVER), error=waiting[name], halted=True))
            elif name not in logs:
                done.append(Pushed(name, NEVER, error="it is not loaded"))
            elif logs[name].t >= t:
                done.append(Pushed(name, logs[name].t, skipped=True))
            elif (late := self._late_input(name, t, logs, lacking)) is not None:
                done.append(Pushed(name, logs[name].t, error=f'its input "{late}" is not there yet'))
            else:
                lacking[name] = times[name] = t
        idle = self._find_idle(lacking, logs)
        moved = [Pushed(name, lacking[name]) for name in idle]
        edits = [
            edit for one in moved for edit in edits_of_time(self.program.tasks[one.vertex], logs[one.vertex].t, one.t)
        ]
        working = {name: t for name, t in lacking.items() if name not in idle}
        chains = [
            ChainItem(tuple(self._work(name, working[name], logs) for name in chain))
            for chain in together({name: self.program.tasks[name].reads for name in working}, working)
        ]
        outcomes = list[tuple[WorkItem, ItemOutcome[Produced]]]()
        for chain, outcome in zip(chains, self.runner.run(chains) if chains else [], strict=True):
            links = outcome.value or [
                ChainOutcome(item.name, None, outcome.error, outcome.seconds) for item in chain.items
            ]
            made = (replace(_outcome(link), harmful=outcome.harmful, retryable=outcome.retryable) for link in links)
            outcomes += zip(chain.items, made, strict=True)
        return [*done, *moved, *self._commit(edits, outcomes, moved)]

    def _find_idle(self, lacking: Mapping[str, int], logs: Mapping[str, Log]) -> list[str]:
        """Vertices that have nothing to do: no changes have come to what they read, and none come with this job.

        Inputs come first.
        """
        idle: dict[str, None] = {}
        for name, t in lacking.items():
            task = self.program.tasks[name]
            is_fed = any(read in lacking and read not in idle for read in task.reads)
            if not is_fed and not has_work(task, logs[name], t, logs):
                idle[name] = None
        return list(idle)

    def move_idle(self, but: Collection[str]) -> list[Pushed]:
        """Brings all that has nothing to do as far as everything is captured: one commit, and no work. `but` are
        vertices that somebody else pushes, or may be pushing; what is made of them stays where it is as well.
        """
        logs, waiting = self.ledger.logs(), self.waiting()
        reached: dict[str, int] = {name: log.t for name, log in logs.items() if name not in self.program.tasks}
        moved, edits = list[Pushed](), list[Edit]()
        for name in self.upstream(self.program.tasks):
            task, log = self.program.tasks[name], logs.get(name)
            if log is None or name in waiting or name in but or any(read not in reached for read in task.reads):
                continue
            t = min(reached[read] for read in task.reads)
            if t <= log.t:
                reached[name] = log.t
            elif not has_work(task, log, t, logs) and (task.state is None or task.state.name in logs):
                reached[name] = t
                moved.append(Pushed(name, t))
                edits += edits_of_time(task, log.t, t)
        if edits:
            self.ledger.commit(self.lease, Commit(tuple(edits), events=self.tell(moved)))
        return moved

    def _work(self, name: str, t: int, logs: Mapping[str, Log]) -> WorkItem:
        expected_s = 0.0 if self.expect is None else self.expect(name, (t - logs[name].t) / SECOND)
        return make_item(self.program, self.store, name, t, logs, expected_s)

    def _late_input(self, name: str, t: int, logs: Mapping[str, Log], coming: Mapping[str, int]) -> str | None:
        """An input that has not reached a time, and will not by what comes with it."""
        for read in self.program.tasks[name].reads:
            if coming.get(read, NEVER) < t and (read not in logs or logs[read].t < t):
                return read
        return None

    def _find_involved(self, vertices: Iterable[str]) -> set[str]:
        found = set[str]()
        for name in vertices:
            task = self.program.tasks[name]
            found |= {name, *task.reads}
            if task.state is not None:
                found.add(task.state.name)
        return found


def _make_pushed(item: WorkItem, outcome: ItemOutcome[Produced]) -> Pushed:
    if outcome.value is None:
        hung = outcome.harmful and not outcome.retryable
        return Pushed(item.name, item.after, outcome.seconds, error=outcome.error, harmful=outcome.harmful, hung=hung)
    made = outcome.value
    return Pushed(
        item.name,
        item.upto,
        outcome.seconds,
        made.rows_in,
        made.rows_out,
        made.bytes,
        origin=item.origin,
        sent=count_sent_bytes(item, made),
        waited_s=outcome.waited_s,
    )


def _outcome(link: ChainOutcome) -> ItemOutcome[Produced]:
    return ItemOutcome(
        link.vertex, link.produced, link.error, link.seconds, waited_s=link.waited_s, bad_row=link.bad_row
    )
