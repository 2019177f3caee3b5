"""Pushes what is due, round after round: decides, acts, and learns how long things take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.log import NEVER
from headrace.model.plan import Plan
from headrace.plan.price import Tariff, tariff_of, time_of_edge
from headrace.run.execute import Engine, Pushed
from headrace.run.next_push import Decision, Due, Paths, Scene, next_pushes, paths_of
from headrace.run.next_round import next_round
from headrace.run.steps import Ingest

SMOOTHING = 0.2
SMALL_S = 2.0
"""Work of so many seconds goes in one job, whatever its levels."""
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
    factors: dict[str, float] = field(default_factory=dict)
    overhead_s: float = 0.3
    _paths: Paths | None = None
    _tariff: Tariff | None = None

    @property
    def _views(self) -> frozenset[str]:
        return frozenset(one.vertex for one in self.plan.contracts)

    @property
    def paths(self) -> Paths:
        if self._paths is None:
            self._paths = paths_of(self.plan.graph, self.plan.contracts, self.forced)
        return self._paths

    # Time

    def predicted_s(self, vertex: str, lacks_s: float) -> float:
        """Seconds of a push, as planned and corrected by what pushes of this vertex took."""
        if self._tariff is None:
            self._tariff = tariff_of(self.plan.catalogue)
        edge = self.plan.graph.edges.get(vertex)
        planned = 0.05 if edge is None else time_of_edge(self.plan.graph, edge, self._tariff, lacks_s)
        overhead = self.overhead_s if vertex in self._views else 0.0
        return planned * self.factors.get(vertex, 1.0) + overhead

    def _learn(self, vertex: str, lacks_s: float, seconds: float) -> None:
        overhead = self.overhead_s if vertex in self._views else 0.0
        predicted = (self.predicted_s(vertex, lacks_s) - overhead) / self.factors.get(vertex, 1.0)
        ratio = min(20.0, max(0.05, seconds / max(predicted, 1e-6)))
        before = self.factors.get(vertex, ratio)
        self.factors[vertex] = (1 - SMOOTHING) * before + SMOOTHING * ratio

    # Rounds

    def scene(self, now: int, times: Mapping[str, int], lags_s: Mapping[str, float]) -> Scene:
        watermarks = {
            name: times.get(task.step.spool, NEVER)
            for name, task in self.engine.program.tasks.items()
            if isinstance(task.step, Ingest)
        }
        return Scene(now, times, watermarks, self.predicted_s, self.slots, frozenset(self.pending), lags_s)

    def decide(self, now: int, times: Mapping[str, int], lags_s: Mapping[str, float]) -> Decision:
        """What has to start now; what has started stays in `pending` until it is there."""
        self.pending = {
            contract: due
            for contract, due in self.pending.items()
            if due.vertex in times and times[due.vertex] < due.target and not self._is_resting(contract, now)
        }
        decision = next_pushes(self.paths, self.scene(now, times, lags_s))
        self.pending |= {due.contract: due for due in decision.due if not self._is_resting(due.contract, now)}
        return decision

    def round(self, now: int, times: Mapping[str, int], lags_s: Mapping[str, float]) -> list[Pushed]:
        """Runs the next round of what is pending; empty if there is nothing to do.

        What is small is pushed from the sources to the views in one job; larger work level by level, so that nobody
        who is in a hurry waits for all of it.
        """
        started = time.perf_counter()
        targets = self._all_lacking(times)
        if sum(self.predicted_s(name, (t - times[name]) / 1e6) for name, t in targets.items()) <= SMALL_S:
            pushed = self.engine.push_chains(targets) if targets else []
        else:
            moves = next_round(self.paths, self.scene(now, times, lags_s), self.pending.values())
            targets = {move.vertex: move.target for move in moves if not self._rests(move.vertex, now)}
            pushed = self.engine.push_round(targets) if targets else []
        for one in pushed:
            if one.vertex not in targets:
                continue  # a part of a vertex: what it takes is in the vertex's time
            self._note(one, now, (targets[one.vertex] - times.get(one.vertex, now)) / 1e6)
        self._learn_overhead(time.perf_counter() - started, pushed)
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

    def _learn_overhead(self, wall_s: float, pushed: list[Pushed]) -> None:
        """What a job takes beyond its longest item, or its chain."""
        if any(one.seconds for one in pushed):
            extra = max(0.0, wall_s - sum(one.seconds for one in pushed) / self.slots)
            self.overhead_s += SMOOTHING * (extra - self.overhead_s)

    def _note(self, pushed: Pushed, now: int, lacked_s: float) -> None:
        if pushed.error is not None:
            failures = self.trouble[pushed.vertex].failures + 1 if pushed.vertex in self.trouble else 1
            rest = REST_S[min(failures, len(REST_S)) - 1]
            self.trouble[pushed.vertex] = Trouble(failures, pushed.error, now + round(rest * 1e6))
        else:
            self.trouble.pop(pushed.vertex, None)
            if pushed.seconds:
                self._learn(pushed.vertex, max(lacked_s, 1e-3), pushed.seconds)

    def _rests(self, vertex: str, now: int) -> bool:
        return vertex in self.trouble and self.trouble[vertex].until > now

    def _is_resting(self, contract: str, now: int) -> bool:
        """Whether something that a contract needs is left alone for now: it must not hold up the others."""
        return any(self._rests(vertex, now) for vertex in self.paths.upstream[contract])

    def troubles_of(self, contract: str) -> list[tuple[str, Trouble]]:
        return [(vertex, self.trouble[vertex]) for vertex in self.paths.upstream[contract] if vertex in self.trouble]
