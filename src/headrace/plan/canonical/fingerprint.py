"""Fingerprints: 16 hexadecimal digits, equal for queries that are equal by our rules and never for queries that differ.

    fingerprint_of(query)            what a query means, whatever its view and its columns are called
    part_of(block, aliases)          the same for a sub-join of a block, as vertices of a plan are

A part that is the whole block has the block's own fingerprint, if the block's outputs are plain columns and nothing is
on top. What depends on the time of evaluation has a fingerprint of its own in every view, and is shared by none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.model.block import Block, ColumnId, Derivation
from headrace.model.expr import Call, Column, Expr, columns_of
from headrace.model.relation import Output, Relation
from headrace.model.types import BOOLEAN, NULL
from headrace.plan.canonical.assemble import JoinCore, plain_finish
from headrace.plan.canonical.build import build
from headrace.plan.canonical.drafts import alias_of, field_of
from headrace.plan.canonical.flatten import flatten
from headrace.plan.canonical.settle import settle


def fingerprint_of(query: Relation, view: str = "") -> str:
    """The fingerprint of what a query means. `view` tells queries apart that depend on the time of evaluation."""
    return build(settle(flatten(query)), salt=view).block.fingerprint


@dataclass(frozen=True, slots=True)
class SubJoin:
    """A sub-join: some inputs with their filters, classes and residuals, and the columns that are needed of it.

    `columns` are in the block's own aliases. `aliases` maps these to the ones that equal parts of all blocks share: the
    source's name for a single input, numbers from 1 in a self-join.
    """

    fingerprint: str
    aliases: Mapping[str, str]
    columns: tuple[ColumnId, ...]


def fingerprint_of_part(block: Block, aliases: frozenset[str]) -> str:
    return part_of(block, aliases).fingerprint


def part_of(block: Block, aliases: frozenset[str]) -> SubJoin:
    columns = needed_columns(block, aliases)
    outputs = tuple(Output(f"{alias}.{column}", _untyped_column(alias, column)) for alias, column in columns)
    identities = {
        input_.alias: input_.source if input_.fingerprint is None else f"@{input_.fingerprint}"
        for input_ in block.inputs
        if input_.alias in aliases
    }
    core = JoinCore(identities, tuple(_predicates(block, aliases)))
    view = block.id.partition("/")[0]
    assembled = core.assemble(lambda rename: plain_finish(outputs, rename), view)
    return SubJoin(assembled.block.fingerprint, assembled.aliases, columns)


def needed_columns(block: Block, aliases: frozenset[str]) -> tuple[ColumnId, ...]:
    """What a row of the sub-join must hold: columns that reach the output, one column for each class that is joined
    further out, and columns of conditions that are not applied yet."""
    needed = {(alias, column) for alias in aliases for column in block.keep.get(alias, ())}
    for members in block.classes:
        inside = {member for member in members if member[0] in aliases}
        if inside and len(inside) < len(members) and not inside & needed:
            needed.add(min(inside, key=".".join))
    for condition in _later_conditions(block, aliases):
        read = ((alias_of(column), field_of(column)) for column in columns_of(condition))
        needed.update(column for column in read if column[0] in aliases)
    return tuple(sorted(needed))


def _later_conditions(block: Block, aliases: frozenset[str]) -> Iterator[Expr]:
    yield from (residual.predicate for residual in block.residuals if not set(residual.aliases) <= aliases)
    if isinstance(block.top, Derivation) and block.top.on is not None:
        yield block.top.on


def _predicates(block: Block, aliases: frozenset[str]) -> Iterator[Expr]:
    yield from (part for one in block.filters if one.alias in aliases for part in one.conjuncts)
    yield from (residual.predicate for residual in block.residuals if set(residual.aliases) <= aliases)
    for members in block.classes:
        columns = [_untyped_column(*member) for member in members if member[0] in aliases]
        for other in columns[1:]:
            yield Call("=", (columns[0], other), BOOLEAN)


def _untyped_column(alias: str, column: str) -> Column:
    """A column without its type: within a class, and as an output, only the name counts."""
    return Column(f"{alias}.{column}", NULL)
