"""Which rows of lists are first, and how that changes over time: on integers alone, all lists at once.

A row is its place in the order of all rows of all lists (`run.rows.places`), so a list in order has increasing places.
Rows that share a rank are a unit: those that ORDER BY does not tell apart under `rank` and `dense_rank`, each row by
itself under `row_number`.

A list that changes at many times is halved in time, and its halves again, until each part is one time. A part needs
only the rows that may be first at some time in it:

    times 1..8      the first rows that stay, and all rows that change
    1..4, 5..8      the same of each half: of what came in 1..4, only what is among the first then matters in 5..8
    1, 2, ... 8     what is first before and after one time, compared

So a change costs as much as the first rows of its list, however large the list is and however often it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.model.relation import Ranking
from headrace.run.operators.lookup import Integers
from headrace.run.operators.numbering import spread, sums_by

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks that are shown: those in (offset, last]. Where they are `named`, a row is shown with its rank."""

    ranking: Ranking
    offset: int
    last: int
    named: bool

    def count_before(self, lists: Integers, units: Integers, weights: Integers) -> Integers:
        """Counts what comes before the unit of every entry of lists in order: rows, or units under `dense_rank`.

        Its rank is one more.
        """
        if not len(lists):
            return lists
        begins_list = np.r_[True, lists[1:] != lists[:-1]]
        begins = begins_list | np.r_[True, units[1:] != units[:-1]]
        starts = np.flatnonzero(begins)
        sums = np.add.reduceat(weights, starts)
        if self.ranking is Ranking.DENSE_RANK:
            sums = (sums > 0).astype(np.int64)
        before = np.cumsum(sums) - sums
        first = begins_list[starts]
        before -= before[first][np.cumsum(first) - 1]
        return np.asarray(before[np.cumsum(begins) - 1])

    def find_shown(self, lists: Integers, units: Integers, weights: Integers) -> tuple[Integers, Integers, Integers]:
        """Positions among entries of lists in order, with their ranks and how often they are shown."""
        before = self.count_before(lists, units, weights)
        if self.ranking is not Ranking.ROW_NUMBER:
            shown = np.flatnonzero((before >= self.offset) & (before < self.last))
            return shown, before[shown] + 1, weights[shown]
        low = np.maximum(before, self.offset)
        copies = np.minimum(before + weights, self.last) - low
        shown = np.flatnonzero(copies > 0)
        low, copies = low[shown], copies[shown]
        if not self.named:
            return shown, low + 1, copies
        return np.repeat(shown, copies), spread(low + 1, copies), np.ones(int(copies.sum()), np.int64)


@dataclass(frozen=True, slots=True)
class ListRows:
    """Rows of lists, or parts of lists: their places and how often they occur."""

    lists: Integers
    places: Integers
    weights: Integers

    def choose(self, chosen: Flags) -> ListRows:
        return ListRows(self.lists[chosen], self.places[chosen], self.weights[chosen])


@dataclass(frozen=True, slots=True)
class ListChanges:
    """Rows that lists gain or lose at numbered times; a time belongs to one list, and its later ones are larger."""

    rows: ListRows
    times: Integers

    def choose(self, chosen: Flags) -> ListChanges:
        return ListChanges(self.rows.choose(chosen), self.times[chosen])


@dataclass(frozen=True, slots=True)
class ShownChanges:
    """What is shown more or less often from a numbered time on."""

    times: Integers
    places: Integers
    ranks: Integers
    weights: Integers


def follow_first_rows(ranks: Ranks, units: Integers, start: ListRows, changes: ListChanges) -> ShownChanges:
    """How changes of lists change what is shown. `units` has the unit of every place, `start` all rows before."""
    found = [
        _compare_shown(ranks, units, rows, parted)
        for rows, parted in _halve_until_one_time(ranks, units, start, changes)
    ]
    nothing = np.zeros(0, np.int64)
    times, places, shown_ranks, weights = (
        np.concatenate([nothing, *(getattr(one, name) for one in found)])
        for name in ("times", "places", "ranks", "weights")
    )
    return ShownChanges(times, places, shown_ranks, weights)


def _halve_until_one_time(
    ranks: Ranks, units: Integers, rows: ListRows, changes: ListChanges
) -> Iterator[tuple[ListRows, ListChanges]]:
    """Yields parts of one time each, with the rows before it that matter."""
    while len(changes.times):
        rows, changes = _renumber_lists(rows, changes)
        low, high = _find_spans(changes)
        is_one = low == high
        yield rows.choose(is_one[rows.lists]), changes.choose(is_one[changes.rows.lists])
        rows, changes = rows.choose(~is_one[rows.lists]), changes.choose(~is_one[changes.rows.lists])
        rows, changes = _leave_out_later(ranks, units, *_halve(rows, changes, (low + high + 1) // 2))


def _renumber_lists(rows: ListRows, changes: ListChanges) -> tuple[ListRows, ListChanges]:
    """Only lists that change, from 0 on."""
    size = 1 + max(int(rows.lists.max(initial=-1)), int(changes.rows.lists.max()))
    is_changed = np.zeros(size, np.bool_)
    is_changed[changes.rows.lists] = True
    number = np.cumsum(is_changed) - 1
    rows = rows.choose(is_changed[rows.lists])
    of_changes = ListRows(number[changes.rows.lists], changes.rows.places, changes.rows.weights)
    return ListRows(number[rows.lists], rows.places, rows.weights), ListChanges(of_changes, changes.times)


def _find_spans(changes: ListChanges) -> tuple[Integers, Integers]:
    """The first and the last time of each list."""
    count = int(changes.rows.lists.max()) + 1
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(low, changes.rows.lists, changes.times)
    np.maximum.at(high, changes.rows.lists, changes.times)
    return low, high


def _halve(rows: ListRows, changes: ListChanges, middle: Integers) -> tuple[ListRows, ListChanges]:
    """Two lists for each: until the middle, and from there on, where what came before is there at the beginning."""
    late = changes.times >= middle[changes.rows.lists]
    early = changes.rows.choose(~late)
    lists = np.concatenate((2 * rows.lists, 2 * rows.lists + 1, 2 * early.lists + 1))
    places = np.concatenate((rows.places, rows.places, early.places))
    weights = np.concatenate((rows.weights, rows.weights, early.weights))
    parted = ListRows(2 * changes.rows.lists + late, changes.rows.places, changes.rows.weights)
    return ListRows(lists, places, weights), ListChanges(parted, changes.times)


def _leave_out_later(
    ranks: Ranks, units: Integers, rows: ListRows, changes: ListChanges
) -> tuple[ListRows, ListChanges]:
    """Leaves out rows behind so many that stay that they are never first."""
    lists, places, of_entry = _unite_entries(rows, changes.rows, len(units))
    here = np.concatenate((rows.weights, np.zeros(len(changes.times), np.int64)))
    lost = np.concatenate((np.zeros(len(rows.lists), np.int64), np.minimum(changes.rows.weights, 0)))
    here, lost = sums_by(here, of_entry, len(lists)), sums_by(lost, of_entry, len(lists))
    may_be_first = ranks.count_before(lists, units[places], np.maximum(here + lost, 0)) < ranks.last
    kept = may_be_first & (here > 0)
    return (
        ListRows(lists[kept], places[kept], here[kept]),
        changes.choose(may_be_first[of_entry[len(rows.lists) :]]),
    )


def _unite_entries(rows: ListRows, more: ListRows, size: int) -> tuple[Integers, Integers, Integers]:
    """Lists and places of all entries, each pair once and in order, and which of these each entry is."""
    keys = np.concatenate((rows.lists, more.lists)) * size + np.concatenate((rows.places, more.places))
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.ones(len(keys), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    of_entry = np.empty(len(keys), np.int64)
    of_entry[order] = np.cumsum(begins) - 1
    lists, places = np.divmod(ordered[begins], size)
    return lists, places, of_entry


def _compare_shown(ranks: Ranks, units: Integers, rows: ListRows, changes: ListChanges) -> ShownChanges:
    """Compares lists that change at one time: what is shown after it, less what is shown before."""
    lists, places, of_entry = _unite_entries(rows, changes.rows, len(units))
    before = sums_by(rows.weights, of_entry[: len(rows.lists)], len(lists))
    after = before + sums_by(changes.rows.weights, of_entry[len(rows.lists) :], len(lists))
    assert (after >= 0).all(), f"a row occurs {after.min()} times"
    found = [_find_shown_entries(ranks, units, lists, places, weights) for weights in (after, before)]
    at, shown, weights = (np.concatenate(pair) for pair in zip(*found, strict=True))
    weights[len(found[0][0]) :] *= -1
    at, shown, weights = _add_up(at, shown, weights) if ranks.named else _add_up_unranked(at, weights)
    times = np.zeros(int(lists.max(initial=-1)) + 1, np.int64)
    times[changes.rows.lists] = changes.times
    return ShownChanges(times[lists[at]], places[at], shown, weights)


def _find_shown_entries(
    ranks: Ranks, units: Integers, lists: Integers, places: Integers, weights: Integers
) -> tuple[Integers, Integers, Integers]:
    there = np.flatnonzero(weights)
    shown, shown_ranks, copies = ranks.find_shown(lists[there], units[places[there]], weights[there])
    return there[shown], shown_ranks, copies


def _add_up(at: Integers, ranks: Integers, weights: Integers) -> tuple[Integers, Integers, Integers]:
    order = np.lexsort((ranks, at))
    at, ranks = at[order], ranks[order]
    starts = np.flatnonzero(np.r_[True, (at[1:] != at[:-1]) | (ranks[1:] != ranks[:-1])][: len(at)])
    sums = np.add.reduceat(weights[order], starts) if len(starts) else weights
    starts, sums = starts[sums != 0], sums[sums != 0]
    return at[starts], ranks[starts], sums


def _add_up_unranked(at: Integers, weights: Integers) -> tuple[Integers, Integers, Integers]:
    sums = sums_by(weights, at, int(at.max(initial=-1)) + 1)
    changed = np.flatnonzero(sums)
    return changed, np.zeros(len(changed), np.int64), sums[changed]
