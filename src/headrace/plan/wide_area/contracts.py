"""Contracts of a project as streaming queries: every sub-join and every operator on top is an operator to place.

Filters sit where their source is, so a query reads filtered streams. Tables are joined one after the other, at each
step the one that makes the slowest result. Where there is no link, nothing passes and everything is late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.model.catalogue import Catalogue
from headrace.plan.admit import Question
from headrace.plan.outputs import block_facts
from headrace.plan.search.joins import OUTPUT
from headrace.plan.search.views import Places
from headrace.plan.statistics import DELTA_EXTRA_WIDTH, CoreStatistics
from headrace.plan.wide_area.search import HEADROOM
from headrace.plan.wide_area.streams import QueryOperator, SiteNetwork, SiteStream, StreamQuery

UNLIMITED = 1e15
NO_LINK = (1e-6, 1e6)
"""Bytes/s and seconds where there is no link."""


def network_of(catalogue: Catalogue) -> SiteNetwork:
    """Sites and links; bandwidths such that the headroom of the scheduler is that of the project."""
    sites = tuple(catalogue.sites)
    known = {(link.src, link.dst): link for link in catalogue.links}
    bandwidth, latency = {}, {}
    for ends in ((a, b) for a in sites for b in sites if a != b):
        link = known.get(ends)
        free = NO_LINK[0] if link is None else UNLIMITED if link.carries is None else link.carries
        bandwidth[ends] = free * (1 - catalogue.headroom.link) / (1 - HEADROOM)
        latency[ends] = NO_LINK[1] if link is None else link.latency_s
    return SiteNetwork(sites, frozenset(sites), bandwidth, latency)


Chains = Mapping[str, tuple[int, ...]]
"""By core, the sub-joins that are made of it; each adds one input to the one before."""


@dataclass(frozen=True, slots=True)
class StreamedContract:
    """A contract as a query over streams, by their ids."""

    query: StreamQuery
    streams: dict[str, SiteStream]
    cores: tuple[CoreStatistics, ...]
    chains: Chains

    def places(self, sites: dict[str, str]) -> Places:
        """Where its sub-joins and outputs are made, as the search of plans takes it."""
        return {
            core.name: {
                part: sites[operator_id(core, part)]
                for part in (*self.chains[core.name], OUTPUT)
                if operator_id(core, part) in sites
            }
            for core in self.cores
        }


def make_streamed(question: Question, chains: Chains | None = None) -> StreamedContract:
    """A contract as a query. If it runs, `chains` are what was found; those of a new one follow from rates."""
    chains = chains or {core.name: list_sub_joins(core) for core in question.cores}
    streams, operators = dict[str, SiteStream](), list[QueryOperator]()
    outputs: dict[str, str] = {}
    for core in question.cores:
        inputs = {bit: _read_input(core, bit, question.batch_s, streams, outputs) for bit in core.bits(core.everything)}
        made = list(_operators(core, chains[core.name], inputs, question.batch_s))
        operators += made
        outputs[core.name] = made[-1].id if made else inputs[core.everything]
    last, contract = question.cores[-1], question.contract
    sink = QueryOperator(
        sink_id(contract.name),
        f"{last.block.fingerprint} sink",
        (outputs[last.name],),
        0.0,
        0.0,
        pinned=contract.site,
    )
    return StreamedContract(StreamQuery(contract.name, (*operators, sink)), streams, question.cores, chains)


def _read_input(
    core: CoreStatistics, bit: int, batch_s: float, streams: dict[str, SiteStream], outputs: dict[str, str]
) -> str:
    """The id of what an input is read from: a stream of its own, or the output of an earlier block."""
    input_ = core.input_of(bit)
    if input_.facts.home is None:
        return outputs[input_.facts.name]
    name = core.fingerprint(bit)
    streams[name] = SiteStream(name, input_.facts.home, input_.rate.at(batch_s), core.width(bit) + DELTA_EXTRA_WIDTH)
    return name


def _operators(
    core: CoreStatistics, chain: tuple[int, ...], inputs: dict[int, str], batch_s: float
) -> Iterator[QueryOperator]:
    """The joins of a core in order, then its operator on top."""
    read = dict(inputs)
    for subset in chain:
        left = max((part for part in read if part & subset == part), key=int.bit_count)
        right = subset & ~left
        read[subset] = operator_id(core, subset)
        rate, width = core.rate(subset, subset).at(batch_s), core.width(subset) + DELTA_EXTRA_WIDTH
        yield QueryOperator(read[subset], core.fingerprint(subset), (read[left], read[right]), rate, width)
    if core.block.top is not None:
        facts = block_facts(core)
        below = (read[core.everything],) if core.is_joined else tuple(inputs.values())
        width = sum(facts.widths.values()) + DELTA_EXTRA_WIDTH
        yield QueryOperator(operator_id(core, OUTPUT), core.block.fingerprint, below, facts.rate.at(batch_s), width)


def sink_id(contract: str) -> str:
    return f"{contract} sink"


def operator_id(core: CoreStatistics, part: int) -> str:
    return f"{core.name}:{part}"


def list_sub_joins(core: CoreStatistics) -> tuple[int, ...]:
    """Sub-joins that each add one input to the one before; the slowest that can be made."""
    if not core.is_joined or core.everything.bit_count() < 2:
        return ()
    found: list[int] = []
    for size in range(2, core.everything.bit_count() + 1):
        options = [s for s in core.sub_joins if s.bit_count() == size and (not found or s & found[-1] == found[-1])]
        found.append(min(options, key=lambda subset: (core.rate(subset, subset).at(1.0), subset)))
    return tuple(found)
