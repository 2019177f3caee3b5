"""What changes between two plans: what is added, what goes, what moves to another site, and what both have."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.plan import ContractPlan, Edge, Plan, Vertex, VertexKind


@dataclass(frozen=True, slots=True)
class Difference:
    """Vertices by id. A vertex that moves goes from the first to the second of its pair; one that is `rewired` stays
    and gets another producer. Costs are $/s of all resources.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    moved: tuple[tuple[str, str], ...]
    rewired: tuple[str, ...]
    reused: tuple[str, ...]
    contracts_added: tuple[str, ...]
    contracts_removed: tuple[str, ...]
    contracts_changed: tuple[str, ...]
    cost_before: float
    cost_after: float

    @property
    def is_nothing(self) -> bool:
        changes = (self.added, self.removed, self.moved, self.rewired)
        return not any((*changes, self.contracts_added, self.contracts_removed, self.contracts_changed))


def difference(old: Plan, new: Plan) -> Difference:
    """From one plan to another, everything in the order of its ids."""
    before, after = old.graph.vertices, new.graph.vertices
    moved = _moved([before[name] for name in before.keys() - after], [after[name] for name in after.keys() - before])
    both = sorted(before.keys() & after.keys())
    rewired = tuple(name for name in both if _way(old.graph.edges.get(name)) != _way(new.graph.edges.get(name)))
    promised = {entry.contract: _terms(entry) for entry in old.contracts}
    promises = {entry.contract: _terms(entry) for entry in new.contracts}
    return Difference(
        added=tuple(sorted(after.keys() - before - {target for _, target in moved})),
        removed=tuple(sorted(before.keys() - after - {start for start, _ in moved})),
        moved=moved,
        rewired=rewired,
        reused=tuple(name for name in both if name not in rewired),
        contracts_added=tuple(sorted(promises.keys() - promised)),
        contracts_removed=tuple(sorted(promised.keys() - promises)),
        contracts_changed=tuple(
            sorted(name for name in promises if promised.get(name, promises[name]) != promises[name])
        ),
        cost_before=old.totals.rescost,
        cost_after=new.totals.rescost,
    )


def _way(edge: Edge | None) -> tuple[str, tuple[str, ...]] | None:
    return None if edge is None else (edge.op, edge.inputs)


def _terms(entry: ContractPlan) -> tuple[str, str, float]:
    return entry.view, entry.vertex, entry.freshness_s


def _moved(gone: list[Vertex], come: list[Vertex]) -> tuple[tuple[str, str], ...]:
    """A dataset that goes at one site and comes at another has moved. Of several, in the order of their ids."""
    places: dict[tuple[str, VertexKind, tuple[str, ...] | None], list[str]] = {}
    for vertex in sorted(come, key=lambda vertex: vertex.id):
        places.setdefault((vertex.fingerprint, vertex.kind, vertex.delta_of), []).append(vertex.id)
    found = []
    for vertex in sorted(gone, key=lambda vertex: vertex.id):
        targets = places.get((vertex.fingerprint, vertex.kind, vertex.delta_of))
        if targets:
            found.append((vertex.id, targets.pop(0)))
    return tuple(found)
