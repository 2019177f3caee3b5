"""What blocks mean, as algebra again: the opposite of `blocks_of`, for those who run blocks and for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.model.block import Aggregation, Block, BlockInput, Derivation, DerivationKind
from headrace.model.expr import TRUE, Call, Column, Expr, conjunction
from headrace.model.relation import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    JoinKind,
    Output,
    Over,
    Projection,
    Relation,
    Scan,
    Sessions,
    Stamped,
    TopK,
    Unfold,
    UnionAll,
    Windows,
    fields_of,
)
from headrace.model.types import BOOLEAN, TIMESTAMP, Type


def relation_of(blocks: tuple[Block, ...], sources: Mapping[str, tuple[Field, ...]]) -> Relation:
    """The last block, with earlier ones in place of their ids. `sources` are the columns of each source."""
    known: dict[str, Relation] = {}
    for block in blocks:
        known[block.id] = _Block(block, known, sources).relation()
    return known[blocks[-1].id]


@dataclass(frozen=True, slots=True)
class _Block:
    block: Block
    earlier: Mapping[str, Relation]
    sources: Mapping[str, tuple[Field, ...]]

    def relation(self) -> Relation:
        match self.block.top:
            case None:
                rows = self._core()
            case Aggregation() as top:
                rows = self._aggregation(top)
            case Derivation() as top:
                rows = self._derivation(top)
        return Projection(rows, self.block.outputs)

    def _input(self, input_: BlockInput) -> Relation:
        """An input with its filter; fields are `alias.column`."""
        filters = [part for one in self.block.filters if one.alias == input_.alias for part in one.conjuncts]
        if input_.source in self.earlier:
            inner = self.earlier[input_.source]
            names = (Output(f"{input_.alias}.{f.name}", Column(f.name, f.type)) for f in fields_of(inner))
            rows: Relation = Projection(inner, tuple(names))
        else:
            fields = self.sources[input_.source]
            names_, types = tuple(f.name for f in fields), tuple(f.type for f in fields)
            rows = Scan(input_.source, input_.alias, names_, types)
        return Filter(rows, conjunction(tuple(filters))) if filters else rows

    def _core(self) -> Relation:
        first, *others = self.block.inputs
        rows, joined = self._input(first), [first.alias]
        for other in others:
            on = tuple(self._equalities(frozenset(joined), other.alias))
            rows = Join(JoinKind.INNER, rows, self._input(other), conjunction(on))
            joined.append(other.alias)
        residuals = tuple(residual.predicate for residual in self.block.residuals)
        return Filter(rows, conjunction(residuals)) if residuals else rows

    def _equalities(self, joined: frozenset[str], alias: str) -> Iterator[Expr]:
        """What an input must agree on with those before it."""
        types = self._types()
        for members in self.block.classes:
            before = [f"{other}.{column}" for other, column in members if other in joined]
            for name in (f"{other}.{column}" for other, column in members if other == alias and before):
                yield Call("=", (Column(before[0], types[before[0]]), Column(name, types[name])), BOOLEAN)

    def _types(self) -> Mapping[str, Type]:
        return {field.name: field.type for input_ in self.block.inputs for field in fields_of(self._input(input_))}

    def _aggregation(self, top: Aggregation) -> Relation:
        rows, keys = self._core(), top.keys
        if top.window is not None:
            window = top.window
            bounds = (window.start, window.end)
            rows = Windows(rows, window.time, window.size_ms, window.slide_ms, window.offset_ms, *bounds)
            keys = (*keys, *(Output(name, Column(name, TIMESTAMP)) for name in bounds))
        groups = Aggregate(rows, keys, top.calls)
        return groups if top.having is None else Filter(groups, top.having)

    def _derivation(self, top: Derivation) -> Relation:
        match top.kind:
            case DerivationKind.DISTINCT:
                return Distinct(Projection(self._core(), top.columns[0]))
            case DerivationKind.TOPK:
                assert top.limit is not None, f'block "{self.block.id}" ranks without a limit'
                rows = Projection(self._core(), top.columns[0])
                ranking = (top.offset, top.ranking, top.rank_name)
                return TopK(rows, top.partition, top.order, top.limit, *ranking)
            case DerivationKind.SESSIONS:
                assert top.session is not None, f'block "{self.block.id}" has sessions without a gap'
                rows, session = Projection(self._core(), top.columns[0]), top.session
                return Sessions(rows, top.partition, session.time, session.gap_ms, session.start, session.end)
            case DerivationKind.WINDOW:
                return Over(Projection(self._core(), top.columns[0]), top.partition, top.order, top.calls)
            case DerivationKind.UNION_ALL:
                inputs = map(self._input, self.block.inputs)
                parts = tuple(Projection(rows, cols) for rows, cols in zip(inputs, top.columns, strict=True))
                if top.stamp is not None:
                    return Stamped(parts[0], top.stamp.time, top.stamp.from_beginning)
                if top.unfold is None:
                    return UnionAll(parts)
                return Unfold(parts[0], top.unfold.columns, top.unfold.place, top.unfold.outer)
            case DerivationKind.PYTHON:
                raise AssertionError("no query has this operator yet")
            case kind:
                left, right = map(self._input, self.block.inputs)
                return Join(JoinKind(kind.value), left, right, TRUE if top.on is None else top.on)
