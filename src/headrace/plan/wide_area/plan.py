"""Contracts planned one by one as Sana does: operators are placed by a mode, and what comes out must keep the promise.

A mode decides where operators run and which running ones are read. Everything else (relations beside deltas, copies,
applies) follows as in every plan, and so does the judgement: a placement that is late or exceeds a capacity is refused,
whatever the mode thinks of it. One dataset at one site is one vertex, so modes that share operators only share copies
of their inputs as well.

Contracts that run already stay where they are. A mode finds them where the graph has them, and places only newcomers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.model import amounts
from headrace.model.block import Block
from headrace.model.catalogue import Contract, Refusal
from headrace.model.plan import Rejection
from headrace.model.plan_modes import Method, Prefer, WideArea
from headrace.plan.admit import Answer, Question, keeps, measure_choice, terrain_of
from headrace.plan.live import Live
from headrace.plan.price import time_of_edge
from headrace.plan.refuse import refuse_unsupported
from headrace.plan.search.joins import Rules
from headrace.plan.search.views import choose, find_plans
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.order import Cores
from headrace.plan.share.revalue import cores_of_kept
from headrace.plan.share.ways import is_better, take_way, ways_of
from headrace.plan.statistics import CoreStatistics
from headrace.plan.wide_area.contracts import StreamedContract, make_streamed, network_of
from headrace.plan.wide_area.greedy import MODES, SharingMode, place_greedily
from headrace.plan.wide_area.read_back import read_back
from headrace.plan.wide_area.running import running_of
from headrace.plan.wide_area.streams import SiteNetwork, Workload

Views = Mapping[str, tuple[Block, ...] | Refusal]


@dataclass(frozen=True)
class Schedule:
    """Contracts admitted so far: the plan, and where their operators run."""

    now: Arrangement
    network: SiteNetwork
    mode: WideArea
    prefer: Prefer
    queries: tuple[StreamedContract, ...] = ()
    deployment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def with_contract(self, contract: Contract, cores: Cores) -> Schedule:
        """The schedule with one more contract, kept or refused, in the better of its ways."""
        found: Schedule | None = None
        for view in ways_of(contract, cores):
            there = replace(self, now=replace(self.now, catalogue=take_way(self.now.catalogue, contract.name, view)))
            then = there._with_view(replace(contract, view=view), cores[view])
            found = then if found is None or is_better(then.now, found.now, contract.name) else found
        assert found is not None, f'contract "{contract.name}" is refused as unsupported'
        return found

    def _with_view(self, contract: Contract, cores: tuple[CoreStatistics, ...]) -> Schedule:
        question = self.now.question(contract, cores)
        asked, mode = make_streamed(question), MODES[self.mode]
        sites = self._sites(asked, mode)
        question = replace(question, places=asked.places(sites))
        answer = _plan(question)
        # One that is forced is placed all the same: who is too slow for it is its mode, and no freshness would help.
        if answer is None or not (contract.forced or keeps(question, answer)):
            return replace(self, now=self.now.refusing(_refusal(question, answer, self.mode)))
        return replace(
            self,
            now=self.now.keeping(question, answer),
            queries=(*self.queries, asked),
            deployment={**self.deployment, contract.name: sites},
        )

    def _sites(self, asked: StreamedContract, mode: SharingMode) -> dict[str, str]:
        queries = (*self.queries, asked)
        streams = {name: stream for one in queries for name, stream in one.streams.items()}
        workload = Workload(streams, tuple(one.query for one in queries))
        running = running_of(workload, self.network, self.deployment, mode.sharing)
        return place_greedily(workload, self.network, asked.query, mode, running, self.prefer)


def schedule(now: Arrangement, mode: WideArea) -> Schedule:
    """The schedule of all contracts that are kept already, as they are."""
    found = Schedule(now, network_of(now.catalogue), mode, now.options.prefer)
    cores = cores_of_kept(now, now.catalogue)
    for kept in now.kept:
        running = read_back(now, kept, cores[kept.contract.view])
        if running is not None:
            asked, sites = running
            deployment = {**found.deployment, kept.contract.name: sites}
            found = replace(found, queries=(*found.queries, asked), deployment=deployment)
    return found


def add_contracts(
    now: Arrangement, wanted: Iterable[Contract], views: Views, cores: Cores, mode: WideArea
) -> Arrangement:
    """The arrangement with more contracts, each placed by a mode on top of what is there."""
    found = schedule(now, mode)
    for contract in wanted:
        refusal = views[contract.view]
        if isinstance(refusal, Refusal) and not ways_of(contract, cores):
            found = replace(found, now=found.now.refusing(refuse_unsupported(contract.name, refusal)))
        else:
            found = found.with_contract(contract, cores)
    return found.now


def _plan(question: Question) -> Answer | None:
    """The plan with operators where they are placed, however late it is; on top of what lives, if that is shared."""
    rules = Rules(Method.CHEAPEST, math.inf, 1.0, None, math.inf)
    choice = choose(find_plans(replace(question.wish, penalty=0.0), terrain_of(question), rules))
    return None if choice is None else measure_choice(question, choice)


def _refusal(question: Question, answer: Answer | None, mode: WideArea) -> Rejection:
    name, who = question.contract.name, f'as "{mode}" places it'
    if answer is None:
        return Rejection(name, "no_route", f"{who}, there is no link between two operators", None, None)
    took, limit = amounts.format_seconds(answer.path_s), amounts.format_seconds(question.limit_s)
    if answer.overloaded:
        scarce = answer.overloaded[0].name
        return Rejection(name, scarce, f"{who}, it needs more of {scarce} than is left", answer.path_s, None)
    if answer.peak >= 1.0:
        live = Live(question.live.tariff, answer.graph)
        edges = [answer.graph.edges[one] for one in answer.edges]
        busiest = max(edges, key=lambda edge: time_of_edge(live.graph, edge, live.tariff, question.batch_s)).output
        return Rejection(name, f"operator:{busiest}", f"{who}, an operator cannot keep up", answer.path_s, None)
    return Rejection(name, "freshness", f"{who}, a push takes {took} and may take {limit}", answer.path_s, None)
