"""Facts about the vertices that already have a step, for the steps that read them."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.expr import Column, Expr
from headrace.model.plan import Edge, Plan, PlannedBlock
from headrace.model.relation import Field, Output
from headrace.model.steps import COMPUTED
from headrace.run.compile.columns import Names, VertexColumns
from headrace.run.program import LogSpec, LookupKey


@dataclass
class Known:
    """What is known by vertex: the columns of its log, the keys that its log is looked up by, the log of its operator's
    state.
    """

    plan: Plan
    columns: dict[str, tuple[Field, ...]] = field(default_factory=dict)
    keys: dict[str, dict[tuple[str, ...], LookupKey]] = field(default_factory=dict)
    states: dict[str, LogSpec] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.vertices = self.plan.graph.vertices
        self.names = Names({planned.block.id: planned for planned in self.plan.blocks})

    def held(self, name: str) -> VertexColumns:
        return self.names.held(self.vertices[name], self.columns[name])

    def planned(self, edge: Edge) -> PlannedBlock | None:
        return None if edge.block is None else self.names.blocks[edge.block]

    def look_up(self, log: str, key: LookupKey) -> LookupKey:
        """Notes that a log is looked up by a key."""
        return self.keys.setdefault(log, {}).setdefault(key.columns, key)


def lookup_key(parts: tuple[Expr, ...]) -> LookupKey:
    """Plain columns are looked up as they are, others are computed."""
    names, computed = [], []
    for part in parts:
        if isinstance(part, Column):
            names.append(part.name)
        else:
            output = Output(f"{COMPUTED}{part}", part)
            names.append(output.name)
            computed.append(output)
    return LookupKey(tuple(names), tuple(computed))
