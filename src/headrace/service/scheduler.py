"""Pushes what is due, round after round: decides, acts, and learns how long things take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.log import NEVER
from headrace.model.plan import Plan
from headrace.run.execute import Engine, Pushed
from headrace.run.next_push import Decision, Due, Paths, Scene, longest_item_s, next_pushes, path_s, paths_of
from headrace.run.next_round import next_round
from headrace.run.steps import Ingest
from headrace.service.learning import Learning

SMALL_S, JOBS_SAVED = 2.0, 4
"""Work of so many seconds goes in one job, whatever its levels: more, where jobs cost much."""
TRIES = 3
REST_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""After so many failures in a row a vertex is left alone for so long."""


@dataclass(slots=True)
class Trouble:
    """A vertex whose pushes fail: how often in a row, the last reason, and until when it is left alone (µs)."""

    failures: int
    reason: str
    until: int

    @property
    def is_suspect(self) -> bool:
        return self.failures >= TRIES


@dataclass(slots=True)
class Scheduler:
    plan: Plan
    engine: Engine
    slots: int = 2
    forced: frozenset[str] = frozenset()
    """Contracts that go after all others."""
    pending: dict[str, Due] = field(default_factory=dict)
    trouble: dict[str, Trouble] = field(default_factory=dict)
    _learning: Learning | None = None
    _paths: Paths | None = None

    @property
    def learning(self) -> Learning:
        if self._learning is None:
            self._learning = Learning(self.plan)
        return self._learning

    @property
    def paths(self) -> Paths:
        if self._paths is None:
            self._paths = paths_of(self.plan.graph, self.plan.contracts, self.forced)
        return self._paths

    # Rounds

    def scene(self, now: int, times: Mapping[str, int], lags_s: Mapping[str, float]) -> Scene:
        watermarks = {
            name: times.get(task.step.spool, NEVER)
            for name, task in self.engine.program.tasks.items()
            if isinstance(task.step, Ingest)
        }
        seconds = self.learning.seconds()
        return Scene(
            now=now,
            times=times,
            watermarks=watermarks,
            seconds=seconds,
            slots=self.slots,
            in_flight=frozenset(self.pending),
            lags_s=lags_s,
            margins=self.learning.margins,
            blocking_s=longest_item_s(self.paths, seconds),
        )

    def decide(self, now: int, times: Mapping[str, int], lags_s: Mapping[str, float]) -> Decision:
        """What has to start now; what has started stays in `pending` until it is there."""
        for contract, due in list(self.pending.items()):
            there = due.vertex in times and times[due.vertex] >= due.target
            if there:
                self.learning.end(contract, now)
            if there or due.vertex not in times or self._is_resting(contract, now):
                del self.pending[contract]
        scene = self.scene(now, times, lags_s)
        decision = next_pushes(self.paths, scene)
        for due in decision.due:
            if not self._is_resting(due.contract, now):
                self.pending[due.contract] = due
                self.learning.begin(due.contract, now, path_s(self.paths, scene, due.contract, due.target))
        return decision

    def round(self, now: int, times: Mapping[str, int], lags_s: Mapping[str, float]) -> list[Pushed]:
        """Runs the next round of what is pending; empty if there is nothing to do.

        What is small is pushed from the sources to the views in one job; larger work level by level, so that nobody
        who is in a hurry waits for all of it.
        """
        started = time.perf_counter()
        targets, seconds = self._all_lacking(times), self.learning.seconds()
        work_s = sum(seconds(name, (t - times[name]) / 1e6) for name, t in targets.items())
        if work_s <= SMALL_S + JOBS_SAVED * self.learning.overhead_s:
            pushed = self.engine.push_chains(targets) if targets else []
        else:
            moves = next_round(self.paths, self.scene(now, times, lags_s), self.pending.values())
            targets = {move.vertex: move.target for move in moves if not self._rests(move.vertex, now)}
            pushed = self.engine.push_round(targets) if targets else []
        for one in pushed:
            self._note(one, now)
        self.learning.learn(pushed, times, time.perf_counter() - started, self.slots)
        return pushed

    def _all_lacking(self, times: Mapping[str, int]) -> dict[str, int]:
        """Everything that pending pushes need, and how far; what several need goes as far as any does.

        What is forced waits while others are pending.
        """
        found: dict[str, int] = {}
        first = [due for due in self.pending.values() if not due.forced]
        for due in first or self.pending.values():
            for name in self.paths.upstream[due.contract]:
                if times[name] < due.target:
                    found[name] = max(due.target, found.get(name, due.target))
        return found

    def _note(self, pushed: Pushed, now: int) -> None:
        if pushed.error is not None:
            failures = self.trouble[pushed.vertex].failures + 1 if pushed.vertex in self.trouble else 1
            rest = REST_S[min(failures, len(REST_S)) - 1]
            self.trouble[pushed.vertex] = Trouble(failures, pushed.error, now + round(rest * 1e6))
        else:
            self.trouble.pop(pushed.vertex, None)

    def _rests(self, vertex: str, now: int) -> bool:
        return vertex in self.trouble and self.trouble[vertex].until > now

    def _is_resting(self, contract: str, now: int) -> bool:
        """Whether something that a contract needs is left alone for now: it must not hold up the others."""
        return any(self._rests(vertex, now) for vertex in self.paths.upstream[contract])

    def troubles_of(self, contract: str) -> list[tuple[str, Trouble]]:
        return [(vertex, self.trouble[vertex]) for vertex in self.paths.upstream[contract] if vertex in self.trouble]
