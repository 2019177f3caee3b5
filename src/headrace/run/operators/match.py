"""Changes of outer, semi and anti joins: pairs, and rows that have a partner or none.

A pair is there from the later of its two rows on. How many partners a row has is a step function of time: it says
whether the row shows alone when it changes, and where it goes from none to some (or back) the row itself goes or comes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.meaning.evaluate_join import Equality
from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.block import DerivationKind
from headrace.model.expr import TRUE, Expr
from headrace.run.operators.expressions import column_of
from headrace.run.operators.lookup import Integers
from headrace.run.operators.numbering import GroupTimes, number_rows, pairs, sums_by
from headrace.run.operators.sides import TouchedKeys, make_changes

_NOBODY = -1
_PAIRS_AT_ONCE = 1_000_000

_ALONE = {
    DerivationKind.LEFT: (0,),
    DerivationKind.RIGHT: (1,),
    DerivationKind.FULL: (0, 1),
    DerivationKind.SEMI: (0,),
    DerivationKind.ANTI: (0,),
}
"""Of which sides rows show by themselves."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """Positions on both sides (of a row alone the other is nobody), times and weights."""

    left: Integers
    right: Integers
    time: Integers
    weight: Integers


def match_sides(
    kind: DerivationKind,
    condition: tuple[tuple[Equality, ...], Expr],
    found: TouchedKeys,
    around: Surroundings = NOTHING,
) -> pa.Table:
    """The changes of the join's rows, with the fields of both sides (semi and anti: of the left)."""
    match = _Match(found, *condition, around)
    one_sided = kind in (DerivationKind.SEMI, DerivationKind.ANTI)
    shown = [] if one_sided else [match.pairs()]
    shown += [match.alone(side, partnered=kind is DerivationKind.SEMI) for side in _ALONE[kind]]
    left, right, time, weight = (
        np.concatenate([getattr(part, name) for part in shown]) for name in ("left", "right", "time", "weight")
    )
    columns = _take_columns(found.sides[0].rows, left)
    if not one_sided:
        columns |= _take_columns(found.sides[1].rows, right)
    return make_changes(columns, time, weight)


def _take_columns(rows: pa.Table, positions: Integers) -> dict[str, pa.ChunkedArray]:
    """Rows at positions; nobody's are NULL."""
    taken = rows.take(pa.array(positions, mask=positions == _NOBODY))
    return {name: taken.column(name) for name in rows.column_names}


class _Match:
    def __init__(self, found: TouchedKeys, equalities: tuple[Equality, ...], rest: Expr, around: Surroundings) -> None:
        self._sides = found.sides
        self._rest = rest
        self._around = around
        possible = np.ones(found.keys.num_rows, bool)
        for name, equality in zip(found.names, equalities, strict=True):
            if not equality.null_safe:
                possible &= found.keys.column(name).is_valid().to_numpy()
        # Numbers that meet nothing, not even each other, for keys with a NULL that equals nothing.
        self._groups = tuple(
            np.where(possible[side.group], side.group, nothing)
            for side, nothing in zip(found.sides, (-1, -2), strict=True)
        )

    def pairs(self) -> _Shown:
        """Pairs of which at least one row is new."""
        left, right = self._sides
        new, other_new = np.flatnonzero(left.is_new), np.flatnonzero(right.is_new)
        old, everyone = np.flatnonzero(~left.is_new), np.arange(len(right.group))
        first, second = self._match_rows(0, new, everyone), self._match_rows(0, old, other_new)
        i, j = np.concatenate((first[0], second[0])), np.concatenate((first[1], second[1]))
        return _Shown(i, j, np.maximum(left.time[i], right.time[j]), left.weight[i] * right.weight[j])

    def _match_rows(self, side: int, mine: Integers, others: Integers) -> tuple[Integers, Integers]:
        """Finds, among some rows of a side and some of the other, all pairs for which the condition holds."""
        if self._rest == TRUE:
            return self._of_equal_keys(side, mine, others)
        found = [self._holding(side, part, others) for part in self._split_rows(side, mine, others)]
        return np.concatenate([i for i, _ in found]), np.concatenate([j for _, j in found])

    def _split_rows(self, side: int, mine: Integers, others: Integers) -> list[Integers]:
        """Rows in parts that make about so many pairs at once: without a key all rows meet all others."""
        theirs = np.sort(self._groups[1 - side][others])
        groups = self._groups[side][mine]
        counts = np.searchsorted(theirs, groups, "right") - np.searchsorted(theirs, groups, "left")
        part = np.cumsum(counts) // _PAIRS_AT_ONCE
        return np.split(mine, np.flatnonzero(np.diff(part)) + 1)

    def _of_equal_keys(self, side: int, mine: Integers, others: Integers) -> tuple[Integers, Integers]:
        at, other_at = pairs(self._groups[side][mine], self._groups[1 - side][others])
        return mine[at], others[other_at]

    def _holding(self, side: int, mine: Integers, others: Integers) -> tuple[Integers, Integers]:
        i, j = self._of_equal_keys(side, mine, others)
        left, right = (i, j) if side == 0 else (j, i)
        columns = _take_columns(self._sides[0].rows, left) | _take_columns(self._sides[1].rows, right)
        pairs_ = pa.table(columns) if columns else pa.table({"": left})
        mask = column_of(self._rest, pairs_, self._around).fill_null(False).to_numpy(zero_copy_only=False)
        return i[mask], j[mask]

    def alone(self, number: int, *, partnered: bool) -> _Shown:
        """Rows of a side as they come to have partners, or none."""
        side = self._sides[number]
        units, steps, has, had = self._partners_over_time(number)
        shows, showed = (has > 0) == partnered, (had > 0) == partnered
        mine = np.flatnonzero(side.is_new)
        changed = mine[shows[steps.of_row[len(steps.of_row) - len(mine) :]]]
        flips = np.flatnonzero(shows != showed)
        at, rows = pairs(steps.group[flips], units)
        at = flips[at]
        earlier = side.time[rows] < steps.time[at]
        at, rows = at[earlier], rows[earlier]
        position = np.concatenate((changed, rows))
        time = np.concatenate((side.time[changed], steps.time[at]))
        weight = np.concatenate((side.weight[changed], np.where(shows[at], 1, -1) * side.weight[rows]))
        nobody = np.full(len(position), _NOBODY)
        left, right = (position, nobody) if number == 0 else (nobody, position)
        return _Shown(left, right, time, weight)

    def _partners_over_time(self, number: int) -> tuple[Integers, GroupTimes, Integers, Integers]:
        """The unit of each row of a side, and how many partners units have after and before each step.

        Steps are those of new partners, then those of the side's own new rows, which change nothing here.
        """
        side, other = self._sides[number], self._sides[1 - number]
        units, partners, theirs = self._partners(number)
        new, mine = other.is_new[theirs], side.is_new
        count = int(max(units.max(initial=-1), partners.max(initial=-1))) + 1
        initial = sums_by(other.weight[theirs[~new]], partners[~new], count)
        times = np.concatenate((other.time[theirs[new]], side.time[mine]))
        steps = GroupTimes.of(np.concatenate((partners[new], units[mine])), times)
        amounts = np.concatenate((other.weight[theirs[new]], np.zeros(int(mine.sum()), np.int64)))
        has = steps.running(amounts, initial)
        return units, steps, has, steps.before(has, initial)

    def _partners(self, number: int) -> tuple[Integers, Integers, Integers]:
        """The unit of each row of a side, and all pairs of a unit and a position of the other side that meet.

        Rows of a unit have the same partners: those of a key, or, if more than the key decides, equal rows. Of the
        latter only those are looked at that may change.
        """
        side, other = self._sides[number], self._sides[1 - number]
        if self._rest == TRUE:
            possible = np.flatnonzero(self._groups[1 - number] >= 0)
            return side.group, other.group[possible], possible
        equal = number_rows(side.rows.columns, len(side.group))
        first = equal.first_rows
        met_new, _ = self._match_rows(number, first, np.flatnonzero(other.is_new))
        chosen = np.union1d(equal.of_row[side.is_new], equal.of_row[met_new])
        i, j = self._match_rows(number, first[chosen], np.arange(len(other.group)))
        return equal.of_row, equal.of_row[i], j
