"""What was measured of aggregates, DISTINCT, top-k and all other operators on top of a join: which of it counts.

The results of a block are known by its fingerprint, which survives replanning. Rows are taken as they were measured.
Changes per second are taken in proportion to those of the sources: twice the rate of a source, declared or imagined,
means twice the changes. A batch does not matter: an operator emits every change, however many are pushed at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.model.block import Aggregation, Block, Derivation, DerivationKind
from headrace.model.catalogue import Catalogue, MeasuredSize, Source
from headrace.model.expr import Column, Expr
from headrace.model.statistics import LARGEST, believe, rate_of

Sizes = Mapping[str, MeasuredSize]
"""By the fingerprints of blocks."""

FEWEST = 1.0
"""Rows of a result that was empty: it may be so for a while."""


def size_now(catalogue: Catalogue, fingerprint: str) -> MeasuredSize:
    """What was measured of a block, at the rates that its sources have in the catalogue."""
    found = believe_size(catalogue.sizes.get(fingerprint, MeasuredSize()))
    rows = None if found.rows is None else max(FEWEST, found.rows)
    return replace(found, rows=rows, rate=_rate_now(catalogue, found))


def _rate_now(catalogue: Catalogue, found: MeasuredSize) -> float | None:
    before = sum(found.sources.values())
    if found.rate is None or before <= 0.0 or not found.sources.keys() <= catalogue.sources.keys():
        return None
    now = sum(rate_of(catalogue.sources[name]) for name in found.sources)
    return min(found.rate * min(now / before, LARGEST), LARGEST)


def believe_size(size: MeasuredSize) -> MeasuredSize:
    """Drops numbers that nobody can have measured."""
    sources = {name: rate for name, rate in size.sources.items() if _believe(rate) is not None}
    if len(sources) < len(size.sources):
        return MeasuredSize(_believe(size.rows), None, dict.fromkeys(size.sources, 0.0), size.assumed)
    return MeasuredSize(_believe(size.rows), _believe(size.rate), sources, size.assumed)


def _believe(number: float | None) -> float | None:
    return number if number is not None and 0.0 <= number <= LARGEST else None


def with_sizes(catalogue: Catalogue, sizes: Sizes) -> Catalogue:
    """The catalogue with what was measured last; what was measured before stands where that says nothing."""
    merged = {name: _merge(size, catalogue.sizes.get(name, MeasuredSize())) for name, size in sizes.items()}
    return replace(catalogue, sizes={**catalogue.sizes, **merged}) if merged else catalogue


def _merge(new: MeasuredSize, old: MeasuredSize) -> MeasuredSize:
    rated = old if new.rate is None and old.rate is not None else new
    return MeasuredSize(old.rows if new.rows is None else new.rows, rated.rate, rated.sources)


# What is declared


def without_declared(sizes: Sizes, blocks: Iterable[Block], sources: Mapping[str, Source]) -> dict[str, MeasuredSize]:
    """What counts besides the project's files: the number of groups of a column whose `distinct` they declare does
    not.
    """
    known = {block.fingerprint: block for block in blocks}
    return {
        name: replace(size, rows=None) if name in known and _is_declared(known[name], sources) else size
        for name, size in sizes.items()
    }


def _is_declared(block: Block, sources: Mapping[str, Source]) -> bool:
    """Whether there are as many rows as a single column has values (or so many times a limit), and those are
    declared.
    """
    keys = _keys(block)
    if len(keys) != 1 or not isinstance(keys[0], Column) or len(block.inputs) != 1 or block.filters:
        return False
    source = sources.get(block.inputs[0].source)
    return source is not None and keys[0].name.removeprefix(f"{block.inputs[0].alias}.") in declared_distinct(source)


def _keys(block: Block) -> tuple[Expr, ...]:
    """What tells the groups apart; nothing, if that is not all of them."""
    top = block.top
    match top:
        case Aggregation() if top.window is None and top.having is None:
            return tuple(key.expr for key in top.keys)
        case Derivation() if top.kind is DerivationKind.TOPK:
            return top.partition
        case Derivation() if top.kind is DerivationKind.DISTINCT:
            return tuple(output.expr for output in (top.columns[0] if top.columns else block.outputs))
        case _:
            return ()


def declared_distinct(source: Source) -> dict[str, float]:
    """How many values columns have, as far as the project's files say so."""
    return {
        column.name: believe(column.distinct, 0.0)
        for column in source.columns or ()
        if column.distinct is not None and f"{column.name}.distinct" not in source.found
    }
