"""What two plans are compared by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.plan import Plan, VertexKind

Dataset = tuple[str, bool, tuple[str, ...]]
"""Fingerprint, whether it is a delta, and whose changes it carries."""


@dataclass(frozen=True, slots=True)
class Outline:
    """Vertices by id with what they hold, how each is made, what contracts are promised, and $/s of all resources."""

    datasets: Mapping[str, Dataset]
    ways: Mapping[str, tuple[str, tuple[str, ...]]]
    promises: Mapping[str, tuple[str, str, float]]
    rescost: float


def outline_of(plan: Plan) -> Outline:
    vertices = plan.graph.vertices.values()
    return Outline(
        {v.id: (v.fingerprint, v.kind is VertexKind.DELTA, v.delta_of or ()) for v in vertices},
        {name: (edge.op.value, edge.inputs) for name, edge in plan.graph.edges.items()},
        {entry.contract: (entry.view, entry.vertex, entry.freshness_s) for entry in plan.contracts},
        plan.totals.rescost,
    )
