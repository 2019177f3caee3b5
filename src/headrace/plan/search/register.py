"""The vertices that several aliases of one source share, so that a self-join pays for them once.

Every label of such an alias carries one bit per vertex that it makes. Where two labels meet, what both made is
counted once, and labels that make the same vertex in different ways do not go together: a vertex has one producer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headrace.plan.datasets import Dataset, single_input
from headrace.plan.search.supply import Flags, Ints, Labels, Moves
from headrace.plan.search.terrain import Floats, Terrain
from headrace.plan.statistics import CoreStatistics

MOST_BITS = 62


@dataclass(frozen=True, slots=True)
class Sum:
    """Two labels together, and whether they go together."""

    labels: Labels
    valid: Flags


class Register:
    def __init__(self, core: CoreStatistics, terrain: Terrain, wholes: Mapping[int, Dataset]) -> None:
        self._core, self._terrain, self._wholes = core, terrain, wholes
        names = {bit: single_input(core, bit, whole).fingerprint for bit, whole in wholes.items()}
        repeated = [name for name, count in sorted(Counter(names.values()).items()) if count > 1]
        self._group = {bit: repeated.index(name) for bit, name in names.items() if name in repeated}
        self._per_group = 1 + terrain.size + terrain.size**2
        self._use: dict[int, Floats] = {}
        self._arrival: dict[int, float] = {}
        if len(repeated) * self._per_group > MOST_BITS:
            self._group = {}

    def _first_bit(self, bit: int) -> int:
        return self._group[bit] * self._per_group

    def capture_bit(self, bit: int) -> int:
        if bit not in self._group:
            return 0
        number = self._first_bit(bit)
        captured = self._terrain.capture(self._wholes[bit])
        self._use[number], self._arrival[number] = captured.use, captured.arrival_s
        return 1 << number

    def with_bits(self, bit: int, moves: Moves) -> Moves:
        """Notes what copies and relations of an input that has several aliases use, and gives each a bit."""
        if bit not in self._group or moves.home < 0:
            return moves
        size, first = self._terrain.size, self._first_bit(bit) + 1
        apply_bits = np.left_shift(1, first + np.arange(size))
        copy_bits = np.left_shift(1, first + size + np.arange(size * size)).reshape(size, size)
        captured_s = self._terrain.capture(self._wholes[bit]).arrival_s
        arrives = captured_s + moves.copy_raw.time[moves.home]
        for site in range(size):
            self._use[first + site] = moves.apply.use[site]
            self._arrival[first + site] = float(arrives[site] + moves.apply.time[site])
            for source in range(size):
                steps = moves.copy_raw if source == moves.home else moves.copy
                start = captured_s if source == moves.home else arrives[source]
                number = first + size + source * size + site
                self._use[number] = steps.use[source, site]
                self._arrival[number] = float(start + steps.time[source, site])
        return replace(moves, copy_bits=copy_bits, apply_bits=apply_bits)

    def sum(self, left: int, right: int, a: Labels, b: Labels) -> Sum:
        """Two sides' labels added up, row by row, what they share counted once."""
        labels = Labels(a.use + b.use, a.total + b.total, np.maximum(a.peak, b.peak), a.owned | b.owned)
        valid = np.ones(len(labels), dtype=bool)
        if not self._group:
            return Sum(labels, valid)
        shared = a.owned & b.owned
        for owned in np.unique(shared[shared != 0]):
            rows = shared == owned
            bits = [number for number in range(MOST_BITS) if int(owned) >> number & 1]
            labels.use[rows] -= sum(self._use[number] for number in bits)
            labels.total[rows] -= sum(self._arrival[number] for number in bits)
        valid = self._one_producer_each(labels.owned)
        if self._group.keys() <= set(self._core.bits(left | right)):
            labels = replace(labels, owned=np.zeros_like(labels.owned))
        return Sum(labels, valid)

    def _one_producer_each(self, owned: Ints) -> Flags:
        size = self._terrain.size
        valid = np.ones(len(owned), dtype=bool)
        for group in set(self._group.values()):
            first = group * self._per_group + 1 + size
            for site in range(size):
                made = sum((owned >> (first + source * size + site)) & 1 for source in range(size))
                valid &= made <= 1
        return valid
