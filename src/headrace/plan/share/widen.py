"""A sub-join that lives with more columns than a contract needs serves it as well.

A contract is planned once as it is, and once with its sub-joins as wide as they live already: then they are found.
What lies below a widened sub-join is widened with it, what lies above reads fewer columns, so that the plan is right
whether the search takes the live vertex or makes the wide one anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from headrace.model.block import Block, ColumnId
from headrace.plan.share.subject import Offers, subject_in
from headrace.plan.statistics import CoreStatistics, Facts, Input

Extras = Mapping[int, frozenset[ColumnId]]
"""Columns that a sub-join carries besides those that are needed of it."""


class WideCore(CoreStatistics):
    """A join core whose sub-joins carry more columns than they need."""

    def __init__(self, core: CoreStatistics, extras: Extras) -> None:
        super().__init__(core.block, _facts(core), _shares(core), core.residual_shares, core.name, core.size)
        self._extras = extras
        self._variants: dict[frozenset[ColumnId], CoreStatistics] = {frozenset(): core}

    def columns(self, subset: int) -> tuple[ColumnId, ...]:
        return self._variant(subset).columns(subset)

    def fingerprint(self, subset: int) -> str:
        return self._variant(subset).fingerprint(subset)

    def _variant(self, subset: int) -> CoreStatistics:
        """The core of a block that keeps just these columns more."""
        extra = self._extras.get(subset, frozenset())
        if extra not in self._variants:
            block = _keeping(self.block, extra)
            self._variants[extra] = CoreStatistics(
                block, _facts(self), _shares(self), self.residual_shares, self.name, self.size, self.meant
            )
        return self._variants[extra]

    @property
    def is_sound(self) -> bool:
        """Whether every join has the columns that it passes on. A wider side may carry another member of a class than
        a narrower result expects.
        """
        return all(
            set(self.columns(subset)) <= {*self.columns(left), *self.columns(right)}
            for subset in self.sub_joins
            for left, right in self.splits(subset)
        )


def _facts(core: CoreStatistics) -> dict[str, Facts]:
    return {given.source: input_.facts for given, input_ in zip(core.block.inputs, core.inputs, strict=True)}


def _shares(core: CoreStatistics) -> dict[str, float]:
    return {input_.alias: input_.share for input_ in core.inputs}


def _keeping(block: Block, extra: Collection[ColumnId]) -> Block:
    keep = {alias: set(columns) for alias, columns in block.keep.items()}
    for alias, column in extra:
        keep.setdefault(alias, set()).add(column)
    return replace(block, keep={alias: tuple(sorted(columns)) for alias, columns in keep.items()})


def wide_variants(cores: tuple[CoreStatistics, ...], offers: Offers) -> Iterator[tuple[CoreStatistics, ...]]:
    """A view's blocks with sub-joins as wide as offered; and with inputs too, if that differs."""
    seen: list[tuple[Extras, ...]] = [tuple({} for _ in cores)]
    for smallest in (2, 1):
        extras: tuple[Extras, ...] = tuple(_extras(core, offers, smallest) for core in cores)
        if extras not in seen:
            seen.append(extras)
            wide = tuple(WideCore(core, found) if found else core for core, found in zip(cores, extras, strict=True))
            if all(core.is_sound for core in wide if isinstance(core, WideCore)):
                yield wide


def _extras(core: CoreStatistics, offers: Offers, smallest: int) -> dict[int, frozenset[ColumnId]]:
    """Finds, for each sub-join of at least some size, the narrowest offer that holds all it needs; smaller ones carry
    what larger ones take.
    """
    found: dict[int, frozenset[ColumnId]] = {}
    subsets = (*(reversed(core.sub_joins) if core.is_joined else ()), *core.bits(core.everything))
    for subset in subsets:
        aliases = set(core.aliases_of(subset))
        kept = {(alias, column) for alias in aliases for column in core.kept(alias)}
        inherited = {
            column for larger, extra in found.items() if larger & subset == subset for column in extra
        } & _all_columns(core, subset)
        offered = _offer(core, offers, subset, kept | inherited) if subset.bit_count() >= smallest else None
        extra = frozenset((inherited if offered is None else offered) - kept)
        if extra:
            found[subset] = extra
    return found


def _all_columns(core: CoreStatistics, subset: int) -> set[ColumnId]:
    return {(input_.alias, column) for input_ in core.members(subset) for column in input_.facts.widths}


def _offer(core: CoreStatistics, offers: Offers, subset: int, needed: set[ColumnId]) -> frozenset[ColumnId] | None:
    """The narrowest offer with all needed columns, unless the sub-join is offered just as it is."""
    widths = offers.get(subject_in(core, subset), ())
    if subset.bit_count() == 1:
        widths = tuple(_under_alias(core.input_of(subset), columns) for columns in widths)
    if frozenset(core.columns(subset)) in widths:
        return None
    return next((columns for columns in widths if needed <= columns), None)


def _under_alias(input_: Input, columns: frozenset[ColumnId]) -> frozenset[ColumnId]:
    """Columns that a vertex holds of an input, as the block calls them: blocks store them under other names."""
    held, stored = {column for _, column in columns}, input_.facts.stored
    return frozenset((input_.alias, column) for column in input_.facts.widths if stored.get(column, column) in held)
