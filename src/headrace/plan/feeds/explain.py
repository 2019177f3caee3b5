"""Why a pair or an edge of an instance is decided the way it is, by name."""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.composite import edge_costs
from headrace.plan.feeds.composite_document import NamedComposite
from headrace.plan.feeds.document import Named
from headrace.plan.feeds.explain_pair import PairReason, both_ways, find_pair, headline, why_pair
from headrace.plan.feeds.feeds_document import NamedFeeds
from headrace.plan.feeds.instance import Composite
from headrace.plan.feeds.network import asked_rates, network_of, output_rates


def why(named: Named, ahead: BoolArray, who: str, whom: str, unit: str = "h") -> PairReason:
    """Explains the pair or edge of an instance by which one follows another. Raises UsageError if there is none."""
    number = find_pair(named.find(who, whom), who, whom)
    match named:
        case NamedFeeds(feeds):
            return why_pair(feeds, ahead, number, unit)
        case NamedComposite(composite, names):
            return why_edge(composite, names, ahead, number, unit)
        case _:
            assert_never(named)


def why_edge(composite: Composite, names: tuple[str, ...], ahead: BoolArray, edge: int, unit: str = "h") -> PairReason:
    """Explains one edge of a decided network."""
    network, chosen = network_of(composite), composite.edges[edge]
    costs = edge_costs(composite, network)
    stored, on_read = (Fraction(int(cost[edge]), costs.scale) for cost in (costs.ahead, costs.on_read))
    events, asked = output_rates(composite, network)[chosen.source], asked_rates(composite, network)[chosen.target]
    details = [both_ways(float(stored), float(on_read), unit)]
    pulled = [
        names[other.source]
        for number, other in enumerate(composite.edges)
        if other.target == chosen.source and not ahead[number]
    ]
    if not ahead[edge] and stored <= on_read:
        details.append(f'"{names[chosen.source]}" pulls "{pulled[0]}", so it has nothing to store ahead')
    if ahead[edge] and stored > on_read:
        details.append(f'stored ahead for what "{names[chosen.target]}" stores ahead in turn')
    return PairReason(headline(bool(ahead[edge]), events, asked, unit), tuple(details))
