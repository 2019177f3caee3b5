"""What two plans are compared by, read from plan documents: the plan that runs is known by its document alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.model.errors import UsageError
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


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Vertex(_Part):
    id: str
    kind: str
    fp: str
    delta_of: tuple[str, ...] | None


class _Edge(_Part):
    op: str
    inputs: tuple[str, ...] = Field(alias="in")
    out: str


class _Contract(_Part):
    id: str
    view: str
    vertex: str
    staleness: float


class _Totals(_Part):
    rescost: float


class _Document(_Part):
    vertices: tuple[_Vertex, ...]
    edges: tuple[_Edge, ...]
    contracts: tuple[_Contract, ...]
    totals: _Totals


def outline_of_document(document: object) -> Outline:
    """Raises UsageError if this is no plan document."""
    try:
        read = _Document.model_validate(document)
    except ValidationError as error:
        place = "/".join(map(str, error.errors()[0]["loc"]))
        raise UsageError(f'what runs is not a plan document: "{place}" is missing or wrong') from error
    return Outline(
        {v.id: (v.fp, v.kind == "delta", v.delta_of or ()) for v in read.vertices},
        {edge.out: (edge.op, edge.inputs) for edge in read.edges},
        {entry.id: (entry.view, entry.vertex, entry.staleness) for entry in read.contracts},
        read.totals.rescost,
    )
