"""The operator on top of a join core: where it runs, and what it makes there.

An aggregate runs where the complete delta is; or partial aggregates are made where the terms of the last join arise,
united and merged elsewhere. Window functions run where the delta of the core is, distinct and top-k where its relation
is, too, outer and semi joins where relation and delta of both inputs are, union all where all deltas are. What is
recomputed runs where relation and delta of all inputs are: the deltas tell whether there is anything to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

import numpy as np

from headrace.model.block import Aggregation, Derivation, DerivationKind
from headrace.model.expr import Column
from headrace.model.plan import Operator
from headrace.model.rate import Rate
from headrace.model.relation import AggregateFunction
from headrace.model.types import default_width
from headrace.plan.datasets import Dataset, as_output, whole_dataset
from headrace.plan.outputs import WINDOW_WIDTH, facts_of_block, groups_of, rate_of_groups
from headrace.plan.search.collect import CollectedDeltas
from headrace.plan.search.joins import OUTPUT, Search, Terms
from headrace.plan.search.recipes import Aggregated, Derived, MergedAggregate
from headrace.plan.search.steps import TimedOperator, product
from headrace.plan.search.supply import Deltas, Ints, Labels, reach
from headrace.plan.search.terrain import OperatorAtSites
from headrace.plan.statistics import fingerprint_of


def output_dataset(search: Search) -> Dataset:
    """What a block makes, wherever."""
    block = search.core.block
    if block.top is None:
        return as_output(search.dataset(search.core.everything), block)
    return replace(whole_dataset(facts_of_block(search.core)), recomputed=is_recomputed(search))


def output_deltas(search: Search) -> Deltas:
    """Where the output of a block can be had."""
    top = search.core.block.top
    match top:
        case None:
            return search.deltas(search.core.everything)
        case Aggregation():
            found = _find_aggregated(search, top)
        case Derivation():
            found = _find_derived(search, derived_from(search))
    return search.placed(OUTPUT, search.kept(found))


# Aggregates


def _find_aggregated(search: Search, top: Aggregation) -> CollectedDeltas:
    found, everything = CollectedDeltas(), search.core.everything
    deltas, moves = search.deltas(everything), search.moves(everything)
    at = reach(deltas, moves, search.terrain.batch_s)
    made = output_dataset(search)
    for site in range(search.terrain.size):
        rows = np.flatnonzero(np.isfinite(at.time[:, site]) & (~deltas.tied | (deltas.site == site)))
        here = np.full(len(rows), site)
        raw = deltas.raw[rows] & (deltas.site[rows] == site)
        for flag in (False, True):
            some = raw == flag
            rate_in = search.raw_rate(everything) if flag else search.dataset(everything).rate
            steps = search.terrain.run(Operator.AGGREGATE, made, rate_in)
            step = TimedOperator(
                steps, here[some], np.zeros(some.sum()), at.time[rows[some], site], search.terrain.batch_s
            )
            labels = step.added_to(at.labels.take((rows[some], site)))
            maker = (Aggregated, (), rows[some], here[some])
            found.add(here[some], step.time, here[some] < 0, labels, maker, search.fits(labels, step.time))
    if is_decomposable(top) and search.places is None:
        for left, right in search.core.splits(everything) if everything.bit_count() > 1 else ():
            if not search.core.is_static(left) and not search.core.is_static(right):
                _find_merged(search, found, left, right)
    return found


def is_decomposable(top: Aggregation) -> bool:
    """Whether aggregates of the terms of a join add up: a row that one term adds, another may take away again, so
    only sums do.
    """
    sums = (AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG)
    return all(call.function in sums and not call.distinct for call in top.calls)


def partial_dataset(search: Search, changed: int | None = None) -> Dataset:
    """Sums per group over the changes that some inputs cause; by default over all."""
    core, top = search.core, search.core.block.top
    assert isinstance(top, Aggregation)
    everything = core.everything
    whole = output_dataset(search)
    changed = core.complete(everything) if changed is None else changed
    return replace(
        whole,
        scope=core.names(everything),
        changed=core.aliases_of(changed),
        fingerprint=fingerprint_of([core.block.fingerprint, "partial"]),
        columns=tuple(("", name) for name in _partial_columns(top)),
        width=_partial_width(search, top),
        rows=groups_of(core, top),
        rate=rate_of_groups(core, top, changed),
        stands_for=None,
    )


def _partial_columns(top: Aggregation) -> list[str]:
    window = [] if top.window is None else [top.window.start, top.window.end]
    return sorted([*(key.name for key in top.keys), *window, *(call.name for call in top.calls)])


def _partial_width(search: Search, top: Aggregation) -> float:
    keys = 0.0
    for key in top.keys:
        columns = {f"{i.alias}.{name}": width for i in search.core.inputs for name, width in i.facts.widths.items()}
        known = columns.get(key.expr.name) if isinstance(key.expr, Column) else None
        keys += default_width(key.expr.type) if known is None else known
    calls = sum(default_width(call.type) + (8 if call.function is AggregateFunction.AVG else 0) for call in top.calls)
    return keys + calls + (0 if top.window is None else 2 * WINDOW_WIDTH)


def _find_merged(search: Search, found: CollectedDeltas, left: int, right: int) -> None:
    """Partial aggregates pay only where the terms arise at different sites: else the full one is made there."""
    terms = search.terms(left, right)
    terms = terms.take(terms.left_site != terms.right_site)
    if not len(terms.labels):
        return
    for site in range(search.terrain.size):
        time, labels, here = _merge_at(search, terms, left, right, site)
        maker = (MergedAggregate, (left, right), terms.left_side, terms.right_side, here)
        found.add(here, time, here < 0, labels, maker, search.fits(labels, time))


def _merge_at(search: Search, terms: Terms, left: int, right: int, site: int) -> tuple[np.ndarray, Labels, Ints]:
    terrain, x, subset = search.terrain, search.terrain.batch_s, left | right
    here, nothing = np.full(len(terms.labels), site), np.zeros(len(terms.labels))
    labels, arrivals, rate_in = terms.labels, [], Rate()
    for changed, place, start in (
        (right, terms.left_site, terms.left_time),
        (left, terms.right_site, terms.right_time),
    ):
        part = partial_dataset(search, search.core.complete(changed))
        rate_in += part.rate
        term = search.dataset(subset, search.core.complete(changed))
        partial = TimedOperator(terrain.run(Operator.AGGREGATE, part, term.rate), place, nothing, start, x)
        copy = TimedOperator(terrain.copy(part, part.rate), (place, here), nothing, partial.time, x)
        labels = copy.added_to(partial.added_to(labels))
        arrivals.append(copy.time)
    both = partial_dataset(search)
    union = TimedOperator(terrain.run(Operator.UNION, both, rate_in), here, nothing, np.maximum(*arrivals), x)
    merge = TimedOperator(
        terrain.run(Operator.AGGREGATE, output_dataset(search), both.rate), here, nothing, union.time, x
    )
    return merge.time, merge.added_to(union.added_to(labels)), here


# Everything else


def _find_derived(search: Search, inputs: tuple[int, ...]) -> CollectedDeltas:
    """All combinations of the inputs' states (for union all, of their deltas) at one site."""
    found = CollectedDeltas()
    for site in _find_sites(search):
        tables = [_available(search, subset, site) for subset in inputs]
        rows, times, labels, rates = reduce(lambda a, b: _combine_inputs(search, a, b), tables)
        for rate_in in set(rates):
            some = np.array([rate == rate_in for rate in rates], dtype=bool)
            steps = _derive_steps(search, rate_in)
            here = np.full(int(some.sum()), site)
            step = TimedOperator(steps, here, np.zeros(len(here)), times[some], search.terrain.batch_s)
            made = step.added_to(labels.take(some))
            chosen = np.empty(len(here), dtype=object)
            chosen[:] = [row for row, wanted in zip(rows, some, strict=True) if wanted]
            found.add(here, step.time, here < 0, made, (Derived, (), chosen, here), search.fits(made, step.time))
    return found


def _find_sites(search: Search) -> Iterable[int]:
    """What came when is remembered where it comes from: it would be forgotten whenever a plan moved it."""
    top = search.core.block.top
    home = None
    if isinstance(top, Derivation) and top.stamp is not None:
        (home,) = {supply.whole.home for supply in search.supplies.values()}
    return range(search.terrain.size) if home is None else (search.terrain.index[home],)


def _derive_steps(search: Search, rate_in: Rate) -> OperatorAtSites:
    made = output_dataset(search)
    if not is_recomputed(search):
        return search.terrain.run(Operator.DERIVE, made, rate_in)
    return search.terrain.recompute(made, sum(search.dataset(subset).rows for subset in derived_from(search)))


def is_recomputed(search: Search) -> bool:
    top = search.core.block.top
    return isinstance(top, Derivation) and top.kind is DerivationKind.RECOMPUTE


Available = tuple[list[tuple[int, ...]], np.ndarray, Labels, list[Rate]]
"""Rows per input, when the latest is there, the labels, and the rows per second that the operator reads."""


def needs_relations(search: Search) -> bool:
    """Union all only passes changes on, and window functions keep all rows themselves, in order. Every other operator
    looks at the rows that were there before.
    """
    top = search.core.block.top
    without = (DerivationKind.UNION_ALL, DerivationKind.WINDOW)
    return isinstance(top, Derivation) and top.kind not in without


def derived_from(search: Search) -> tuple[int, ...]:
    """The datasets that a derivation reads: the join core, or each input by itself."""
    core = search.core
    return (core.everything,) if core.is_joined else tuple(core.bits(core.everything))


def _available(search: Search, subset: int, site: int) -> Available:
    deltas = search.deltas(subset)
    if needs_relations(search):
        table = search.states(subset)
        rows = np.flatnonzero(table.site == site)
        made, times, labels = table.delta[rows], np.maximum(table.ready, table.arrives)[rows], table.labels.take(rows)
    else:
        at = reach(deltas, search.moves(subset), search.terrain.batch_s)
        rows = np.flatnonzero(np.isfinite(at.time[:, site]) & (~deltas.tied | (deltas.site == site)))
        made, times, labels = rows, at.time[rows, site], at.labels.take((rows, site))
    raw = deltas.raw[made] & (deltas.site[made] == site)
    rates = [search.raw_rate(subset) if flag else search.dataset(subset).rate for flag in raw]
    return [(int(row),) for row in rows], times, labels, rates


def _combine_inputs(search: Search, a: Available, b: Available) -> Available:
    first, second = product(np.arange(len(a[0])), np.arange(len(b[0])))
    both = search.register.sum(0, 0, a[2].take(first), b[2].take(second))
    valid = np.flatnonzero(both.valid)
    pairs = list(zip(first[valid], second[valid], strict=True))
    rows = [a[0][i] + b[0][j] for i, j in pairs]
    times = np.maximum(a[1][first[valid]], b[1][second[valid]])
    return rows, times, both.labels.take(valid), [a[3][i] + b[3][j] for i, j in pairs]
