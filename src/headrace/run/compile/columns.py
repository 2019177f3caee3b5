"""Which columns of a log's file stand for the columns that a block's expressions read.

A vertex names its columns in one of three ways: `source.column` of a source; `block.stored` of a block with an operator
on top, where `stored` is the canonical text of the output; `alias.column` of a join, by the aliases of its block. One
that has nothing on top is read as what it is, a join: its outputs are computed on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.block import BlockFilter
from headrace.model.catalogue import Catalogue
from headrace.model.expr import Call, Column, Expr, Literal, columns_of, conjunction, substitute
from headrace.model.plan import ContractPlan, Plan, PlannedBlock, Vertex
from headrace.model.relation import Field, Output
from headrace.run.program import Program


@dataclass(frozen=True)
class Names:
    """The blocks of a plan by id, to look up what names mean."""

    blocks: Mapping[str, PlannedBlock]

    def source_of(self, planned: PlannedBlock, alias: str) -> str:
        """What an alias reads: a source, or the id of a block of the same view."""
        return next(input_.source for input_ in planned.block.inputs if input_.alias == alias)

    def held(self, vertex: Vertex, columns: tuple[Field, ...]) -> VertexColumns:
        return VertexColumns(self, vertex, {column.name: Column(column.name, column.type) for column in columns})


@dataclass(frozen=True)
class VertexColumns:
    """What a vertex holds: `file` has its columns by name."""

    names: Names
    vertex: Vertex
    file: Mapping[str, Column]

    def of_alias(self, planned: PlannedBlock, alias: str, column: str) -> Expr | None:
        """A column of an alias of a block; None if it is not held."""
        name = f"{alias}.{column}"
        if len(self.vertex.scope) > 1 and alias in self.vertex.scope and name in self.file:
            return self.file[name]
        source = self.names.source_of(planned, alias)
        inner = self.names.blocks.get(source)
        if inner is None:
            return self.file.get(f"{source}.{column}")
        return self.of_output(inner, column)

    def of_output(self, planned: PlannedBlock, column: str) -> Expr | None:
        """A column of a block's output."""
        output = next(output for output in planned.block.outputs if output.name == column)
        if isinstance(output.expr, Literal):
            return output.expr
        stored = self.file.get(f"{planned.name}.{planned.stored[column]}")
        if stored is not None:
            # Outputs of equal text may differ in type: one is stored for all.
            return stored if stored.type == output.expr.type else Call("cast", (stored,), output.expr.type)
        return None if planned.block.top is not None else self.rewritten(planned, output.expr)

    def rewritten(self, planned: PlannedBlock, expr: Expr) -> Expr | None:
        """An expression over a block's core as one over the file; None if a column is not held."""
        found: dict[str, Expr] = {}
        for name in columns_of(expr):
            value = self.of_alias(planned, *split(planned, name))
            if value is None:
                return None
            found[name] = value
        return substitute(expr, found)

    def rewrite_filters(self, planned: PlannedBlock | None, filters: Iterable[BlockFilter]) -> Expr:
        """Filters over the file's columns.

        One that came along from an inner block, or from a wider dataset, names columns by that block's alias.
        """
        return conjunction(
            tuple(self._conjunct(planned, filter_, part) for filter_ in filters for part in filter_.conjuncts)
        )

    def _conjunct(self, planned: PlannedBlock | None, filter_: BlockFilter, part: Expr) -> Expr:
        readers = [planned] if planned is not None else []
        readers += [other for other in self.names.blocks.values() if other is not planned]
        for reader in readers:
            names = columns_of(part)
            if all(is_of(reader, name) for name in names):
                found = self.rewritten(reader, part)
                if found is not None and (reader is planned or _has(reader, filter_)):
                    return found
        raise AssertionError(f'no column of "{self.vertex.id}" is what the filter "{filter_.text}" reads')

    def stored(self, name: str) -> Expr | None:
        """A column by the name that another vertex of the same dataset gives it."""
        if name in self.file:
            return self.file[name]
        for planned in self.names.blocks.values():
            if name.startswith(f"{planned.name}."):
                for column, text in planned.stored.items():
                    if name == f"{planned.name}.{text}":
                        found = self.of_output(planned, column)
                        if found is not None:
                            return found
        return None


def _has(planned: PlannedBlock, filter_: BlockFilter) -> bool:
    """Whether a block filters like this, under whatever alias the filter came along."""
    return any(own.texts == filter_.texts and own.conjuncts == filter_.conjuncts for own in planned.block.filters)


def is_of(planned: PlannedBlock, name: str) -> bool:
    return any(name.startswith(f"{input_.alias}.") for input_ in planned.block.inputs)


def split(planned: PlannedBlock, name: str) -> tuple[str, str]:
    """`alias.column` in its two parts; the longest alias that fits."""
    aliases = [input_.alias for input_ in planned.block.inputs if name.startswith(f"{input_.alias}.")]
    alias = max(aliases, key=len)
    return alias, name.removeprefix(f"{alias}.")


def source_fields(catalogue: Catalogue, source: str) -> tuple[Field, ...]:
    """The columns of a source's log."""
    columns = catalogue.sources[source].columns
    assert columns is not None, f'the columns of source "{source}" are not known'
    return tuple(Field(f"{source}.{column.name}", column.type) for column in columns)


def serving_log(program: Program, contract: ContractPlan) -> str:
    """The log that a contract's view is read from: its vertex, or what was computed of that."""
    return program.answers.get(contract.contract, contract.vertex)


def view_outputs(plan: Plan, program: Program, contract: ContractPlan) -> tuple[Output, ...]:
    """The columns of a contract's view, as expressions over `serving_log`: they cannot fail."""
    answer = program.answers.get(contract.contract)
    if answer is not None:
        return tuple(Output(field.name, Column(field.name, field.type)) for field in program.logs[answer].columns)
    return vertex_outputs(plan, program, contract.view, contract.vertex)


def vertex_outputs(plan: Plan, program: Program, view: str, vertex: str) -> tuple[Output, ...]:
    """The columns of a view, as expressions over what its vertex holds."""
    names = Names({planned.block.id: planned for planned in plan.blocks})
    held = names.held(plan.graph.vertices[vertex], program.logs[vertex].columns)
    planned = names.blocks[view]
    found = []
    for output in planned.block.outputs:
        expr = held.of_output(planned, output.name)
        assert expr is not None, f'"{vertex}" does not hold column "{output.name}" of view "{view}"'
        found.append(Output(output.name, expr))
    return tuple(found)
