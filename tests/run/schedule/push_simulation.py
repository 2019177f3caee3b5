"""A simulated service: contracts with linear times compete for slots, and the decisions under test choose what runs."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field, replace
from itertools import pairwise

from headrace.run.schedule.next_push import SECOND, Due, Paths, Promised, Scene, longest_item_s, next_pushes
from headrace.run.schedule.next_round import RoundPush, next_round

SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds of a push of x seconds of changes: fixed + slope * x."""

    fixed: float
    slope: float

    def at(self, batch_s: float) -> float:
        return self.fixed + self.slope * batch_s


@dataclass(frozen=True, slots=True)
class Finished:
    """A push that is done: ages of the view just before and after it, and the changes that it carried, in seconds."""

    contract: str
    at: int
    peak_s: float
    trough_s: float
    batch_s: float


@dataclass
class Simulation:
    """Pushes go by deadline, or else as they became due and without regard to each other."""

    contracts: dict[str, tuple[float, Line]]
    slots: int
    by_deadline: bool = True
    noise: random.Random | None = None
    starts: dict[str, float] = field(default_factory=dict)
    finished: list[Finished] = field(default_factory=list)

    def __post_init__(self) -> None:
        promised = tuple(Promised(name, name, s) for name, (s, _) in self.contracts.items())
        inputs: dict[str, tuple[str, ...]] = {SOURCE: (), **dict.fromkeys(self.contracts, (SOURCE,))}
        self.paths = Paths(inputs, promised)
        self.now = 0
        self.times = {name: round(self.starts.get(name, 0.0) * SECOND) for name in self.contracts}
        self.running: list[tuple[int, str, int]] = []
        self.asked: dict[str, int] = {}

    def seconds(self, vertex: str, batch_s: float) -> float:
        return 0.0 if vertex == SOURCE else self.contracts[vertex][1].at(batch_s)

    def scene(self) -> Scene:
        return Scene(
            now=self.now,
            times={**self.times, SOURCE: self.now},
            watermarks={SOURCE: self.now},
            seconds=self.seconds,
            slots=self.slots if self.by_deadline else len(self.contracts),
            in_flight=frozenset(name for _, name, _ in self.running),
        )

    def run(self, seconds: float) -> list[Finished]:
        while self.now < seconds * SECOND:
            decision = next_pushes(self.paths, self.scene())
            for due in self._order(decision.due)[: self.slots - len(self.running)]:
                self._start(due)
            ends = [self.running[0][0]] if self.running else []
            self.now = min([decision.next_wake, *ends])
            self._finish()
        return self.finished

    def _order(self, due: tuple[Due, ...]) -> list[Due]:
        if self.by_deadline:
            return list(due)
        for entry in due:
            self.asked.setdefault(entry.contract, self.now)
        return sorted(due, key=lambda entry: (self.asked[entry.contract], entry.contract))

    def _start(self, due: Due) -> None:
        factor = self.noise.uniform(0.8, 1.2) if self.noise else 1.0
        took = self.seconds(due.vertex, (due.target - self.times[due.vertex]) / SECOND) * factor
        heapq.heappush(self.running, (self.now + round(took * SECOND), due.contract, due.target))
        self.asked.pop(due.contract, None)

    def _finish(self) -> None:
        while self.running and self.running[0][0] <= self.now:
            _, name, target = heapq.heappop(self.running)
            before = self.times[name]
            ages = (self.now - before) / SECOND, (self.now - target) / SECOND
            self.finished.append(Finished(name, self.now, *ages, (target - before) / SECOND))
            self.times[name] = target

    def violations(self) -> int:
        """Pushes that ended after the promise was broken: each ends one episode."""
        return sum(done.peak_s > self.contracts[done.contract][0] for done in self.finished)


ROUND_S = 0.05
"""What starting and committing a round takes."""


@dataclass
class RoundSimulation(Simulation):
    """One round at a time, committed as a whole, as an engine runs that is not asked to do two things at once.

    Each push is a chain of vertices, `steps` long; predictions know what a round costs, and that times vary.
    """

    steps: int = 1
    begun: dict[str, Due] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Simulation.__post_init__(self)
        inputs: dict[str, tuple[str, ...]] = {SOURCE: ()}
        for name in self.contracts:
            chain = [SOURCE, *(f"{name}.{step}" for step in range(1, self.steps)), name]
            inputs |= {output: (input_,) for input_, output in pairwise(chain)}
        self.paths = Paths(inputs, self.paths.contracts)
        self.times = {vertex: self.times[vertex.split(".")[0]] for vertex in inputs if vertex != SOURCE}
        self.blocking_s = longest_item_s(self.paths, self.seconds)

    def seconds(self, vertex: str, batch_s: float) -> float:
        return 0.0 if vertex == SOURCE else self.contracts[vertex.split(".")[0]][1].at(batch_s) / self.steps + ROUND_S

    def scene(self) -> Scene:
        margins = dict.fromkeys(self.contracts, 0.2)
        in_flight = frozenset(self.begun)
        return replace(Simulation.scene(self), in_flight=in_flight, margins=margins, blocking_s=self.blocking_s)

    def run(self, seconds: float) -> list[Finished]:
        while self.now < seconds * SECOND:
            scene = self.scene()
            decision = next_pushes(self.paths, scene)
            due = {entry.contract: entry for entry in (*self.begun.values(), *decision.due)}
            if due:
                self._round(next_round(self.paths, scene, due.values()), due)
            else:
                self.now = decision.next_wake
        return self.finished

    def _round(self, moves: tuple[RoundPush, ...], due: dict[str, Due]) -> None:
        ends = [0.0] * self.slots
        for move in moves:
            self.begun[move.contract] = due[move.contract]
            factor = self.noise.uniform(0.8, 1.2) if self.noise else 1.0
            took = self.seconds(move.vertex, (move.target - self.times[move.vertex]) / SECOND) - ROUND_S
            ends[ends.index(min(ends))] += took * factor
        self.now += round((max(ends) + ROUND_S) * SECOND)
        for move in moves:
            if move.vertex in self.contracts:
                self.running.append((self.now, move.vertex, move.target))
                self.begun.pop(move.vertex)
            else:
                self.times[move.vertex] = move.target
        self._finish()


def mixed_contracts(load: float, slots: int, seed: int) -> dict[str, tuple[float, Line]]:
    """25 contracts of 10, 40 and 60 s that use a share of the slots at the planned batch, half of the freshness."""
    chosen = random.Random(seed)
    kept = [10.0] * 7 + [40.0] * 8 + [60.0] * 10
    shares = [chosen.uniform(0.5, 1.5) for _ in kept]
    found = {}
    for number, (freshness_s, share) in enumerate(zip(kept, shares, strict=True)):
        used = share / sum(shares) * load * slots
        fixed = used * freshness_s / 2 * chosen.uniform(0.1, 0.3)
        found[f"c{number:02}"] = freshness_s, Line(fixed, used - fixed / (freshness_s / 2))
    return found


def are_admissible(contracts: dict[str, tuple[float, Line]]) -> bool:
    """CP(s/2) and the longest push of all within s/2."""
    longest = max(line.at(s / 2) for s, line in contracts.values())
    return all(line.at(s / 2) + longest <= s / 2 for s, line in contracts.values())
