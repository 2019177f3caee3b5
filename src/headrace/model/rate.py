"""How fast a dataset changes, as a function of how many seconds of changes are pushed at once.

Most rates do not depend on the batch. Behind a group-by they do: a group that is touched twice within one batch changes
once, so that patience saves rows. Rates add up and scale, which is all that joins do to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FASTEST = 1e30
"""Rows per second that nothing exceeds: joins of joins multiply rates, and the result has to stay a number."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The changes of `count` groups (at least 1) that `input` touches: the old row leaves, the new one comes.

    Where groups are of time windows, `count` are those of windows that are open, and as many more are opened while a
    batch is gathered as `opened` says for each second.
    """

    count: float
    input: Rate
    opened: float = 0.0

    def at(self, batch_s: float) -> float:
        arriving = self.input.at(batch_s) * batch_s
        if arriving <= 0.0:
            return 0.0
        count = self.count + self.opened * batch_s
        untouched = 0.0 if count <= 1.0 else math.exp(arriving * math.log1p(-1.0 / count))
        return 2.0 * min(count * (1.0 - untouched), arriving) / batch_s


@dataclass(frozen=True, slots=True)
class Rate:
    """Changed rows per second: a constant, and shares of the changes of groups."""

    constant: float = 0.0
    grouped: tuple[tuple[float, Groups], ...] = ()

    def at(self, batch_s: float) -> float:
        return self.constant + sum(share * groups.at(batch_s) for share, groups in self.grouped)

    def __mul__(self, factor: float) -> Rate:
        grouped = tuple((min(share * factor, FASTEST), groups) for share, groups in self.grouped)
        return Rate(min(self.constant * factor, FASTEST), grouped)

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.constant + other.constant, self.grouped + other.grouped)
