"""Any operator graph, each place alone: the price of a set of operators inside a place, written as `Choices`.

A place is a device, or one side of a link between Cloud nodes. With X the operators inside it, it pays

    up   * sum over streams s made inside  of max{ r(s,o) : o outside }
  + down * sum over streams s made outside of max{ r(s,o) : o inside }

(sum instead of max for streams that are not shared). That is a hypergraph cut: a stream with several demanded rates
gets one helper variable per rate, paid by the step from the rate below. Places depend on nothing but their own X, so
all of them go into one problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.plan.exact_numbers import BoolArray, Index, IntArray, total
from headrace.plan.place.cut import FOREVER, Choices, no_conflicts, widen_integers


@dataclass(frozen=True, slots=True)
class DemandGraph:
    """Demands: operator `reader` reads `stream` at `rate`.

    Streams are numbered, sources and operators alike; `sums` are not shared.
    """

    count: int
    stream: Index
    reader: Index
    rate: IntArray
    sums: BoolArray


@dataclass(frozen=True, slots=True)
class Places:
    """Prices per place; which streams are inside whatever is decided; which operators may be (`free`).

    All else is outside.
    """

    up: IntArray
    down: IntArray
    inside_place: Index
    inside_stream: Index
    free_place: Index
    free_operator: Index


def network(graph: DemandGraph, places: Places) -> Choices:
    """Variable k says whether free operator k is inside its place; helper variables follow."""
    status = _Status(graph, places)
    largest = (total(places.up) + total(places.down) + 1) * (total(graph.rate) + 1)
    price_up, price_down = widen_integers(4 * largest, places.up, places.down)
    return _Builder(len(places.free_place), price_up.dtype).build(
        _uploads(graph, places, status, price_up), _downloads(graph, places, status, price_down)
    )


INSIDE, OUTSIDE = -1, -2
"""Instead of a variable's number: a stream that is inside the place in any case, or outside."""


class _Status:
    """Looks up (place, stream): its variable, INSIDE or OUTSIDE."""

    def __init__(self, graph: DemandGraph, places: Places) -> None:
        self._width = graph.count
        place, stream, values = _touching(places)
        keys = self.key(place, stream)
        order = np.argsort(keys, kind="stable")
        self._keys, self._values = keys[order], values[order]

    def key(self, place: Index, stream: Index) -> Index:
        return place.astype(np.int64) * self._width + stream

    def __call__(self, place: Index, stream: Index) -> Index:
        if not len(self._keys):
            return np.full(len(place), OUTSIDE)
        keys = self.key(place, stream)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._values[at], OUTSIDE)


@dataclass(frozen=True, slots=True)
class _Terms:
    """Demands seen from a place: who makes the stream and who reads it (variables, INSIDE or OUTSIDE), grouped by
    (place, stream).
    """

    group: Index
    maker: Index
    reader: Index
    rate: IntArray
    price: IntArray
    shared: BoolArray
    upload: bool


def _uploads(graph: DemandGraph, places: Places, status: _Status, price: IntArray) -> _Terms:
    """Streams that are or may be inside, with their readers that are or may be outside."""
    place, stream, variable = _touching(places)
    which, demand = _expand(stream, graph.stream, graph.count)
    place, maker = place[which], variable[which]
    reader = status(place, graph.reader[demand])
    kept = reader != INSIDE
    return _terms(graph, status, place[kept], demand[kept], maker[kept], reader[kept], price, upload=True)


def _downloads(graph: DemandGraph, places: Places, status: _Status, price: IntArray) -> _Terms:
    """Operators that are or may be inside, with their inputs that are or may be outside."""
    place, operator, variable = _touching(places)
    which, demand = _expand(operator, graph.reader, graph.count)
    place, reader = place[which], variable[which]
    maker = status(place, graph.stream[demand])
    kept = maker != INSIDE
    return _terms(graph, status, place[kept], demand[kept], maker[kept], reader[kept], price, upload=False)


def _touching(places: Places) -> tuple[Index, Index, Index]:
    """Place, stream and variable (or INSIDE) of everything that is or may be inside a place."""
    certain = np.full(len(places.inside_place), INSIDE)
    return (
        np.concatenate([places.inside_place, places.free_place]),
        np.concatenate([places.inside_stream, places.free_operator]),
        np.concatenate([certain, np.arange(len(places.free_place))]),
    )


def _expand(wanted: Index, keys: Index, count: int) -> tuple[Index, Index]:
    """Finds, for every wanted number, each demand that has it as its key: positions in `wanted`, and of the demands."""
    order = np.argsort(keys, kind="stable")
    start = np.searchsorted(keys[order], np.arange(count + 1))
    many = start[wanted + 1] - start[wanted]
    which = np.repeat(np.arange(len(wanted)), many)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(many) - many, many)
    return which, order[start[wanted][which] + offset]


def _terms(
    graph: DemandGraph,
    status: _Status,
    place: Index,
    demand: Index,
    maker: Index,
    reader: Index,
    price: IntArray,
    *,
    upload: bool,
) -> _Terms:
    stream = graph.stream[demand]
    rate = graph.rate[demand].astype(price.dtype)
    shared = ~graph.sums[stream]
    return _Terms(status.key(place, stream), maker, reader, rate, price[place], shared, upload)


class _Builder:
    """Collects variables, penalties and arcs."""

    def __init__(self, count: int, dtype: np.dtype[Any]) -> None:
        self._count = count
        self._dtype = dtype
        self._constant = 0
        self._unary: list[tuple[Index, IntArray, bool]] = []
        self._arcs: list[tuple[Index, Index, IntArray]] = []

    def build(self, *terms: _Terms) -> Choices:
        for some in terms:
            self._add(some)
        out_cost = np.zeros(self._count, dtype=self._dtype)
        in_cost = out_cost.copy()
        for variable, cost, when_in in self._unary:
            np.add.at(in_cost if when_in else out_cost, variable, cost)
        tail, head, cost = (np.concatenate(column) for column in zip(*self._arcs, strict=True))
        return Choices(out_cost, in_cost, tail, head, cost, no_conflicts(), self._constant)

    def _add(self, terms: _Terms) -> None:
        """Certain readers set a floor under what the maker pays; readers with a variable pay the steps above it."""
        group, number = np.unique(terms.group, return_inverse=True)
        certain = terms.reader == (OUTSIDE if terms.upload else INSIDE)
        floor = np.zeros(len(group), dtype=self._dtype)
        np.maximum.at(floor, number[certain & terms.shared], terms.rate[certain & terms.shared])
        np.add.at(floor, number[certain & ~terms.shared], terms.rate[certain & ~terms.shared])
        first = np.unique(number, return_index=True)[1]
        self._pay_by_maker(terms, terms.maker[first], terms.price[first] * floor)
        above = ~certain & (~terms.shared | (terms.rate > floor[number]))
        alone, stepped = np.flatnonzero(above & ~terms.shared), np.flatnonzero(above & terms.shared)
        self._pay_between(terms, terms.maker[alone], terms.reader[alone], terms.price[alone] * terms.rate[alone])
        self._add_steps(terms, number, floor, stepped)

    def _add_steps(self, terms: _Terms, number: Index, floor: IntArray, rows: Index) -> None:
        """One node per demanded rate of a stream; the highest, if a single reader has it, is that reader's own
        variable.
        """
        if not len(rows):
            return
        ranks = np.unique(terms.rate[rows], return_inverse=True)[1]
        rows = rows[np.lexsort((ranks, number[rows]))]
        group, rate = number[rows], terms.rate[rows]
        new_group = np.concatenate([[True], group[1:] != group[:-1]])
        new_step = new_group | np.concatenate([[True], rate[1:] != rate[:-1]])
        step = np.cumsum(new_step) - 1
        start = np.flatnonzero(new_step)
        first_of_group = new_group[start]
        last_of_group = np.concatenate([first_of_group[1:], [True]])
        below = np.where(first_of_group, floor[group[start]], np.concatenate([rate[start][:1], rate[start][:-1]]))
        merged = last_of_group & (np.bincount(step) == 1)
        node = np.where(merged, terms.reader[rows[start]], self._count + np.cumsum(~merged) - 1)
        self._count += int((~merged).sum())
        self._pay_between(terms, terms.maker[rows[start]], node, terms.price[rows[start]] * (rate[start] - below))
        own = ~merged[step]
        self._bind(terms, node[step[own]], terms.reader[rows[own]])
        lower = np.flatnonzero(~last_of_group)
        self._bind(terms, node[lower], node[lower + 1])

    def _pay_by_maker(self, terms: _Terms, maker: Index, cost: IntArray) -> None:
        """Adds costs for readers that are certain: an upload is paid if its maker is inside, a download if it is
        outside.
        """
        fixed = maker < 0
        self._constant += total(cost[fixed])
        self._unary.append((maker[~fixed], cost[~fixed], terms.upload))

    def _pay_between(self, terms: _Terms, maker: Index, reader: Index, cost: IntArray) -> None:
        """An upload is paid if the maker is inside and the reader is not, a download the other way round."""
        fixed = maker < 0
        self._unary.append((reader[fixed], cost[fixed], not terms.upload))
        ends = (maker[~fixed], reader[~fixed]) if terms.upload else (reader[~fixed], maker[~fixed])
        self._arcs.append((*ends, cost[~fixed]))

    def _bind(self, terms: _Terms, node: Index, follower: Index) -> None:
        """An upload step is saved only if all followers are inside; a download step is paid if any of them is."""
        ends = (node, follower) if terms.upload else (follower, node)
        self._arcs.append((*ends, np.full(len(node), FOREVER, dtype=self._dtype)))
