"""Comparing two plans: what is added, what goes, what moves to another site, and what both have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from headrace.model.catalogue import Feed
from headrace.model.difference import Difference
from headrace.model.errors import Location
from headrace.model.feed_names import feed_of
from headrace.model.plan import Graph, Plan
from headrace.model.source_shape import shape_of
from headrace.plan.price import upstream_first
from headrace.plan.share.outline import Dataset, Outline, outline_of
from headrace.plan.share.values import find_changed_values

NOWHERE = Location("")

__all__ = ["Difference", "difference", "difference_of"]


def difference(old: Plan, new: Plan) -> Difference:
    before, after = _shapes(old), _shapes(new)
    changed = tuple(sorted(name for name in before.keys() & after.keys() if before[name] != after[name]))
    found, terms = difference_of(outline_of(old), outline_of(new)), (_terms(old), _terms(new))
    otherwise = {name for name, one in terms[1].items() if terms[0].get(name, one) != one}
    made = find_made_from(new.graph, changed)
    return replace(
        found,
        reused=tuple(name for name in found.reused if name not in made),
        reread=changed,
        rebuilt=tuple(name for name in found.reused if name in made),
        contracts_changed=tuple(sorted({*found.contracts_changed, *otherwise})),
        values=find_changed_values(old.catalogue, new.catalogue),
        refused=tuple(sorted(name for name, one in _find_refused(new).items() if _find_refused(old).get(name) != one)),
    )


def _terms(plan: Plan) -> dict[str, object]:
    """What outlines do not tell of contracts: what the columns of their views are called, who pays and reads. Of a feed
    it is all that the feed says: where its store is, and by which rules pages are made.
    """
    blocks = {entry.block.id: entry.block for entry in plan.blocks}
    found: dict[str, object] = {}
    for one in plan.contracts:
        contract = plan.catalogue.contracts[one.contract]
        columns = tuple(output.name for output in blocks[one.view].outputs)
        terms = columns, contract.deliver, contract.penalty, contract.owner, contract.refresh, contract.streaming
        found[one.contract] = *terms, _find_feed(plan, one.contract)
    return found


def _find_feed(plan: Plan, contract: str) -> Feed | None:
    feed = feed_of(contract, plan.catalogue.feeds)
    return None if feed is None else replace(plan.catalogue.feeds[feed], declared_at=NOWHERE)


def _find_refused(plan: Plan) -> dict[str, object]:
    """What contracts that go on are refused, and why in a word: numbers of what is measured change all the time."""
    return {
        one.contract: (replace(one.asked, declared_at=NOWHERE), one.because.reason.partition(":")[0])
        for one in plan.goes_on
    }


def find_made_from(graph: Graph, sources: Collection[str]) -> frozenset[str]:
    """The vertices of some sources, and all that are computed from them."""
    found = set[str]()
    for name in upstream_first(graph, graph.vertices):
        vertex, edge = graph.vertices[name], graph.edges.get(name)
        if (vertex.base and vertex.scope[0] in sources) or (edge is not None and found.intersection(edge.inputs)):
            found.add(name)
    return frozenset(found)


def _shapes(plan: Plan) -> dict[str, str]:
    used = {vertex.scope[0] for vertex in plan.graph.vertices.values() if vertex.base}
    return {name: shape_of(plan.catalogue.sources[name]) for name in used}


def difference_of(old: Outline, new: Outline) -> Difference:
    """What changes from one plan to another, everything in the order of its ids."""
    before, after = old.datasets, new.datasets
    gone, come = sorted(before.keys() - after), sorted(after.keys() - before)
    moved = _find_moved({name: before[name] for name in gone}, {name: after[name] for name in come})
    both = sorted(before.keys() & after.keys())
    rewired = tuple(name for name in both if old.ways.get(name) != new.ways.get(name))
    return Difference(
        added=tuple(name for name in come if name not in {target for _, target in moved}),
        removed=tuple(name for name in gone if name not in {start for start, _ in moved}),
        moved=moved,
        rewired=rewired,
        reused=tuple(name for name in both if name not in rewired),
        contracts_added=tuple(sorted(new.promises.keys() - old.promises)),
        contracts_removed=tuple(sorted(old.promises.keys() - new.promises)),
        contracts_changed=tuple(
            sorted(name for name, terms in new.promises.items() if old.promises.get(name, terms) != terms)
        ),
        cost_before=old.rescost,
        cost_after=new.rescost,
    )


def _find_moved(gone: Mapping[str, Dataset], come: Mapping[str, Dataset]) -> tuple[tuple[str, str], ...]:
    """A dataset that goes at one site and comes at another has moved. Of several, in the order of their ids."""
    places: dict[Dataset, list[str]] = {}
    for name, dataset in come.items():
        places.setdefault(dataset, []).append(name)
    pairs = ((name, places.get(dataset)) for name, dataset in gone.items())
    return tuple((name, targets.pop(0)) for name, targets in pairs if targets)
