"""Deltas while they are collected, before the beaten ones are dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.plan.search.supply import Deltas, Flags, Ints, Labels
from headrace.plan.search.terrain import Floats


@dataclass(slots=True)
class CollectedDeltas:
    """Deltas of one dataset while they are collected.

    A maker is a recipe type, its constant arguments, and its columns.
    """

    sites: list[Ints] = field(default_factory=list)
    times: list[Floats] = field(default_factory=list)
    tied: list[Flags] = field(default_factory=list)
    labels: list[Labels] = field(default_factory=list)
    makers: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, site: Ints, time: Floats, tied: Flags, labels: Labels, maker: tuple[Any, ...], rows: Flags) -> None:
        """Takes those rows; the columns of the maker are given for all."""
        self.sites.append(site[rows])
        self.times.append(time[rows])
        self.tied.append(tied[rows])
        self.labels.append(labels.take(rows))
        recipe, constants, *columns = maker
        self.makers.append((recipe, constants, *(column[rows] for column in columns)))


def no_deltas(width: int) -> Deltas:
    empty = np.zeros(0)
    labels = Labels(np.zeros((0, width)), empty, empty, np.zeros(0, dtype=np.int64))
    return Deltas(np.zeros(0, dtype=np.int64), empty, empty > 0, empty > 0, labels, ())


def recipes_of(makers: list[tuple[Any, ...]], kept: Ints) -> tuple[object, ...]:
    """The recipe of each kept row; rows are numbered through all makers in turn."""
    starts = np.cumsum([0, *(len(maker[2]) for maker in makers)])
    recipes = []
    for row in kept:
        number = int(np.searchsorted(starts, row, side="right")) - 1
        recipe, constants, *columns = makers[number]
        arguments = (column[row - starts[number]] for column in columns)
        recipes.append(recipe(*constants, *(x if isinstance(x, tuple) else int(x) for x in arguments)))
    return tuple(recipes)
