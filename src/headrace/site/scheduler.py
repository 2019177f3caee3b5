"""Performs the pushes that are due, round after round: decides, acts, and learns how long pushes take."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headrace.model.log import NEVER
from headrace.model.wish import CopyWish
from headrace.run.compile.columns import serving_log
from headrace.run.compile.timers import is_helper
from headrace.run.push.engine import Engine
from headrace.run.push.items import ItemOutcome
from headrace.run.push.push import Pushed
from headrace.run.push.work import Produced, WorkItem
from headrace.run.schedule.beside import Aside, set_aside
from headrace.run.schedule.next_job import Job, ParallelSlots, length_s, longest_share, next_job, parts_of
from headrace.run.schedule.next_push import (
    EARLIEST,
    FOREVER,
    SECOND,
    Due,
    Paths,
    PushDecision,
    Scene,
    next_pushes,
    path_s,
    paths_of,
)
from headrace.run.schedule.next_round import RoundPush, next_round
from headrace.site.learning import Learning
from headrace.site.push_state import PushState, expect_pushes, find_needed
from headrace.site.running import Running
from headrace.site.wishes import promise_exports

BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""How long a vertex is left alone after one, two, ... failures in a row."""
HARMFUL_BACKOFF_S = 600.0
"""How long a vertex is left alone whose push, by itself, held up all others or brought down the engine."""


@dataclass(slots=True)
class Failing:
    """A vertex whose pushes fail: how often in a row, the last reason, and until when it is left alone (µs)."""

    failures: int
    reason: str
    until: int


@dataclass(slots=True)
class Scheduler:
    running: Running
    engine: Engine
    learning: Learning
    slots: int = 2
    copies_take_s: Callable[[], Mapping[str, float]] = dict
    """Seconds from a push until a contract's copy has it, by contract."""
    pending: dict[str, Due] = field(default_factory=dict)
    failing: dict[str, Failing] = field(default_factory=dict)
    suspects: set[str] = field(default_factory=set)
    """Vertices that were pushed together when one of them did harm: each is pushed by itself until that is found."""
    slow: set[str] = field(default_factory=set)
    """Vertices that were pushed together when one of them hung: each is pushed beside the others until it is there."""
    under_way: Callable[[], frozenset[str]] = frozenset
    """What is being brought from other sites."""
    halted: dict[str, str] = field(default_factory=dict)
    """Contracts that bad rows keep from going on, and why: `site/mending.py` rebuilds them. Replaced, never changed."""
    _paths: Paths | None = None

    @property
    def paths(self) -> Paths:
        if self._paths is None:
            plan, program = self.running.plan, self.running.program
            exports = promise_exports(plan, program)
            forced, vertices = frozenset(self.running.forced), {entry.vertex for entry in exports}
            parts = {name: program.tasks[name].reads for name in vertices if name not in plan.graph.vertices}
            streaming = [name for name, one in plan.catalogue.contracts.items() if one.streaming]
            self._paths = paths_of(plan.graph, plan.contracts, forced, program.imports, exports, parts, streaming)
        return self._paths

    @property
    def _in_flight(self) -> frozenset[str]:
        return frozenset((*self.pending, *self.halted))

    @property
    def sides(self) -> ParallelSlots:
        return ParallelSlots(self.slots, self.learning.parallel)

    # Rounds

    def state(self) -> PushState:
        """How pushing is going now, as a value that stays as it is."""
        return PushState(
            running=self.running,
            program=self.engine.program,
            paths=self.paths,
            learning=self.learning.copy(),
            slots=self.slots,
            in_flight=self._in_flight,
            apart=frozenset(self.apart),
            halted=self.halted,
            failing={vertex: one.reason for vertex, one in self.failing.items()},
            copies_take_s=self.copies_take_s(),
            reach=self.engine.reach(),
        )

    def hear(self, wishes: Mapping[str, CopyWish], times: Mapping[str, int]) -> None:
        """What other sites ask for is pushed as any contract is that is due."""
        vertices = {entry.contract: entry.vertex for entry in self.paths.contracts if entry.on_demand}
        for copy, wish in wishes.items():
            vertex, known = vertices.get(copy), self.pending.get(copy)
            if vertex is None:
                continue
            t = min(wish.t, self.engine.watermark([vertex], times))  # no further than everything is captured
            if times.get(vertex, FOREVER) < t and (known is None or known.target < t):
                self.pending[copy] = Due(copy, vertex, t, wish.deadline, late=False)

    def decide(self, now: int, times: Mapping[str, int], lags_s: Mapping[str, float]) -> tuple[PushDecision, Scene]:
        """Returns the pushes to start now; they stay in `pending` until done."""
        self.halted = self._find_halted_contracts()
        reach = self.engine.reach() if self.engine.program.imports else {}
        for contract, due in list(self.pending.items()):
            if self._is_out_of_reach(due, times, reach):
                del self.pending[contract]  # the site that said it would get there is gone: as far as others go then
                continue
            there = due.vertex in times and times[due.vertex] >= due.target
            if there:
                self.learning.end(contract, now)
            if there or due.vertex not in times or contract in self.halted or self._backs_off_for(contract, now):
                del self.pending[contract]
        scene = self.state().scene(now, times, lags_s)
        decision = next_pushes(self.paths, scene)
        for due in decision.due:
            if not self._backs_off_for(due.contract, now):
                self.pending[due.contract] = due
        return decision, replace(scene, in_flight=self._in_flight)

    def _is_out_of_reach(self, due: Due, times: Mapping[str, int], reach: Mapping[str, int]) -> bool:
        """Whether a push waits for rows of another site that cannot come now."""
        upstream, imports = self.paths.upstream.get(due.contract, ()), self.engine.program.imports
        needed = (name for name in upstream if name in imports and not self.paths.inputs[name])
        return any(max(reach.get(name, NEVER), times.get(name, NEVER)) < due.target for name in needed)

    def set_aside(self, scene: Scene) -> Aside:
        """What of the pending pushes has to begin beside the others, and what is left for a round.

        Only as many begin as leave a core to rounds: more of them would only take longer, until their deadlines end
        them. The rest begins as these are done, the most urgent first. Transfers wait for links, not for cores.
        """
        # What is brought from other sites takes none of our cores either.
        transfers = self.engine.transfers().union(self.engine.program.imports)
        running = self.engine.in_work.vertices | self.under_way()
        aside = set_aside(self.paths, scene, self.pending.values(), self.apart, running)
        answers = (move for move in self._late_answers(scene) if move.vertex not in running)
        room = max(0, max(1, self.slots - 1) - len(running - transfers))
        sent = tuple(move for move in aside.begin if move.vertex in transfers)
        computed = (*(move for move in aside.begin if move.vertex not in transfers), *answers)
        return replace(aside, begin=(*sent, *computed[:room]))

    @property
    def apart(self) -> set[str]:
        """Vertices that are pushed beside the others, or brought from other sites."""
        return self.engine.apart().union(self.slow, self.engine.program.imports)

    def _late_answers(self, scene: Scene) -> Iterator[RoundPush]:
        """What views compute of vertices that are there, as far as that is not pushed along with them."""
        self.engine.leave_alone(self.slow)
        waiting = self.engine.waiting() if self.slow else {}
        for contract, name in self.engine.program.answers.items():
            (read,) = self.engine.program.tasks[name].reads
            is_late = scene.times.get(name, FOREVER) < scene.times.get(read, NEVER)
            if name in self.slow and is_late and name not in waiting and not self._backs_off(name, scene.now):
                yield RoundPush(name, scene.times[read], contract)

    def push_asked(self, views: Collection[str], t: int, now: int) -> list[Pushed]:
        """Brings views to a time ahead of their turn; those that are pushed beside the others are only made due."""
        engine, apart = self.engine, self.apart
        slow = {
            view
            for view in views
            if not apart.isdisjoint([*engine.upstream([view]), *engine.program.imports_of([view])])
        }
        for entry in self.running.plan.contracts:
            known = self.pending.get(entry.contract)
            if entry.vertex in slow and (known is None or known.target < t):
                self.pending[entry.contract] = Due(entry.contract, entry.vertex, t, deadline=now, late=True)
        beside = apart.intersection(engine.upstream(slow)).intersection(engine.program.tasks)
        read = {name for vertex in beside for name in engine.program.tasks[vertex].reads}
        ready = {
            name for name in read if apart.isdisjoint([*engine.upstream([name]), *engine.program.imports_of([name])])
        }
        return engine.push({*views, *ready} - slow, t)

    def hurry(self, origin: str | None, now: int, times: Mapping[str, int], share: float = 0.0) -> dict[str, int]:
        """Makes views due ahead of their turn, up to what there is now: all, or those that read something of another
        site, and whose age is this share of their promise or more. The times, by vertex.
        """
        scene, found = self.state().scene(now, times, {}), dict[str, int]()
        for entry in self.running.plan.contracts:
            t = self._find_newest(entry.contract, origin, scene)
            if t is None or t <= times[entry.vertex] or self._backs_off_for(entry.contract, now):
                continue
            freshness = round(entry.freshness_s * SECOND)
            if now - times[entry.vertex] < share * freshness:
                continue
            known, deadline = self.pending.get(entry.contract), max(now, times[entry.vertex] + freshness)
            # Those that are promised most go first. Who is hurried again gets there before there is another aim.
            if known is None or (share == 0.0 and known.target < t):
                self.pending[entry.contract] = Due(entry.contract, entry.vertex, t, deadline, late=False)
            found[entry.vertex] = t
        return found

    def _find_newest(self, contract: str, origin: str | None, scene: Scene) -> int | None:
        """How far a view could be pushed; None if it is not loaded or halted, or reads nothing of another site."""
        upstream, imports = self.paths.upstream.get(contract, ()), self.engine.program.imports
        if contract in self.halted or not upstream or any(name not in scene.times for name in upstream):
            return None
        if origin is not None and all(name not in imports or imports[name].origin != origin for name in upstream):
            return None
        return min(scene.watermarks.get(name, NEVER) for name in upstream if not self.paths.inputs[name])

    def begin(self, move: RoundPush, scene: Scene) -> WorkItem | Pushed:
        """The work of a push beside the others; `finish` has to be called when it is done."""
        self.engine.expect_seconds(expect_pushes(self.paths, self.learning))
        for contract, due in self.pending.items():
            if move.vertex in self.paths.upstream[contract]:
                self.learning.begin(contract, scene.now, path_s(self.paths, scene, contract, due.target))
        made = self.engine.begin(move.vertex, move.target)
        if isinstance(made, Pushed):
            self._learn([made], scene.now, scene.times)
        return made

    def finish(self, item: WorkItem, outcome: ItemOutcome[Produced], now: int) -> list[Pushed]:
        """Commits what a push made beside the others, and learns from it; nothing if nobody wants it any more."""
        if not self.engine.wants(item):
            return []
        pushed = self.engine.finish(item, outcome)
        self._learn(pushed, now, {item.name: item.after})
        return pushed

    def round(self, aside: Aside, scene: Scene) -> list[Pushed]:
        """Runs the next round of what is left to rounds; empty if there is nothing to do.

        As many whole pushes as nobody waits too long for are one job; a push that is longer goes level by level.
        """
        working = replace(scene, seconds=self.learning.work())
        job = next_job(aside.paths, working, aside.due, self.learning.overhead_s)
        self.engine.expect_seconds(expect_pushes(self.paths, self.learning))
        started = time.perf_counter()
        apart = job is None or not self.suspects.isdisjoint(job.targets)
        pushed = self._by_levels(aside, scene) if apart or job is None else self._by_chains(job, scene)
        self._learn(pushed, scene.now + round((time.perf_counter() - started) * SECOND), scene.times)
        return pushed

    def move_idle(self, scene: Scene) -> list[Pushed]:
        """Brings everything forward that has nothing to do, whoever's turn it is; but not views that are delivered and
        still young, unless others need them now: with each push of such a view, somebody else's database is written to.
        """
        needed = {name for contract in self.pending for name in self.paths.upstream[contract]}
        delivered = {
            one.vertex
            for one in self.running.watched
            if one.delivers and scene.now - scene.times.get(one.vertex, NEVER) < EARLIEST * one.freshness_s * SECOND
        }
        # Where nothing has changed, nothing is sent.
        computed = self.apart - self.engine.transfers() - self.engine.program.imports.keys()
        stays = {*computed, *self.engine.in_work.vertices, *self.engine.alone, *(delivered - needed)}
        moved = self.engine.move_idle(stays)
        self._learn(moved, scene.now, scene.times)
        return moved

    def take_brought(self, brought: Pushed, after: int, now: int) -> None:
        """Learns from what another site has sent."""
        self._learn([brought], now, {brought.vertex: after})

    def _learn(self, pushed: list[Pushed], now: int, before: Mapping[str, int]) -> None:
        """Learns from pushes that are done now; `before` are the times of their vertices when they began."""
        there = {one.vertex: one.t for one in pushed if one.error is None}
        worked = {one.vertex for one in pushed if one.seconds}
        for contract, due in self.pending.items():
            if there.get(due.vertex, NEVER) < due.target:
                continue
            if worked.isdisjoint(self.paths.upstream[contract]):
                self.learning.leave_out(contract)
            else:
                self.learning.end(contract, now)
        for one in pushed:
            self._note(one, now)
        self.learning.learn(pushed, before)

    def _by_chains(self, job: Job, scene: Scene) -> list[Pushed]:
        parts = parts_of(self.paths, job, self.sides, self.learning.overhead_s)
        lengths = [length_s(self.paths, job.seconds, part, self.sides) for part in parts]
        for contract, due in self.pending.items():
            if job.targets.get(due.vertex, NEVER) >= due.target:
                self.learning.begin(contract, scene.now, sum(lengths) + len(parts) * self.learning.overhead_s)
        return [one for part in parts for one in self._run(part, scene.times)]

    def _run(self, part: Mapping[str, int], times: Mapping[str, int]) -> list[Pushed]:
        """One job; what it took is learnt."""
        predict = self.learning.alone()
        alone = {name: predict(name, (t - times[name]) / SECOND) for name, t in part.items()}
        share = longest_share(self.paths, alone, part, self.slots)
        started = time.perf_counter()
        pushed = self.engine.push_chains(part)
        if any(one.seconds for one in pushed):
            took_s = time.perf_counter() - started
            self._learn_job(share, pushed, took_s)
        return pushed

    def _learn_job(self, share: list[str], pushed: list[Pushed], took_s: float) -> None:
        """`share` are the vertices of its longest slot. What a job takes is learnt from what its pushes took: how well
        each of these was predicted is learnt by itself.
        """
        measured = {one.vertex: one.seconds for one in pushed}
        longest_s, all_s = sum(measured.get(name, 0.0) for name in share), sum(measured.values())
        follow, work_s = self.sides.follows(len(share), len(pushed)), self.sides.follows(longest_s, all_s)
        self.learning.learn_job(follow, work_s, took_s)
        self.learning.learn_sides(longest_s, all_s, took_s)

    def _by_levels(self, aside: Aside, scene: Scene) -> list[Pushed]:
        moves = next_round(aside.paths, scene, aside.due)
        for move in moves:
            due = self.pending[move.contract]
            self.learning.begin(move.contract, scene.now, path_s(self.paths, scene, move.contract, due.target))
        targets = {move.vertex: move.target for move in moves if not self._backs_off(move.vertex, scene.now)}
        return self.engine.push_round(targets) if targets else []

    def _find_halted_contracts(self) -> dict[str, str]:
        program, waiting = self.engine.program, self.engine.waiting()
        logs = {entry.contract: serving_log(program, entry) for entry in self.running.plan.contracts}
        logs |= {entry.contract: entry.vertex for entry in self.paths.contracts if entry.on_demand}
        return {contract: waiting[log] for contract, log in logs.items() if log in waiting}

    def _note(self, pushed: Pushed, now: int) -> None:
        if pushed.halted:
            self.failing.pop(pushed.vertex, None)
        elif pushed.error is not None:
            failures = self.failing[pushed.vertex].failures + 1 if pushed.vertex in self.failing else 1
            backoff_s = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
            if pushed.harmful and pushed.vertex in self.suspects | self.slow:
                backoff_s = HARMFUL_BACKOFF_S
            elif pushed.hung and not self._has_parts(pushed.vertex):
                self.slow.add(pushed.vertex)
            elif pushed.harmful:
                self.suspects.add(pushed.vertex)
            self.failing[pushed.vertex] = Failing(failures, pushed.error, now + round(backoff_s * 1e6))
        else:
            self.failing.pop(pushed.vertex, None)
            if not pushed.skipped:
                self.suspects.discard(pushed.vertex)
                self.slow.discard(pushed.vertex)

    def _has_parts(self, vertex: str) -> bool:
        """Whether it is, or is made of, a part of a vertex: those are pushed together."""
        return any(map(is_helper, (vertex, *self.engine.program.tasks[vertex].reads)))

    def _backs_off(self, vertex: str, now: int) -> bool:
        """A time further off than any backoff is one of a clock that was put back since."""
        return vertex in self.failing and 0 < self.failing[vertex].until - now <= HARMFUL_BACKOFF_S * SECOND

    def _backs_off_for(self, contract: str, now: int) -> bool:
        """Whether something that a contract needs is left alone for now: it must not hold up the others."""
        return any(self._backs_off(vertex, now) for vertex in find_needed(self.paths, self.engine.program, contract))
