"""What comes out of a block: its columns, how many rows, how fast they change.

Estimates by simple rules; plan documents give them, and the check of a document trusts them.

    no operator on top   the join itself
    aggregate            one row per group: G = min(product of the distinct values of the keys and windows, rows)
    distinct             as many rows as different values
    top-k                limit rows per partition
    outer joins          at least the kept side's rows
    semi, anti           the part of the left side that has a partner, or has none
    union all            the sum
    recompute            as many rows as if it were maintained, and at most as many changes; where it could not be, as
                         many rows as the largest input, and a changed row of an input changes one row

What was measured of an operator on top while the project ran stands instead (`sizes.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, prod

from headrace.model.block import Aggregation, Derivation, DerivationKind, Window
from headrace.model.catalogue import Stays
from headrace.model.expr import Column, Expr, columns_of, is_deterministic
from headrace.model.plan import BlockFacts
from headrace.model.rate import Groups, Rate
from headrace.model.relation import Output
from headrace.model.types import default_width
from headrace.plan.canonical.expression_text import predicate_text
from headrace.plan.selectivity import OTHERWISE, share_of
from headrace.plan.statistics import MOST_ROWS, CoreStatistics, Facts

WINDOW_WIDTH = 8
NEIGHBOURS = 1.0
"""Rows that a change moves beside itself, by window functions of which nothing is measured yet."""

MS_PER_S = 1000.0
ELEMENTS = 4.0
"""Elements of an array, as long as nobody has counted any."""


def facts_of_block(core: CoreStatistics) -> Facts:
    """The output of a block as an input of a later one."""
    top = core.block.top
    found = block_facts(core)
    return Facts(
        name=core.name,
        fingerprint=core.block.fingerprint,
        home=None,
        rows=found.rows,
        rate=found.rate,
        widths=found.widths,
        distinct=found.distinct,
        static=core.is_static(core.everything),
        parent_key=None,
        stays=_stays(core, isinstance(top, Aggregation)),
        stored={output.name: predicate_text(output.expr, unqualified=False) for output in core.block.outputs},
    )


def block_facts(core: CoreStatistics) -> BlockFacts:
    top = core.block.top
    match top:
        case Aggregation():
            rows, rate, distinct = _estimate_aggregated(core, top)
        case Derivation():
            rows, rate, distinct = _estimate_derived(core, top)
        case _:
            everything = core.everything
            rows, rate, distinct = core.card(everything), core.rate(everything, everything), distinct_of_core(core)
    if top is not None:
        rows = rows if core.size.rows is None else core.size.rows
        rate = rate if core.size.rate is None else Rate(core.size.rate)
    rows = min(rows, MOST_ROWS)
    outputs = core.block.outputs
    widths = {output.name: _width(output.expr, core) for output in outputs}
    found = {output.name: min(rows, _estimate_distinct(output.expr, distinct, rows)) for output in outputs}
    return BlockFacts(rows, rate, widths, found)


def _stays(core: CoreStatistics, aggregated: bool) -> Mapping[str, Stays]:
    """The sources whose columns come out of a block; aggregates of some may leave their sites."""
    kept = {
        source: stays
        for input_ in core.inputs
        if core.kept(input_.alias)
        for source, stays in input_.facts.stays.items()
    }
    return {source: stays for source, stays in kept.items() if not (aggregated and stays.aggregates_anywhere)}


def distinct_of_core(core: CoreStatistics) -> dict[str, float]:
    """Distinct values by `alias.column`, before filters."""
    return {
        f"{input_.alias}.{column}": count for input_ in core.inputs for column, count in input_.facts.distinct.items()
    }


def default_distinct(rows: float) -> float:
    """Distinct values of a column about which nothing is known: a tenth of the rows and 10."""
    return min(rows, 0.1 * rows + 10)


def _estimate_distinct(expr: Expr, known: Mapping[str, float], rows: float) -> float:
    return known.get(expr.name, default_distinct(rows)) if isinstance(expr, Column) else default_distinct(rows)


def _width(expr: Expr, core: CoreStatistics) -> float:
    """Bytes of a value: those of the column it is, else of its type."""
    if isinstance(expr, Column):
        for input_ in core.inputs:
            column = expr.name.removeprefix(f"{input_.alias}.")
            if expr.name.startswith(f"{input_.alias}.") and column in input_.facts.widths:
                return input_.facts.widths[column]
        inner = _find_named(core).get(expr.name)
        if inner is not None and inner != expr:
            return _width(inner, core)
    return default_width(expr.type)


def _find_named(core: CoreStatistics) -> dict[str, Expr]:
    """What the names that the top operator gives stand for, where that is one expression over the core."""
    top = core.block.top
    match top:
        case Aggregation():
            return {key.name: key.expr for key in top.keys}
        case Derivation() if top.columns:
            return {output.name: output.expr for output in top.columns[0]}
        case _:
            return {}


# Aggregates


def _estimate_aggregated(core: CoreStatistics, top: Aggregation) -> tuple[float, Rate, dict[str, float]]:
    card = core.card(core.everything)
    groups = groups_of(core, top)
    distinct = distinct_of_core(core)
    is_alone = len(top.keys) == 1 and top.window is None  # then a group is a value of the key
    named = {
        key.name: groups if is_alone else min(_estimate_distinct(key.expr, distinct, card), groups) for key in top.keys
    }
    share = 1.0 if top.having is None else share_of(top.having, named)
    if top.having is not None and not is_deterministic(top.having):
        # Of groups that come and go by the time, such as those of a clock, one is there.
        share = max(share, 1.0 / groups)
    return groups * share, rate_of_groups(core, top, core.everything) * share, named


def groups_of(core: CoreStatistics, top: Aggregation) -> float:
    """How many groups there are: at least one. Those that HAVING leaves out were not measured."""
    keys, measured = _values_of_keys(core, top), core.size.rows
    windows = 1.0 if top.window is None else _windows(core, top.window)
    estimated = max(1.0, min(keys * windows, core.card(core.everything)))
    if measured is None:
        return estimated
    return max(1.0, measured if top.having is None else max(measured, estimated))


def rate_of_groups(core: CoreStatistics, top: Aggregation, changed: int) -> Rate:
    """How fast groups change when some inputs do. Rows come about in the order of their times: they touch groups of the
    windows that are open, and those that open while they come.
    """
    groups, rows = groups_of(core, top), core.rate(core.everything, changed)
    window = top.window
    if core.size.rate is not None and top.having is None:
        return Rate(core.size.rate * _part_of_changes(core, rows))
    if window is None:
        return Rate(0.0, ((1.0, Groups(groups, rows)),))
    keys, overlap = _values_of_keys(core, top), window.size_ms / window.slide_ms
    count, opened = max(1.0, min(groups, keys * overlap)), min(groups, keys) * MS_PER_S / window.slide_ms
    return Rate(0.0, ((1.0, Groups(count, rows * overlap, opened)),))


def _part_of_changes(core: CoreStatistics, rows: Rate) -> float:
    """The part of all changes of the core that some of them are."""
    everything = core.rate(core.everything, core.everything).at(1.0)
    return min(1.0, rows.at(1.0) / everything) if everything > 0.0 else 1.0


def _values_of_keys(core: CoreStatistics, top: Aggregation) -> float:
    """Groups but for their windows."""
    card, distinct = core.card(core.everything), distinct_of_core(core)
    return max(1.0, min(prod(_estimate_distinct(key.expr, distinct, card) for key in top.keys), card))


def _windows(core: CoreStatistics, window: Window) -> float:
    """How many windows hold rows: as many as begin while the rows that there are came at today's rate; at most one for
    each value of the time column, times those that overlap.
    """
    card, distinct = core.card(core.everything), distinct_of_core(core)
    names = columns_of(window.time)
    times = max((distinct.get(name, default_distinct(card)) for name in names), default=1.0)
    most = times * window.size_ms / window.slide_ms
    read = [one for one in core.inputs if any(name.startswith(f"{one.alias}.") for name in names)]
    lasted_s = max((one.rows / rate for one in read if (rate := one.rate.at(1.0)) > 0.0), default=inf)
    return max(1.0, min(most, (lasted_s * MS_PER_S + window.size_ms) / window.slide_ms))


# Everything else


def _estimate_derived(core: CoreStatistics, top: Derivation) -> tuple[float, Rate, dict[str, float]]:
    match top.kind:
        case DerivationKind.UNION_ALL:
            often = 1.0 if top.unfold is None else ELEMENTS
            rows = sum(input_.rows for input_ in core.inputs) * often
            rate = sum((input_.rate for input_ in core.inputs), Rate()) * often
        case DerivationKind.RECOMPUTE if core.meant is not None:
            # A row that changes often in one push changes once in the difference of two answers.
            rows, changed = core.meant.rows, core.meant.rate * 0.5
            rate = Rate(0.0, ((1.0, Groups(max(1.0, rows), changed)),))
        case DerivationKind.RECOMPUTE:
            rows = max(input_.rows_to_divide_by for input_ in core.inputs)
            changed = sum((input_.rate for input_ in core.inputs), Rate())
            rate = Rate(0.0, ((1.0, Groups(max(1.0, rows), changed)),))
        case _:
            rows, rate = _of_core(core, top) if core.is_joined else _of_pair(core, top)
    distinct = distinct_of_core(core)
    named = {name: _estimate_distinct(expr, distinct, rows) for name, expr in _find_named(core).items()}
    return rows, rate, {**distinct, **named}


def _of_core(core: CoreStatistics, top: Derivation) -> tuple[float, Rate]:
    card = core.card(core.everything)
    rate = core.rate(core.everything, core.everything)
    distinct = distinct_of_core(core)
    if top.kind is DerivationKind.DISTINCT:
        rows = min(card, _combinations(top.columns[0] if top.columns else core.block.outputs, distinct, card))
    elif top.kind is DerivationKind.TOPK and top.limit is not None:
        named = _find_named(core)
        keys = (named.get(key.name, key) if isinstance(key, Column) else key for key in top.partition)
        partitions = prod(_estimate_distinct(key, distinct, card) for key in keys)
        rows = min(card, top.limit * max(1.0, min(partitions, card)))
    elif top.kind is DerivationKind.WINDOW:
        return card, rate * (1.0 + NEIGHBOURS)
    else:
        rows = card
    # A row that enters often pushes another out, or moves a bound of its session.
    factor = rows / max(card, 1.0) * (2.0 if top.kind in (DerivationKind.TOPK, DerivationKind.SESSIONS) else 1.0)
    return rows, rate * min(2.0, factor)


def _combinations(columns: tuple[Output, ...], distinct: Mapping[str, float], card: float) -> float:
    return prod(_estimate_distinct(column.expr, distinct, card) for column in columns)


def _of_pair(core: CoreStatistics, top: Derivation) -> tuple[float, Rate]:
    """Two inputs: the pairs that meet, and what is left alone on the kept sides."""
    left, right = core.inputs
    kept_left, kept_right = left.rows_to_divide_by, right.rows_to_divide_by
    distinct = distinct_of_core(core)
    share = OTHERWISE if top.on is None else share_of(top.on, distinct)
    pairs = kept_left * kept_right * share
    partnered = min(1.0, kept_right * share)
    if top.kind in (DerivationKind.SEMI, DerivationKind.ANTI):
        rows = kept_left * (partnered if top.kind is DerivationKind.SEMI else max(1.0 - partnered, 0.1))
        return rows, left.rate * (rows / kept_left) + right.rate * min(pairs / kept_right, 1.0)
    alone = kept_left * max(0.0, 1.0 - partnered) if top.kind in (DerivationKind.LEFT, DerivationKind.FULL) else 0.0
    if top.kind in (DerivationKind.RIGHT, DerivationKind.FULL):
        alone += kept_right * max(0.0, 1.0 - min(1.0, kept_left * share))
    rows = pairs + alone
    kept = {DerivationKind.LEFT: kept_left, DerivationKind.RIGHT: kept_right}.get(top.kind, kept_left + kept_right)
    rows = max(rows, kept if top.kind is not DerivationKind.FULL else max(kept_left, kept_right))
    return rows, left.rate * max(1.0, pairs / kept_left) + right.rate * max(1.0, pairs / kept_right)
