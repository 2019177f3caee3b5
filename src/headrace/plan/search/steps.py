"""Operators on whole tables of labels at once, and which rows of two tables go together."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.plan.search.supply import Ints, JoinSides, Labels
from headrace.plan.search.terrain import Floats, OperatorAtSites


class TimedOperator:
    """One operator after given starts: where its output lives already it stands, elsewhere it is made."""

    def __init__(self, steps: OperatorAtSites, place: Any, lag: Floats, start: Floats, batch_s: float) -> None:
        output = place[-1] if isinstance(place, tuple) else place
        stays = place[0] == place[1] if isinstance(place, tuple) else np.zeros(len(start), dtype=bool)
        stands = ~np.isnan(steps.standing[output]) & ~stays
        took = np.where(stands, 0.0, steps.time[place] + lag)
        self.time = np.where(stands, steps.standing[output], start + took)
        self._use = np.where(stands[:, None], steps.revival[output], steps.use[place])
        self._made = ~stands & ~stays
        self._busy = took / batch_s

    def added_to(self, labels: Labels) -> Labels:
        return Labels(
            labels.use + self._use,
            labels.total + np.where(self._made, self.time, 0.0),
            np.maximum(labels.peak, self._busy),
            labels.owned,
        )


def matching(a: JoinSides, b: JoinSides, size: int) -> tuple[Ints, Ints]:
    """All pairs of rows where each side's delta is at the site of the other's state."""
    sites = np.arange(size)
    group_a = (sites[:, None] * size + sites[None, :]).ravel()
    group_b = (sites[None, :] * size + sites[:, None]).ravel()
    count_a, count_b = np.diff(a.starts)[group_a], np.diff(b.starts)[group_b]
    pairs = count_a * count_b
    group = np.repeat(np.arange(size * size), pairs)
    within = np.arange(len(group)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    rows_a = a.starts[group_a[group]] + within // np.maximum(count_b[group], 1)
    rows_b = b.starts[group_b[group]] + within % np.maximum(count_b[group], 1)
    return rows_a, rows_b


def product(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    return np.repeat(first, len(second)), np.tile(second, len(first))
