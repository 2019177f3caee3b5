"""Which inputs of a core can be joined with which: sub-joins as sets of bits, and the ways to split them in two.

Only connected sets are sub-joins, so that no plan multiplies tables that no condition relates; unless the query does.
Bushy trees are tried for few inputs: the number of splits grows as 3^n. Beyond that each join adds one input, and of
very many sub-joins only the smallest results of each size are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

MOST_BUSHY = 5
"""Inputs up to which every connected tree is tried."""

MOST_ORDERS = 8
"""Inputs up to which every order of joins is tried."""

BEAM = 24
"""Sub-joins of one size that are looked at when there are more inputs."""

MOST_AT_FULL_BEAM = 12
"""Inputs up to which that many are looked at: beyond that fewer are, so that the work grows with the inputs only."""


@dataclass(frozen=True)
class JoinGraph:
    """`neighbours[i]` are the bits of the inputs that input i is joined with directly."""

    neighbours: tuple[int, ...]
    size_of: Callable[[int], float]
    """How large the result of a sub-join is, as a guide."""

    @property
    def everything(self) -> int:
        return (1 << len(self.neighbours)) - 1

    def is_connected(self, subset: int) -> bool:
        return self._find_reached(subset & -subset, subset) == subset

    def _find_reached(self, start: int, within: int) -> int:
        reached, frontier = start, start
        while frontier:
            step = 0
            for number, neighbours in enumerate(self.neighbours):
                if frontier >> number & 1:
                    step |= neighbours
            frontier = step & within & ~reached
            reached |= frontier
        return reached

    @cached_property
    def sub_joins(self) -> tuple[int, ...]:
        """Connected sets of two and more inputs, small ones first. Grown one input at a time."""
        found: set[int] = set()
        latest = {1 << number for number in range(len(self.neighbours))}
        while latest:
            latest = {subset | bit for subset in latest for bit in self._bits_next_to(subset)}
            if len(self.neighbours) > MOST_ORDERS:
                latest = set(sorted(latest, key=lambda subset: (self.size_of(subset), subset))[: self._beam])
            found |= latest
        return tuple(sorted(found, key=lambda subset: (subset.bit_count(), subset)))

    @property
    def _beam(self) -> int:
        """Each sub-join of one size meets those of the next: their work is the beam squared, for every size."""
        return max(1, int(BEAM * min(1.0, MOST_AT_FULL_BEAM / len(self.neighbours)) ** 2))

    def _bits_next_to(self, subset: int) -> Iterator[int]:
        around = 0
        for number, neighbours in enumerate(self.neighbours):
            if subset >> number & 1:
                around |= neighbours
        around &= ~subset
        return (1 << number for number in range(len(self.neighbours)) if around >> number & 1)

    def splits(self, subset: int) -> Iterator[tuple[int, int]]:
        """The two sides of every join that makes a sub-join; the first side holds its first input."""
        first = subset & -subset
        for part in self._find_parts(subset):
            rest = subset ^ part
            if self._is_looked_at(part) and self._is_looked_at(rest):
                yield (part, rest) if part & first else (rest, part)

    def _is_looked_at(self, subset: int) -> bool:
        return subset.bit_count() == 1 or subset in self._sub_join_set

    @cached_property
    def _sub_join_set(self) -> frozenset[int]:
        return frozenset(self.sub_joins)

    def _find_parts(self, subset: int) -> Iterator[int]:
        """One side of each split, as candidates."""
        first = subset & -subset
        if len(self.neighbours) > MOST_BUSHY:
            bits = [1 << number for number in range(len(self.neighbours)) if subset >> number & 1]
            yield from bits if len(bits) > 2 else bits[:1]
            return
        part = (subset - 1) & subset
        while part:
            if part & first:
                yield part
            part = (part - 1) & subset


def join_graph(
    size: int, classes: Sequence[set[int]], residuals: Sequence[set[int]], size_of: Callable[[int], float]
) -> JoinGraph:
    """Inputs in one class are joined. Residuals join what classes leave apart, and nothing joins the rest: all with
    all.
    """
    everything = {1 << number for number in range(size)}
    graph = JoinGraph(_adjacent(size, classes), size_of)
    for groups in ((*classes, *residuals), (everything,)):
        if not graph.is_connected(graph.everything):
            graph = JoinGraph(_adjacent(size, groups), size_of)
    return graph


def _adjacent(size: int, groups: Sequence[set[int]]) -> tuple[int, ...]:
    return tuple(
        sum({other for group in groups if 1 << number in group for other in group} - {1 << number})
        for number in range(size)
    )
