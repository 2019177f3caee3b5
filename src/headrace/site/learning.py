"""Learns from the running plan how long pushes take, how much data flows, and how good the predictions were."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field, replace

from headrace.model.catalogue import OperatorTime
from headrace.model.plan import Operator, Plan
from headrace.observe.predict import operation_of, planned_time, predictor
from headrace.observe.rates import Statistics, VertexFlow, add_push, start_flow, statistics
from headrace.observe.times import (
    RECOMPUTE,
    Accuracy,
    Fit,
    Operation,
    OperatorTimes,
    Sample,
    add_sample,
    compare_times,
    forget,
    measure_operators,
    observe_push,
    seconds_of,
)
from headrace.run.compile.timers import find_whole
from headrace.run.push.push import Pushed

VERSION = 3
AS_PLANNED = OperatorTime(fixed=0.05, per_in=0.0, per_out=1.0)
"""Of jobs, before there were any: what one takes, what each push in it adds, and what each second of pushes becomes."""

UNEQUAL, QUICK = 0.1, 0.1
"""Jobs of which the longest slot has almost all say nothing about the others; what the last of the rest weighs."""
SHORTEST_S = 0.05
"""Jobs that are shorter count like this one."""
FORGET_JOBS = 0.93
"""What a job still weighs when the next one comes: there are few, and they become quicker while a machine warms up."""
SURPRISING = 0.2
"""A job that takes much more or less than predicted counts with at most this difference, as a logarithm."""


@dataclass(slots=True)
class Learning:
    """`jobs` is learnt of jobs: their seconds from how many pushes follow each other in them, and the sum of these
    pushes' seconds. `parallel` is the share of their work that slots do side by side; with the rest they wait
    for each other, as two cores of one processor do. `begun` has the start of a contract's push and the seconds
    predicted for it.
    """

    plan: Plan
    times: OperatorTimes = field(default_factory=OperatorTimes)
    flows: dict[str, VertexFlow] = field(default_factory=dict)
    accuracy: dict[str, Accuracy] = field(default_factory=dict)
    jobs: Fit = field(default_factory=Fit)
    parallel: float = 1.0
    begun: dict[str, tuple[int, float]] = field(default_factory=dict)
    last: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of the last push of each contract, predicted and measured seconds."""
    pushed_s: float = 0.0
    """Seconds of all pushes since the service started."""

    # Predicting

    def alone(self) -> Callable[[str, float], float]:
        """Seconds of a push by itself, from the vertex and the seconds of changes that it lacks."""
        predict = predictor(self.plan.catalogue, self.plan.graph, self.times, self.flows)
        if self.plan.site is None:
            return predict
        return lambda vertex, batch_s: predict(find_whole(vertex), batch_s)  # of other sites' vertices, parts are here

    def work(self) -> Callable[[str, float], float]:
        """Seconds that a push adds to a job."""
        predict, job = self.alone(), self.job
        return lambda vertex, batch_s: job.per_in + job.per_out * predict(vertex, batch_s)

    def seconds(self) -> Callable[[str, float], float]:
        """Seconds of a push, where that of a view is one more job."""
        work, views = self.work(), frozenset(one.vertex for one in self.plan.contracts)
        overhead_s = self.overhead_s
        return lambda vertex, batch_s: work(vertex, batch_s) + (overhead_s if vertex in views else 0.0)

    @property
    def job(self) -> OperatorTime:
        return self.jobs.time_or(AS_PLANNED)

    @property
    def overhead_s(self) -> float:
        """What a job takes beyond its pushes."""
        return self.job.fixed

    def operator_times(self) -> dict[str, OperatorTime]:
        """What operators were seen to take, in work."""
        catalogue = self.plan.catalogue
        found = measure_operators(self.times, {name: site.speed for name, site in catalogue.sites.items()})
        return {op: time for op, time in found.items() if op in catalogue.operator_times}

    def recomputing(self) -> dict[str, OperatorTime]:
        """What views in full take at each site where one was pushed, now or earlier."""
        catalogue, found = self.plan.catalogue, dict[str, OperatorTime]()
        for operation, fit in self.times.fits.items():
            if operation.op == RECOMPUTE and fit.samples and operation.site in catalogue.sites:
                speed, like = catalogue.sites[operation.site].speed, catalogue.operator_times[Operator.DERIVE]
                found[operation.site] = fit.time_or(
                    OperatorTime(like.fixed / speed, like.per_in / speed, like.per_out / speed)
                )
        return found

    def error_of(self, contract: str) -> float | None:
        """The share of their time by which nine of ten pushes were predicted wrong at most; None before the first."""
        return self.accuracy[contract].error_90 if contract in self.accuracy else None

    @property
    def margins(self) -> dict[str, float]:
        return {contract: one.margin for contract, one in self.accuracy.items()}

    def learn(self, round_: list[Pushed], before: Mapping[str, int]) -> None:
        """Learns from a round; `before` are the times of its vertices when it began."""
        worked = [one for one in round_ if one.vertex in self.plan.graph.vertices and one.error is None]
        self.pushed_s += sum(one.seconds for one in worked)
        for one in worked:
            if one.skipped:
                continue
            flow = self.flows.get(one.vertex) or start_flow(before.get(one.vertex, one.t))
            self.flows[one.vertex] = add_push(flow, one.rows_in, one.rows_out, one.sent, one.t)
            if one.seconds:
                graph = self.plan.graph
                planned = planned_time(self.plan.catalogue, graph, one.vertex)
                sample = Sample(one.rows_in, one.rows_out, one.seconds)
                self.times = observe_push(self.times, operation_of(graph, one.vertex), one.vertex, sample, planned)

    def learn_job(self, pushes: float, work_s: float, took_s: float) -> None:
        """Learns from a job in which so many pushes, which took so many seconds by themselves, followed each other.

        What counts is by which factor a job is off: on a machine that others use too the same job takes half as long
        again at times, and such jobs say little about the next. Which jobs are short is as expected: of equal jobs,
        those that happened to be quick would count more.
        """
        expected_s = max(seconds_of(self.job, pushes, work_s), SHORTEST_S)
        surprise = abs(math.log(max(took_s, SHORTEST_S) / expected_s))
        weight = SURPRISING / max(surprise, SURPRISING) / expected_s**2
        self.jobs = add_sample(self.jobs, Sample(pushes, work_s, took_s, weight), AS_PLANNED, FORGET_JOBS)

    def learn_sides(self, longest_s: float, total_s: float, took_s: float) -> None:
        """Learns from how long a job's pushes took, those of its longest slot and all."""
        if total_s - longest_s > UNEQUAL * total_s:
            seen = (total_s - (took_s - self.overhead_s)) / (total_s - longest_s)
            self.parallel += QUICK * (min(1.0, max(0.0, seen)) - self.parallel)

    def begin(self, contract: str, now: int, predicted_s: float) -> None:
        """The push of a contract starts to run; nothing new if it had."""
        self.begun.setdefault(contract, (now, predicted_s))

    def end(self, contract: str, now: int) -> None:
        """A push of a contract is done; what it took is compared with what was predicted."""
        if contract in self.begun:
            at, predicted_s = self.begun.pop(contract)
            self.last[contract] = predicted_s, (now - at) / 1e6
            self.accuracy[contract] = compare_times(self.accuracy.get(contract, Accuracy()), *self.last[contract])

    def leave_out(self, contract: str) -> None:
        """A push of a contract is done that had nothing to do: it says nothing about those that have."""
        self.begun.pop(contract, None)

    # Going on

    def copy(self) -> Learning:
        """A copy for readers that look while pushes go on.

        Whatever is not copied here is never changed, only replaced.
        """
        flows, accuracy = self.flows.copy(), self.accuracy.copy()
        return replace(self, flows=flows, accuracy=accuracy, begun=self.begun.copy(), last=self.last.copy())

    def moved_to(self, plan: Plan) -> Learning:
        """What is still true of another plan."""
        kept, contracts = plan.graph.vertices, {one.contract for one in plan.contracts}
        is_same = plan.catalogue.operator_times == self.plan.catalogue.operator_times
        gone = frozenset(name for name in self.times.corrections if name not in kept)
        return Learning(
            plan,
            forget(self.times if is_same else replace(self.times, slowness={}), gone),
            {name: flow for name, flow in self.flows.items() if name in kept},
            {name: one for name, one in self.accuracy.items() if name in contracts},
            self.jobs,
            self.parallel,
            pushed_s=self.pushed_s,
        )

    def to_json(self) -> str:
        """What a later run of the service goes on with."""
        fits = [[*astuple(operation), fit.to_json()] for operation, fit in self.times.fits.items()]
        flows = {name: flow.to_json() for name, flow in dict(self.flows).items()}  # pushes go on meanwhile
        return json.dumps(
            {
                "version": VERSION,
                "fits": fits,
                "corrections": dict(self.times.corrections),
                "slowness": dict(self.times.slowness),
                "flows": flows,
                "jobs": self.jobs.to_json(),
                "parallel": self.parallel,
            }
        )

    @staticmethod
    def from_json(plan: Plan, text: str) -> Learning:
        """Reads what was learnt, as far as it is true of the plan.

        Raises KeyError, TypeError or ValueError for a text of another kind.
        """
        found = json.loads(text)
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']}")
        fits = {Operation(op, site, origin): Fit.from_json(fit) for op, site, origin, fit in found["fits"]}
        flows = {name: VertexFlow.from_json(flow) for name, flow in found["flows"].items()}
        times = OperatorTimes(fits, found["corrections"], found["slowness"])
        jobs, parallel = Fit.from_json(found["jobs"]), float(found["parallel"])
        return Learning(plan, times, flows, jobs=jobs, parallel=parallel).moved_to(plan)

    def statistics(self) -> Statistics:
        """Statistics to plan again with; of a copy, since pushes go on meanwhile."""
        return statistics(self.plan.graph, dict(self.flows), self.plan.catalogue.links)
