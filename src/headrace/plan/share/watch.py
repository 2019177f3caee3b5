"""What is wrong with a plan that runs, and since when: only what lasts is worth a move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.model.names import name_of_view
from headrace.model.plan import Operator, Plan
from headrace.model.statistics import rate_of
from headrace.model.words import name_vertex
from headrace.plan.price import arrivals
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.revalue import Measured, raw_filter
from headrace.plan.sizes import size_now, with_sizes

FULL, CALM = 0.9, 0.7
"""Demand over capacity above which a link is full, and below which one may return to it."""

NEXT_TO_NOTHING = 20.0
"""Demand over capacity above which the numbers say no more than that."""

CALM_FOR_S = 300.0

RATE_OFF, SLOW = 0.3, 1.5
"""Relative distance from what was planned for a rate, a filter or a result; seconds taken over seconds planned."""

LONGEST_PATH = 0.45
"""Share of the freshness that a push may take before it is too close to the half that it may take at most."""


class ConditionKind(StrEnum):
    LINK_FULL = "link full"
    RATE_OFF = "rate off"
    FILTER_OFF = "filter off"
    SIZE_OFF = "size off"
    OPERATOR_SLOW = "operator slow"
    PATH_LONG = "path long"
    SITE_DOWN = "site down"


LASTS_S = {ConditionKind.LINK_FULL: 10.0, ConditionKind.SITE_DOWN: 0.0}
"""How long a trouble must last; others a minute, also a push that would take too long: the first ones are slow."""

LASTS_ELSE_S = 60.0


@dataclass(frozen=True, slots=True)
class WatchedCondition:
    """`where` is a link `a>b`, a source, a vertex, a block, a contract or a site."""

    trouble: ConditionKind
    where: str


@dataclass(frozen=True, slots=True)
class ConditionWatch:
    """Remembers since when each condition holds, and since when each link is calm, by the clock in seconds."""

    since: Mapping[WatchedCondition, float] = field(default_factory=dict)
    calm_since: Mapping[str, float] = field(default_factory=dict)

    def due(self, clock_s: float) -> tuple[WatchedCondition, ...]:
        """What has lasted long enough."""
        return tuple(
            condition
            for condition, start_s in sorted(self.since.items(), key=lambda entry: (entry[0].trouble, entry[0].where))
            if clock_s - start_s >= LASTS_S.get(condition.trouble, LASTS_ELSE_S)
        )

    def is_calm(self, link: str, clock_s: float) -> bool:
        return link in self.calm_since and clock_s - self.calm_since[link] >= CALM_FOR_S


def watch(before: ConditionWatch, plan: Plan, now: Arrangement, measured: Measured) -> ConditionWatch:
    """The watch after one more look. `now` is the plan as measured."""
    clock_s = measured.clock_s
    holding = conditions(plan, now, measured)
    # A link that nobody knows anything of is calm: contracts that have left it are all that could be sent over it.
    links = {(link.src, link.dst) for link in plan.catalogue.links} | measured.load.keys()
    calm = (f"{src}>{dst}" for src, dst in sorted(links) if measured.load.get((src, dst), 0.0) < CALM)
    return ConditionWatch(
        {condition: before.since.get(condition, clock_s) for condition in holding},
        {link: before.calm_since.get(link, clock_s) for link in calm},
    )


def _say_full(link: str, load: float) -> str:
    if load > NEXT_TO_NOTHING:
        return f"{link} carries less than {1 / NEXT_TO_NOTHING:.0%} of the demand"
    return f"demand is {load:.0%} of what {link} carries"


def conditions(plan: Plan, now: Arrangement, measured: Measured) -> dict[WatchedCondition, str]:
    """What holds at this moment, each with the numbers that say so."""
    found: dict[WatchedCondition, str] = {}
    for (src, dst), load in measured.load.items():
        if load > FULL:
            found[WatchedCondition(ConditionKind.LINK_FULL, f"{src}>{dst}")] = _say_full(f"{src}>{dst}", load)
    sources = plan.catalogue.sources
    for name, rate in ((name, rate) for name, rate in measured.rates.items() if name in sources):
        planned = rate_of(sources[name])
        if abs(rate - planned) > RATE_OFF * planned:
            found[WatchedCondition(ConditionKind.RATE_OFF, name)] = (
                f"{name} changes {rate:.4g} rows/s instead of {planned:.4g}"
            )
    for vertex, factor in measured.slowness.items():
        if factor > SLOW and vertex in plan.graph.edges:
            found[WatchedCondition(ConditionKind.OPERATOR_SLOW, vertex)] = (
                f"{_name_made(plan, vertex)} takes {factor:.3g} times as long as planned"
            )
    for site in measured.down:
        found[WatchedCondition(ConditionKind.SITE_DOWN, site)] = f"site {site} is down"
    return found | _filters_off(plan, measured) | _sizes_off(plan, measured) | _long_paths(now)


def _name_made(plan: Plan, vertex: str) -> str:
    return f"making {name_vertex(plan.graph.vertices[vertex])}"


def _filters_off(plan: Plan, measured: Measured) -> dict[WatchedCondition, str]:
    blocks, found = {entry.block.id: entry for entry in plan.blocks}, {}
    for name, share in measured.selectivities.items():
        filtered, edge = raw_filter(plan.graph, name), plan.graph.edges.get(name)
        block = None if edge is None else blocks.get(edge.block or "")
        if filtered is not None and block is not None:
            source, filter_ = filtered
            planned = block.selectivity[filter_.alias]
            if abs(share - planned) > RATE_OFF * planned:
                what = f"{filter_.text} lets {share:.3g} of {source} through instead of {planned:.3g}"
                found[WatchedCondition(ConditionKind.FILTER_OFF, name)] = what
    return found


def _sizes_off(plan: Plan, measured: Measured) -> dict[WatchedCondition, str]:
    """Results that hold or emit otherwise than planned, at the rates that were planned for their sources."""
    catalogue, found = with_sizes(plan.catalogue, measured.sizes), {}
    for entry in plan.blocks:
        size = size_now(catalogue, entry.block.fingerprint)
        planned = entry.facts.rate.at(_batch_of(plan, entry.name))
        said = [
            f"{what} {number:.4g} {unit} instead of {expected:.4g}"
            for what, number, unit, expected in (
                ("holds", size.rows, "rows", entry.facts.rows),
                ("changes", size.rate, "rows/s", planned),
            )
            if number is not None and abs(number - expected) > RATE_OFF * expected
        ]
        if said and entry.block.top is not None:
            found[WatchedCondition(ConditionKind.SIZE_OFF, entry.name)] = (
                f"{name_of_view(entry.name)} {' and '.join(said)}"
            )
    return found


def _batch_of(plan: Plan, block: str) -> float:
    """Seconds of changes that a push of a block's result carries: of the contract that wants it most often."""
    serving = find_concerned(plan, WatchedCondition(ConditionKind.SIZE_OFF, block))
    return min((entry.batch_s for entry in plan.contracts if entry.contract in serving), default=1.0)


def _long_paths(now: Arrangement) -> dict[WatchedCondition, str]:
    found = {}
    for kept in now.kept:
        path_s = arrivals(now.graph, now.tariff, kept.batch_s, [kept.vertex])[kept.vertex]
        if path_s > LONGEST_PATH * kept.contract.freshness_s:
            what = f"a push would take {path_s:.4g} s of {kept.contract.freshness_s:.4g} s"
            found[WatchedCondition(ConditionKind.PATH_LONG, kept.contract.name)] = what
    return found


def find_concerned(plan: Plan, condition: WatchedCondition) -> frozenset[str]:
    """The contracts that a condition concerns."""
    figures, graph = plan.vertex_figures, plan.graph
    match condition.trouble:
        case ConditionKind.PATH_LONG:
            return frozenset((condition.where,))
        case ConditionKind.OPERATOR_SLOW | ConditionKind.FILTER_OFF:
            names = [condition.where]
        case ConditionKind.SITE_DOWN:
            names = [name for name, vertex in graph.vertices.items() if vertex.site == condition.where]
        case ConditionKind.SIZE_OFF:
            names = [name for name, vertex in graph.vertices.items() if vertex.stands_for == condition.where]
        case ConditionKind.RATE_OFF:
            names = [name for name, vertex in graph.vertices.items() if vertex.scope == (condition.where,)]
        case ConditionKind.LINK_FULL:
            names = [
                name
                for name, edge in graph.edges.items()
                if edge.op is Operator.COPY
                and f"{graph.vertices[edge.inputs[0]].site}>{graph.vertices[name].site}" == condition.where
            ]
    return frozenset(contract for name in names if name in figures for contract in figures[name].serves)
