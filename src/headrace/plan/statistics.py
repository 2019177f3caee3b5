"""Statistics of sub-joins: how many rows, how fast they change, how wide they are, and what they are called.

A block's inputs are numbered, and a sub-join is the set of their bits. Nothing here depends on the order of joins:

    card(S)    = product of the rows of S / for every class, the distinct values of all members in S but the smallest
    rate(S, F) = card(S) * sum over i in F of rate(i) / rows(i)                     changes of S that come from F
    width(S)   = columns that reach the output + one per class that is joined further out + columns of later residuals

with rows and rates after each input's own filter. A row of a delta is 16 bytes wider: its timestamp and weight.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from headrace.model.block import Aggregation, Block, BlockFilter, ColumnId, Derivation, DerivationKind, Residual
from headrace.model.catalogue import MeasuredSize, Source, Stays
from headrace.model.expr import Expr, columns_of
from headrace.model.plan import BlockFacts
from headrace.model.rate import Rate
from headrace.model.statistics import distinct_of, rate_of, rows_of, width_of
from headrace.plan.canonical.fingerprint import part_of
from headrace.plan.join_graph import JoinGraph, join_graph

DELTA_EXTRA_WIDTH = 16
"""Bytes of a change's timestamp and weight."""

FEWEST_ROWS = 1e-9
"""Stands for no rows, so that ratios of rows stay numbers."""

MOST_ROWS = 1e30
"""More rows than any join has; beyond, estimates of joins of joins would stop being numbers."""

OVER_A_CORE = (
    DerivationKind.DISTINCT,
    DerivationKind.TOPK,
    DerivationKind.SESSIONS,
    DerivationKind.WINDOW,
    DerivationKind.PYTHON,
)
"""Derivations that read a join core; others read their inputs as they are."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the planner knows of an input, a source or an earlier block.

    `home` is the site of a source; None for a block, which is made where the plan says. `parent_key` is the key of a
    source whose rows are inserted before the rows that refer to them. `stays` maps the sources whose columns it
    carries to where those may be. Views give the columns of equal blocks different names; `stored` has the ones that
    vertices use.
    """

    name: str
    fingerprint: str
    home: str | None
    rows: float
    rate: Rate
    widths: Mapping[str, float]
    distinct: Mapping[str, float]
    static: bool
    parent_key: tuple[str, ...] | None
    stays: Mapping[str, Stays]
    stored: Mapping[str, str] = field(default_factory=dict)

    @property
    def width(self) -> float:
        return sum(self.widths.values())

    def stored_as(self, columns: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({self.stored.get(column, column) for column in columns}))


def facts_of_source(source: Source) -> Facts:
    columns = source.columns or ()
    return Facts(
        name=source.name,
        fingerprint=fingerprint_of({"source": source.name}),
        home=source.site,
        rows=rows_of(source),
        rate=Rate(rate_of(source)),
        widths={column.name: width_of(column) for column in columns},
        distinct={column.name: distinct_of(source, column) for column in columns},
        static=source.static,
        parent_key=source.key if source.parent_first else None,
        stays={} if source.stays is None else {source.name: source.stays},
    )


def fingerprint_of(meaning: object) -> str:
    """Equal for equal meanings, whoever asks: 16 hexadecimal digits of the hash of canonical JSON."""
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Input:
    """One alias of a block: its facts, and what is left of it after its own filter and projection."""

    alias: str
    facts: Facts
    filter: BlockFilter | None
    share: float

    @property
    def rows(self) -> float:
        return self.facts.rows * self.share

    @property
    def rows_to_divide_by(self) -> float:
        return max(self.rows, FEWEST_ROWS)

    @property
    def rate(self) -> Rate:
        return self.facts.rate * self.share


class CoreStatistics:
    """The join core of a block, with statistics for each of its sub-joins (bit sets of inputs).

    Everything is computed once.
    """

    def __init__(
        self,
        block: Block,
        facts: Mapping[str, Facts],
        shares: Mapping[str, float],
        residual_shares: tuple[float, ...],
        name: str | None = None,
        size: MeasuredSize | None = None,
        meant: BlockFacts | None = None,
    ) -> None:
        """`facts` are by the names that the block's inputs give; `name` is the one of all blocks that mean the same.
        `size` is what was measured of the operator on top, at the rates that the facts have. `meant` is of one that is
        recomputed: what it would hold and emit if it were maintained.
        """
        filters = {filter_.alias: filter_ for filter_ in block.filters}
        self.block, self.name, self.size, self.meant = block, name or block.id, size or MeasuredSize(), meant
        self.inputs = tuple(
            Input(input_.alias, facts[input_.source], filters.get(input_.alias), shares.get(input_.alias, 1.0))
            for input_ in block.inputs
        )
        self._bit = {input_.alias: 1 << number for number, input_ in enumerate(self.inputs)}
        self.residual_shares = residual_shares
        self._residuals = tuple(zip(block.residuals, residual_shares, strict=True))
        self._cards: dict[int, float] = {}
        self._columns: dict[int, tuple[ColumnId, ...]] = {}
        self._fingerprints: dict[int, str] = {}

    @property
    def everything(self) -> int:
        return (1 << len(self.inputs)) - 1

    @property
    def is_joined(self) -> bool:
        """Whether the inputs are joined before the operator on top; outer joins and unions read them as they are."""
        top = self.block.top
        return not isinstance(top, Derivation) or top.kind in OVER_A_CORE

    def members(self, subset: int) -> Iterator[Input]:
        return (input_ for number, input_ in enumerate(self.inputs) if subset >> number & 1)

    def bits(self, subset: int) -> Iterator[int]:
        return (1 << number for number in range(len(self.inputs)) if subset >> number & 1)

    def input_of(self, bit: int) -> Input:
        return self.inputs[bit.bit_length() - 1]

    def names(self, subset: int) -> tuple[str, ...]:
        """Aliases, sorted; a single input goes by the name of its source, because all its aliases share it."""
        if subset.bit_count() == 1:
            return (self.input_of(subset).facts.name,)
        return tuple(sorted(input_.alias for input_ in self.members(subset)))

    def aliases_of(self, subset: int) -> tuple[str, ...]:
        return tuple(sorted(input_.alias for input_ in self.members(subset)))

    # Which sub-joins there are

    @cached_property
    def _graph(self) -> JoinGraph:
        """Inputs are joined directly by a class; failing that by a residual; failing that all with all."""
        classes = [{self._bit[alias] for alias, _ in class_} for class_ in self.block.classes]
        residuals = [{self._bit[alias] for alias in residual.aliases} for residual in self.block.residuals]
        return join_graph(len(self.inputs), classes, residuals, self.card)

    @property
    def sub_joins(self) -> tuple[int, ...]:
        """Connected sets of two and more inputs, small ones first."""
        return self._graph.sub_joins

    def splits(self, subset: int) -> Iterator[tuple[int, int]]:
        """The two sides of every join that makes a sub-join; the first side holds its first input."""
        return self._graph.splits(subset)

    # Rows and rates

    def card(self, subset: int) -> float:
        if subset not in self._cards:
            self._cards[subset] = self._card(subset)
        return self._cards[subset]

    def _card(self, subset: int) -> float:
        rows = prod(input_.rows_to_divide_by for input_ in self.members(subset))
        for class_ in self.block.classes:
            for count in sorted(self._distinct(class_, subset))[1:]:
                rows /= count
        rows *= prod(share for residual, share in self._residuals if self._inside(residual, subset))
        return min(rows, MOST_ROWS)

    def _distinct(self, class_: tuple[ColumnId, ...], subset: int) -> Iterator[float]:
        """Distinct values of each input's member of a class, at most its rows."""
        for input_ in self.members(subset):
            counts = [input_.facts.distinct[column] for alias, column in class_ if alias == input_.alias]
            if counts:
                yield min(*counts, input_.rows_to_divide_by)

    def _inside(self, residual: Residual, subset: int) -> bool:
        return all(self._bit[alias] & subset for alias in residual.aliases)

    def rate(self, subset: int, changed: int) -> Rate:
        """Changes of a sub-join that changes of some of its inputs cause."""
        if subset.bit_count() == 1:
            return self.input_of(subset).rate
        total = Rate()
        for bit in self.bits(changed):
            if not self._is_parent(bit, subset):
                input_ = self.input_of(bit)
                total += input_.rate * (self.card(subset) / input_.rows_to_divide_by)
        return total

    def _is_parent(self, bit: int, subset: int) -> bool:
        """A new parent has no children yet: its insertion changes no join with them."""
        input_ = self.input_of(bit)
        if input_.facts.parent_key is None:
            return False
        joined = {
            column
            for class_ in self.block.classes
            for alias, column in class_
            if alias == input_.alias and any(self._bit[other] & subset & ~bit for other, _ in class_)
        }
        return set(input_.facts.parent_key) <= joined if input_.facts.parent_key else bool(joined)

    def is_static(self, subset: int) -> bool:
        return all(input_.facts.static for input_ in self.members(subset))

    def complete(self, subset: int) -> int:
        """Whose changes a complete delta carries: those that change; if none does, the first input for all."""
        changing = sum(bit for bit in self.bits(subset) if not self.input_of(bit).facts.static)
        return changing or subset & -subset

    # Columns

    def columns(self, subset: int) -> tuple[ColumnId, ...]:
        """What a row of the sub-join holds."""
        if subset not in self._columns:
            self._columns[subset] = self._find_carried(subset)
        return self._columns[subset]

    def _find_carried(self, subset: int) -> tuple[ColumnId, ...]:
        carried = {(input_.alias, column) for input_ in self.members(subset) for column in self.kept(input_.alias)}
        for class_ in self.block.classes:
            inside = {member for member in class_ if self._bit[member[0]] & subset}
            if inside and len(inside) < len(class_) and not inside & carried:
                carried.add(min(inside, key=".".join))
        for residual in self.block.residuals:
            if not self._inside(residual, subset):
                carried |= {column for column in self._columns_of(residual.predicate) if self._bit[column[0]] & subset}
        return tuple(sorted(carried))

    def kept(self, alias: str) -> tuple[str, ...]:
        """Columns of an alias that the output or the operator on top reads, sorted."""
        return self._kept.get(alias, ())

    @cached_property
    def _kept(self) -> Mapping[str, tuple[str, ...]]:
        found = {input_.alias: set(self.block.keep.get(input_.alias, ())) for input_ in self.inputs}
        for expr in _read_by(self.block.top):
            for alias, column in self._columns_of(expr):
                found[alias].add(column)
        return {alias: tuple(sorted(columns)) for alias, columns in found.items()}

    def _columns_of(self, expr: Expr) -> Iterator[ColumnId]:
        """Columns of the inputs that an expression reads; other names are made by the operator on top."""
        for name in columns_of(expr):
            aliases = [input_.alias for input_ in self.inputs if name.startswith(f"{input_.alias}.")]
            if aliases:
                alias = max(aliases, key=len)
                yield alias, name.removeprefix(f"{alias}.")

    def width(self, subset: int) -> float:
        """Bytes of a row of the relation; a delta's has `DELTA_EXTRA_WIDTH` more."""
        return sum(self.input_of(self._bit[alias]).facts.widths[column] for alias, column in self.columns(subset))

    def is_whole(self, bit: int) -> bool:
        """Whether nothing of an input is filtered or projected away: its copies are copies of the whole dataset."""
        input_ = self.input_of(bit)
        return input_.filter is None and len(self.columns(bit)) == len(input_.facts.widths)

    def on(self, left: int, right: int) -> tuple[tuple[ColumnId, ColumnId], ...]:
        """The pairs of columns that a join of two sub-joins compares, one for each class on both sides."""
        pairs = []
        for class_ in self.block.classes:
            ends = [self._representative(class_, side) for side in (left, right)]
            if all(ends):
                first, second = sorted(end for end in ends if end is not None)
                pairs.append((first, second))
        return tuple(sorted(pairs))

    def _representative(self, class_: tuple[ColumnId, ...], side: int) -> ColumnId | None:
        inside = {member for member in class_ if self._bit[member[0]] & side}
        carried = inside & set(self.columns(side))
        return min(carried or inside, key=".".join, default=None)

    def completed_residuals(self, left: int, right: int) -> tuple[Residual, ...]:
        """Predicates that a join of two sub-joins is the first to hold all columns of."""
        return tuple(
            residual
            for residual in self.block.residuals
            if self._inside(residual, left | right)
            and not self._inside(residual, left)
            and not self._inside(residual, right)
        )

    def stays(self, subset: int) -> Mapping[str, Stays]:
        """The sources whose columns a row carries, with the sites where those may be."""
        carriers = {alias for alias, _ in self.columns(subset)}
        return {
            source: stays
            for input_ in self.members(subset)
            if input_.alias in carriers
            for source, stays in input_.facts.stays.items()
        }

    # Names

    def fingerprint(self, subset: int) -> str:
        """The fingerprint of the filtered and projected sub-join; that of the whole dataset for an input of which
        nothing is left out.
        """
        if subset not in self._fingerprints:
            self._fingerprints[subset] = self._fingerprint(subset)
        return self._fingerprints[subset]

    def _fingerprint(self, subset: int) -> str:
        if subset.bit_count() == 1:
            input_ = self.input_of(subset)
            if self.is_whole(subset):
                return input_.facts.fingerprint
            columns = input_.facts.stored_as(column for _, column in self.columns(subset))
            return fingerprint_of([input_.facts.fingerprint, input_.filter.texts if input_.filter else (), columns])
        part = part_of(self.block, frozenset(input_.alias for input_ in self.members(subset)))
        if all(alias == shared for alias, shared in part.aliases.items()):
            return part.fingerprint
        # Equal to a part of another block whose aliases are numbered otherwise; rows name columns by alias, so it is
        # a dataset of its own.
        return fingerprint_of([part.fingerprint, sorted(part.aliases.items())])


def _read_by(top: Aggregation | Derivation | None) -> Iterator[Expr]:
    """The expressions over the core that an operator on top evaluates."""
    match top:
        case Aggregation():
            yield from (key.expr for key in top.keys)
            yield from (expr for call in top.calls for expr in call.inputs)
            if top.window is not None:
                yield top.window.time
        case Derivation():
            yield from (output.expr for outputs in top.columns for output in outputs)
            yield from top.partition
            yield from (order.expr for order in top.order)
            if top.on is not None:
                yield top.on
