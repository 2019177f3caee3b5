"""What a running plan teaches: how long pushes take, how much flows, and how well that was predicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.model.plan import Plan
from headrace.observe.predict import operation_of, planned_time, predictor
from headrace.observe.rates import Flow, Statistics, pushed, started, statistics
from headrace.observe.times import Accuracy, Sample, Times, compared, observed
from headrace.run.push import Pushed

SMOOTHING = 0.2
AT_MOST = 4.0
"""Predictions are believed up to so many times what the vertex lately took for as much: fits to small pushes on a busy
machine say anything about larger ones."""
FADES = 0.8
"""What the longest push of a vertex still counts after each further one."""


@dataclass(slots=True)
class Learning:
    """`overhead_s` is what a job takes beyond the work of its items; it counts once for each view that is pushed."""

    plan: Plan
    times: Times = field(default_factory=Times)
    flows: dict[str, Flow] = field(default_factory=dict)
    accuracy: dict[str, Accuracy] = field(default_factory=dict)
    overhead_s: float = 0.3
    begun: dict[str, tuple[int, float]] = field(default_factory=dict)
    longest: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By vertex, seconds of the longest push of late, and the seconds of changes that it brought."""

    def work(self) -> Callable[[str, float], float]:
        """Seconds of a push inside a job, from the vertex and the seconds of changes that it lacks."""
        predict = predictor(self.plan.catalogue, self.plan.graph, self.times, self.flows)

        def bounded(vertex: str, batch_s: float) -> float:
            predicted_s = predict(vertex, batch_s)
            if vertex not in self.longest:
                return predicted_s
            took_s, brought_s = self.longest[vertex]
            return min(predicted_s, AT_MOST * took_s * max(1.0, batch_s / max(brought_s, 1e-3)))

        return bounded

    def seconds(self) -> Callable[[str, float], float]:
        """Seconds of a push, with its share of the job."""
        predict, views = self.work(), frozenset(one.vertex for one in self.plan.contracts)
        overhead_s = self.overhead_s
        return lambda vertex, batch_s: predict(vertex, batch_s) + (overhead_s if vertex in views else 0.0)

    @property
    def margins(self) -> dict[str, float]:
        return {contract: one.margin for contract, one in self.accuracy.items()}

    def learn(self, round_: list[Pushed], before: Mapping[str, int]) -> None:
        """From a round; `before` are the times of its vertices when it began."""
        worked = [one for one in round_ if one.vertex in self.plan.graph.vertices and one.error is None]
        for one in worked:
            if one.skipped:
                continue
            flow = self.flows.get(one.vertex) or started(before.get(one.vertex, one.t))
            self.flows[one.vertex] = pushed(flow, one.rows_in, one.rows_out, one.bytes, one.t)
            if one.seconds:
                self._note_longest(one, (one.t - before.get(one.vertex, one.t)) / 1e6)
                graph = self.plan.graph
                planned = planned_time(self.plan.catalogue, graph, one.vertex)
                sample = Sample(one.rows_in, one.rows_out, one.seconds)
                self.times = observed(self.times, operation_of(graph, one.vertex), one.vertex, sample, planned)

    def _note_longest(self, one: Pushed, brought_s: float) -> None:
        took_s, brought_before_s = self.longest.get(one.vertex, (0.0, 0.0))
        if one.seconds >= FADES * took_s:
            self.longest[one.vertex] = one.seconds, brought_s
        else:
            self.longest[one.vertex] = FADES * took_s, brought_before_s

    def learn_overhead(self, extra_s: float) -> None:
        """From a job that took so long beyond its work."""
        self.overhead_s += SMOOTHING * (max(0.0, extra_s) - self.overhead_s)

    def begin(self, contract: str, now: int, predicted_s: float) -> None:
        self.begun.setdefault(contract, (now, predicted_s))

    def end(self, contract: str, now: int) -> None:
        """A push of a contract is done; what it took is compared with what was predicted."""
        if contract in self.begun:
            at, predicted_s = self.begun.pop(contract)
            known = self.accuracy.get(contract, Accuracy())
            self.accuracy[contract] = compared(known, predicted_s, (now - at) / 1e6)

    def statistics(self) -> Statistics:
        """To plan again with."""
        return statistics(self.plan.graph, self.flows, self.plan.catalogue.links)
