"""Search for plans of one join core: which tree, where each side's state is, where results are united.

Dynamic programming over sub-joins. For each the search keeps the complete deltas that no other beats (`supply`), made
from the sides of every join:

    JOIN(S1 at j1, S2 at j2 -> u):   R(S1), delta S2 at j1  ->  changes of the join that S2 causes, at j1
                                     R(S2), delta S1 at j2  ->  changes of the join that S1 causes, at j2
                                     both copied to u and united;  u is where the result is wanted, or j1 if j1 = j2

It is exact for this space (SMILE §6 keeps one plan per state, which is not): cost, arrival times and uses only ever
grow, so what is beaten stays beaten. A side that never changes needs no changes: then one term is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.model.block import BlockFilter
from headrace.model.plan import Operator
from headrace.model.plan_modes import Method
from headrace.model.rate import Rate
from headrace.plan.datasets import Dataset, single_input, sub_join
from headrace.plan.search.collect import CollectedDeltas, no_deltas, recipes_of
from headrace.plan.search.labels import find_undominated, thin_out
from headrace.plan.search.recipes import CapturedDelta, Joined, JoinedOnce, StandingDelta, Supplied
from headrace.plan.search.register import Register
from headrace.plan.search.steps import TimedOperator, matching, product
from headrace.plan.search.supply import (
    Deltas,
    Flags,
    Ints,
    JoinSides,
    Labels,
    Moves,
    States,
    reach,
    sides,
    stack_labels,
    states,
)
from headrace.plan.search.terrain import Floats, OperatorAtSites, Terrain
from headrace.plan.statistics import CoreStatistics

OUTPUT = 0
"""Stands for the output of a block among its sub-joins."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the search looks for: plans within `limit_s` whose busiest operator is less busy than `highest_peak`.

    The penalty for lateness can tell plans apart only if some operator is busier than `idle_peak`. At most `most`
    labels are kept for a delta.
    """

    method: Method
    limit_s: float
    idle_peak: float
    most: int | None = None
    highest_peak: float = 1.0


@dataclass(frozen=True, slots=True)
class Terms:
    """Both terms of a join, before they are united: rows of the two sides' tables, and when each term is there."""

    left_side: Ints
    right_side: Ints
    left_site: Ints
    right_site: Ints
    left_time: Floats
    right_time: Floats
    labels: Labels

    def take(self, rows: Any) -> Terms:
        return Terms(
            self.left_side[rows],
            self.right_side[rows],
            self.left_site[rows],
            self.right_site[rows],
            self.left_time[rows],
            self.right_time[rows],
            self.labels.take(rows),
        )


@dataclass(frozen=True, slots=True)
class Supply:
    """An input of a core, whole: its dataset, and where its delta can be had if it is an earlier block.

    A block that only filters and projects makes nothing of its own: its deltas are those of its one input,
    `unfiltered`, and their reader first applies its `pending` filter.
    """

    whole: Dataset
    made: Deltas | None = None
    unfiltered: Dataset | None = None
    pending: tuple[BlockFilter, ...] = ()

    @property
    def origin(self) -> Dataset:
        """What its raw deltas hold."""
        return self.unfiltered or self.whole


class Search:
    """Plans for all sub-joins of a core on a terrain; `supplies` are its inputs, by their bits.

    With a `target`, the whole join is wanted there and nowhere else. With `places`, sub-joins (and the output, under
    OUTPUT) are made there with all that they read, or are found there; others are not made at all.
    """

    def __init__(
        self,
        core: CoreStatistics,
        terrain: Terrain,
        rules: Rules,
        supplies: Mapping[int, Supply],
        target: int | None = None,
        places: Mapping[int, int] | None = None,
    ) -> None:
        self.core, self.terrain, self.rules, self.supplies, self.target = core, terrain, rules, supplies, target
        self.places = places
        self.register = Register(core, terrain, {bit: supply.whole for bit, supply in supplies.items()})
        self._datasets: dict[tuple[int, int], Dataset] = {}
        self._deltas: dict[int, Deltas] = {}
        self._moves: dict[int, Moves] = {}
        self._states: dict[int, States] = {}
        self._sides: dict[int, JoinSides] = {}

    # Datasets and steps

    def dataset(self, subset: int, changed: int | None = None) -> Dataset:
        """A sub-join with the changes of some inputs; by default, its complete delta."""
        key = subset, self.core.complete(subset) if changed is None else changed
        if key not in self._datasets:
            single = subset.bit_count() == 1
            whole = self.supplies[subset].whole if single else None
            self._datasets[key] = single_input(self.core, subset, whole) if whole else sub_join(self.core, *key)
        return self._datasets[key]

    def raw_rate(self, subset: int) -> Rate:
        """The rate of the delta as it is made, before the filter of a single input."""
        return self.supplies[subset].origin.rate if subset.bit_count() == 1 else self.dataset(subset).rate

    def is_whole(self, subset: int) -> bool:
        """Whether nothing is left to be filtered or projected away."""
        return subset.bit_count() > 1 or (self.core.is_whole(subset) and self.supplies[subset].unfiltered is None)

    def moves(self, subset: int) -> Moves:
        if subset not in self._moves:
            moves = self.plain_moves(self.dataset(subset))
            self._moves[subset] = self._moves_of_input(subset, moves) if subset.bit_count() == 1 else moves
        return self._moves[subset]

    def plain_moves(self, made: Dataset) -> Moves:
        """The moves of a dataset that nothing is filtered out of any more."""
        copy, apply = self.terrain.copy(made, made.rate), self.terrain.apply(made, made.rate)
        nothing = np.zeros(self.terrain.size)
        return Moves(copy, copy, apply, apply, -1, nothing, np.zeros((self.terrain.size, self.terrain.width)))

    def _moves_of_input(self, bit: int, moves: Moves) -> Moves:
        made, origin = self.dataset(bit), self.supplies[bit].origin
        home = -1 if origin.home is None else self.terrain.index[origin.home]
        if not self.is_whole(bit):
            lag, lag_use = self.terrain.more_input(Operator.JOIN, made.rate, origin.rate)
            moves = replace(
                moves,
                copy_raw=self.terrain.copy(made, origin.rate),
                apply_raw=self.terrain.apply(made, origin.rate),
                lag=lag,
                lag_use=lag_use,
            )
        return self.register.with_bits(bit, replace(moves, home=home))

    # Deltas, states and sides of sub-joins

    def deltas(self, subset: int) -> Deltas:
        if subset not in self._deltas:
            if subset.bit_count() == 1:
                self._deltas[subset] = self._deltas_of_input(subset)
            else:
                self._deltas[subset] = self._find_joined(subset)
        return self._deltas[subset]

    def states(self, subset: int) -> States:
        if subset not in self._states:
            found = states(self.deltas(subset), self.moves(subset), self.terrain.batch_s)
            fits = self.fits(found.labels, found.ready) & ~np.isin(found.site, self._find_unlogged(subset))
            self._states[subset] = self._one_per_site(found.take(fits))
        return self._states[subset]

    def _find_unlogged(self, subset: int) -> list[int]:
        """Sites where the relation lives without its own changes: it can be the view there, but not be joined."""
        if not self.terrain.unlogged or (subset == self.core.everything and self.target is not None):
            return []
        made, terrain = self.dataset(subset), self.terrain
        return [n for n, site in enumerate(terrain.sites) if made.relation_at(site).id in terrain.unlogged]

    def sides(self, subset: int) -> JoinSides:
        if subset not in self._sides:
            tables = self.deltas(subset), self.states(subset), self.moves(subset)
            self._sides[subset] = sides(*tables, self.terrain.batch_s)
        return self._sides[subset]

    def _deltas_of_input(self, bit: int) -> Deltas:
        made = self.supplies[bit].made
        if made is None:
            return self._with_standing(bit, self._find_captured(bit))
        recipes = tuple(Supplied(bit, row) for row in range(len(made)))
        every = np.ones(len(made), dtype=bool)
        # What lives filtered already is as raw as anything else only if this core filters it further.
        raw = made.raw if self.supplies[bit].unfiltered is not None and self.core.is_whole(bit) else every
        # What aliases of other blocks share has bits of those blocks.
        labels = replace(made.labels, owned=np.zeros_like(made.labels.owned))
        return self._with_standing(bit, replace(made, raw=raw, labels=labels, recipes=recipes))

    def _find_captured(self, bit: int) -> Deltas:
        capture = self.terrain.capture(self.supplies[bit].origin)
        time, one = np.array([capture.arrival_s]), np.ones(1, dtype=bool)
        owned = np.array([self.register.capture_bit(bit)])
        labels = Labels(capture.use[None, :], time, np.array([capture.busy]), owned)
        return Deltas(np.array([capture.home]), time, ~one, one, labels, (CapturedDelta(bit),))

    def _with_standing(self, subset: int, made: Deltas) -> Deltas:
        """Adds the places where the delta lives already."""
        copy = self.moves(subset).copy
        stands = ~np.isnan(copy.standing)
        if subset.bit_count() == 1 and self.moves(subset).home >= 0:
            stands[self.moves(subset).home] = False
        sites = np.flatnonzero(stands)
        if not len(sites):
            return made
        nothing = np.zeros(len(sites))
        labels = Labels(copy.revival[sites], nothing, nothing, np.zeros(len(sites), dtype=np.int64))
        return Deltas(
            np.concatenate((made.site, sites)),
            np.concatenate((made.time, copy.standing[sites])),
            np.concatenate((made.tied, nothing > 0)),
            np.concatenate((made.raw, nothing > 0)),
            stack_labels((made.labels, labels)),
            (*made.recipes, *(StandingDelta(int(site)) for site in sites)),
        )

    def _one_per_site(self, found: States) -> States:
        """SMILE's searches keep one plan for a relation at a site: the cheapest (by cost times lateness) or the
        fastest.
        """
        if self.rules.method is Method.CHEAPEST or not len(found):
            return found
        cost = found.labels.use[:, 0] * (1 + found.ready / self.terrain.freshness_s)
        first, second = (cost, found.ready) if self.rules.method is Method.DPD else (found.ready, cost)
        order = np.lexsort((found.labels.total, second, first, found.site))
        return found.take(order[np.unique(found.site[order], return_index=True)[1]])

    def fits(self, labels: Labels, time: Floats) -> Flags:
        """Whether plans are still in time and within capacities."""
        fits = (time <= self.rules.limit_s) & (labels.peak < self.rules.highest_peak)
        if self.terrain.resources:
            fits &= (labels.use[:, 1:] <= self.terrain.left[1:]).all(axis=1)
        return fits

    # Joins

    def _find_joined(self, subset: int) -> Deltas:
        found = CollectedDeltas()
        for left, right in self._splits(subset):
            if self.core.is_static(left) or self.core.is_static(right):
                self._join_once(found, left, right)
            else:
                self._join_and_unite(found, left, right)
        return self.placed(subset, self._with_standing(subset, self.kept(found)))

    def _splits(self, subset: int) -> Iterator[tuple[int, int]]:
        for sides_ in self.core.splits(subset):
            if self.places is None or all(side.bit_count() == 1 or side in self.places for side in sides_):
                yield sides_

    def placed(self, part: int, made: Deltas) -> Deltas:
        """What is made or lives where it is to be, if that is given."""
        if self.places is None or part not in self.places:
            return made
        return made.take(np.flatnonzero((made.site == self.places[part]) & ~made.tied))

    def terms(self, left: int, right: int) -> Terms:
        """Both terms of every join of two sides' tables whose sites agree."""
        a, b = self.sides(left), self.sides(right)
        rows_a, rows_b = matching(a, b, self.terrain.size)
        j1, j2 = a.state[rows_a], a.site[rows_a]
        subset = left | right
        at_left = self._join_steps(subset, right)
        at_right = self._join_steps(subset, left)
        left_labels, right_labels = a.labels.take(rows_a), b.labels.take(rows_b)
        both = self.register.sum(left, right, left_labels, right_labels)
        x = self.terrain.batch_s
        first = TimedOperator(at_left, j1, b.lag[rows_b], np.maximum(a.ready[rows_a], b.arrives[rows_b]), x)
        second = TimedOperator(at_right, j2, a.lag[rows_a], np.maximum(a.arrives[rows_a], b.ready[rows_b]), x)
        labels = first.added_to(second.added_to(both.labels))
        made = Terms(rows_a, rows_b, j1, j2, first.time, second.time, labels)
        return made.take(both.valid & self.fits(labels, np.maximum(first.time, second.time)))

    def _join_steps(self, subset: int, changed: int) -> OperatorAtSites:
        made = self.dataset(subset, self.core.complete(changed))
        return self.terrain.run(Operator.JOIN, made, self.dataset(changed).rate)

    def _join_and_unite(self, found: CollectedDeltas, left: int, right: int) -> None:
        terms = self.terms(left, right)
        if not len(terms.labels):
            return
        subset = left | right
        made = self.dataset(subset)
        parts = [self.dataset(subset, self.core.complete(side)) for side in (right, left)]
        union = self.terrain.run(Operator.UNION, made, parts[0].rate + parts[1].rate)
        copies = [self.terrain.copy(part, part.rate) for part in parts]
        wanted = range(self.terrain.size) if self.target is None or subset != self.core.everything else (self.target,)
        for site in range(self.terrain.size):
            early = (terms.left_site == site) & (terms.right_site == site)
            rows = np.ones(len(early), dtype=bool) if site in wanted else early
            self._unite(found, (left, right), terms.take(rows), site, ~early[rows], copies, union)

    def _unite(
        self,
        found: CollectedDeltas,
        split: tuple[int, int],
        terms: Terms,
        site: int,
        tied: Flags,
        copies: list[OperatorAtSites],
        union: OperatorAtSites,
    ) -> None:
        x = self.terrain.batch_s
        nothing, here = np.zeros(len(tied)), np.full(len(tied), site)
        first = TimedOperator(copies[0], (terms.left_site, here), nothing, terms.left_time, x)
        second = TimedOperator(copies[1], (terms.right_site, here), nothing, terms.right_time, x)
        last = TimedOperator(union, here, nothing, np.maximum(first.time, second.time), x)
        labels = last.added_to(first.added_to(second.added_to(terms.labels)))
        maker = (Joined, split, terms.left_side, terms.right_side, here)
        found.add(here, last.time, tied, labels, maker, self.fits(labels, last.time))

    def _join_once(self, found: CollectedDeltas, left: int, right: int) -> None:
        """The term of the side that changes; if neither does, of the side that stands for both."""
        subset = left | right
        changed, fixed = (left, right) if self.core.complete(subset) & left else (right, left)
        deltas, moves = self.deltas(changed), self.moves(changed)
        there = reach(deltas, moves, self.terrain.batch_s)
        state = self.states(fixed)
        steps = self._join_steps(subset, changed)
        for site in range(self.terrain.size):
            usable = np.isfinite(there.time[:, site]) & (~deltas.tied | (deltas.site == site))
            rows_d, rows_s = product(np.flatnonzero(usable), np.flatnonzero(state.site == site))
            raw = deltas.raw[rows_d] & (deltas.site[rows_d] == site)
            both = self.register.sum(changed, fixed, there.labels.take((rows_d, site)), state.labels.take(rows_s))
            use = both.labels.use + np.where(raw[:, None], moves.lag_use[site], 0.0)
            start = np.maximum(there.time[rows_d, site], state.ready[rows_s])
            here = np.full(len(rows_d), site)
            step = TimedOperator(steps, here, np.where(raw, moves.lag[site], 0.0), start, self.terrain.batch_s)
            labels = step.added_to(replace(both.labels, use=use))
            maker = (JoinedOnce, (changed, fixed), rows_d, rows_s, here)
            found.add(here, step.time, here < 0, labels, maker, both.valid & self.fits(labels, step.time))

    def kept(self, found: CollectedDeltas) -> Deltas:
        """The deltas that no other beats, at each site, tied and free ones apart."""
        if not found.sites:
            return no_deltas(self.terrain.width)
        site, time, tied = np.concatenate(found.sites), np.concatenate(found.times), np.concatenate(found.tied)
        labels = stack_labels(found.labels)
        group = (site * 2 + tied, labels.owned)
        order = np.lexsort(group)
        ends = np.flatnonzero((np.diff(group[0][order]) != 0) | (np.diff(group[1][order]) != 0)) + 1
        kept = np.concatenate([self._front(rows, time, labels) for rows in np.split(order, ends)])
        recipes = recipes_of(found.makers, kept)
        raw = np.zeros(len(kept), dtype=bool)
        return Deltas(site[kept], time[kept], tied[kept], raw, labels.take(kept), recipes)

    def _front(self, rows: Any, time: Floats, labels: Labels) -> Any:
        if not len(rows):
            return rows
        peak = np.maximum(labels.peak[rows], self.rules.idle_peak)
        others = np.column_stack((time[rows], peak, labels.use[rows, 1:]))
        kept = find_undominated(labels.use[rows, 0], others, labels.total[rows])
        return rows[kept if self.rules.most is None else thin_out(kept, time[rows], self.rules.most)]
