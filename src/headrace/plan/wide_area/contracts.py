"""Contracts of a project as streaming queries: every sub-join and every operator on top is an operator to place.

Filters sit where their source is, so a query reads filtered streams. Tables are joined one after the other, at each
step the one that makes the slowest result. Where there is no link, nothing passes and everything is late.

A union that has one reader is made where that reader is, as it would be by an engine that has no operator for it. If it
were placed by itself, all its rows would count as sent to the sink until its reader is placed: there would hardly be a
link that has room for them, and nobody would join those whose inputs are there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from headrace.model.block import Derivation, DerivationKind
from headrace.model.catalogue import Catalogue
from headrace.plan.admit import Question
from headrace.plan.outputs import block_facts
from headrace.plan.search.joins import OUTPUT
from headrace.plan.search.views import Places
from headrace.plan.statistics import DELTA_EXTRA_WIDTH, CoreStatistics
from headrace.plan.wide_area.search import HEADROOM
from headrace.plan.wide_area.streams import NO_LINK, QueryOperator, SiteNetwork, SiteStream, StreamQuery

UNLIMITED = 1e15


def network_of(catalogue: Catalogue) -> SiteNetwork:
    """Sites and links; bandwidths such that the headroom of the scheduler is that of the project."""
    sites = tuple(catalogue.sites)
    known = {(link.src, link.dst): link for link in catalogue.links}
    bandwidth, latency = {}, {}
    for ends in ((a, b) for a in sites for b in sites if a != b):
        link = known.get(ends)
        free = NO_LINK.bandwidth if link is None else UNLIMITED if link.carries is None else link.carries
        bandwidth[ends] = free * (1 - catalogue.headroom.link) / (1 - HEADROOM)
        latency[ends] = NO_LINK.latency_s if link is None else link.latency_s
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
    unions: Mapping[str, str]
    """Unions that are no operators of the query, and their readers."""

    def places(self, sites: Mapping[str, str]) -> Places:
        """Where its sub-joins and outputs are made, as the search of plans takes it."""
        sites = {**sites, **{union: sites[reader] for union, reader in self.unions.items()}}
        return {
            core.name: {
                part: sites[operator_id(core, part)]
                for part in (*self.chains[core.name], OUTPUT)
                if operator_id(core, part) in sites
            }
            for core in self.cores
        }


def make_streamed(
    question: Question, chains: Chains | None = None, sites: Mapping[str, str] | None = None
) -> StreamedContract:
    """A contract as a query. If it runs, `chains` and `sites` are what was found; the chains of a new one follow from
    rates.
    """
    chains = chains or {core.name: list_sub_joins(core) for core in question.cores}
    streams, operators = dict[str, SiteStream](), list[QueryOperator]()
    outputs: dict[str, str] = {}
    for core in question.cores:
        inputs = {bit: _read_input(core, bit, question.batch_s, streams, outputs) for bit in core.bits(core.everything)}
        made = list(_operators(core, chains[core.name], inputs, question.batch_s))
        operators += made
        outputs[core.name] = made[-1].id if made else inputs[core.everything]
    unions = _find_unions(question.cores, operators, sites or {})
    operators = [_read_past(operator, unions, operators) for operator in operators if operator.id not in unions]
    last, contract = question.cores[-1], question.contract
    sink = QueryOperator(
        sink_id(contract.name),
        f"{last.block.fingerprint} sink",
        (outputs[last.name],),
        0.0,
        0.0,
        pinned=contract.site,
    )
    return StreamedContract(StreamQuery(contract.name, (*operators, sink)), streams, question.cores, chains, unions)


def _find_unions(
    cores: Iterable[CoreStatistics], operators: Iterable[QueryOperator], sites: Mapping[str, str]
) -> dict[str, str]:
    """Unions that one operator reads, and nothing else, by their ids, with that reader's. Those that were found at
    another site than their reader are not.
    """
    readers = dict[str, list[QueryOperator]]()
    for operator in operators:
        for name in operator.inputs:
            readers.setdefault(name, []).append(operator)
    found = dict[str, str]()
    for core in cores:
        top, name = core.block.top, operator_id(core, OUTPUT)
        if isinstance(top, Derivation) and top.kind is DerivationKind.UNION_ALL:
            match readers.get(name, []):
                case [reader] if reader.inputs == (name,) and sites.get(name) == sites.get(reader.id):
                    found[name] = reader.id
    return {union: _find_last(reader, found) for union, reader in found.items()}


def _find_last(reader: str, unions: Mapping[str, str]) -> str:
    """The operator that reads a union, past unions that are none."""
    return _find_last(unions[reader], unions) if reader in unions else reader


def _read_past(operator: QueryOperator, unions: Mapping[str, str], operators: Iterable[QueryOperator]) -> QueryOperator:
    """An operator that reads what a union does in place of the union. Unions of unions are one."""
    if not any(name in unions for name in operator.inputs):
        return operator
    inputs = {one.id: one.inputs for one in operators}
    read = list(operator.inputs)
    while through := [name for name in read if name in unions]:
        at = read.index(through[0])
        read[at : at + 1] = inputs[through[0]]
    return replace(operator, inputs=tuple(read))


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
