"""Comparing two plans: what is added, what goes, what moves to another site, and what both have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.model.difference import Difference
from headrace.model.plan import Plan
from headrace.model.source_shape import shape_of
from headrace.plan.share.outline import Dataset, Outline, outline_of

__all__ = ["Difference", "difference", "difference_of"]


def difference(old: Plan, new: Plan) -> Difference:
    before, after = _shapes(old), _shapes(new)
    changed = tuple(sorted(name for name in before.keys() & after.keys() if before[name] != after[name]))
    found, columns = difference_of(outline_of(old), outline_of(new)), (_columns(old), _columns(new))
    renamed = {name for name, names in columns[1].items() if columns[0].get(name, names) != names}
    return replace(found, reread=changed, contracts_changed=tuple(sorted({*found.contracts_changed, *renamed})))


def _columns(plan: Plan) -> dict[str, tuple[str, ...]]:
    """What the columns of each contract's view are called."""
    blocks = {entry.block.id: entry.block for entry in plan.blocks}
    return {one.contract: tuple(output.name for output in blocks[one.view].outputs) for one in plan.contracts}


def _shapes(plan: Plan) -> dict[str, str]:
    used = {vertex.scope[0] for vertex in plan.graph.vertices.values() if vertex.base}
    return {name: shape_of(plan.catalogue.sources[name]) for name in used}


def difference_of(old: Outline, new: Outline) -> Difference:
    """From one plan to another, everything in the order of its ids."""
    before, after = old.datasets, new.datasets
    gone, come = sorted(before.keys() - after), sorted(after.keys() - before)
    moved = _moved({name: before[name] for name in gone}, {name: after[name] for name in come})
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


def _moved(gone: Mapping[str, Dataset], come: Mapping[str, Dataset]) -> tuple[tuple[str, str], ...]:
    """A dataset that goes at one site and comes at another has moved. Of several, in the order of their ids."""
    places: dict[Dataset, list[str]] = {}
    for name, dataset in come.items():
        places.setdefault(dataset, []).append(name)
    pairs = ((name, places.get(dataset)) for name, dataset in gone.items())
    return tuple((name, targets.pop(0)) for name, targets in pairs if targets)
