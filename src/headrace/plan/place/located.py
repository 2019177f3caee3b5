"""Mode `located`: an operator runs on a device only if one of its inputs is there.

Where a device's data reach an operator through one input only, that is a plain "this one with that one" and fits into
a cut. Through several inputs it is "with one of those", which no cut expresses: a row for the search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.plan.exact_numbers import BoolArray, Index
from headrace.plan.place.graph import NOWHERE, Numbered
from headrace.plan.place.rows import Row


class Closure(NamedTuple):
    """Member `needs[k, 0]` only with member `needs[k, 1]`; and the rows."""

    needs: Index
    rows: tuple[Row, ...]


def closure(given: Numbered) -> Closure:
    """What mode `located` asks of the members (pairs of device and operator), by their positions."""
    position = {
        pair: at
        for at, pair in enumerate(zip(given.member_device.tolist(), given.member_operator.tolist(), strict=True))
    }
    inputs: dict[int, list[int]] = {}
    for stream, reader in zip(given.graph.stream.tolist(), given.graph.reader.tolist(), strict=True):
        inputs.setdefault(reader, []).append(stream)
    pinned = given.pinned.tolist()
    wanted = [(device, operator, at) for (device, operator), at in position.items()]
    fixed = range(given.sources, given.graph.count)
    wanted += [(pinned[operator], operator, NOWHERE) for operator in fixed if pinned[operator] != NOWHERE]
    needs, rows = [], []
    for device, operator, at in wanted:
        if any(pinned[stream] == device for stream in inputs.get(operator, ())):
            continue
        able = sorted({position[device, stream] for stream in inputs.get(operator, ()) if (device, stream) in position})
        if at == NOWHERE:
            rows.append(Row(tuple(able), (-1,) * len(able), -1))
        elif len(able) == 1:
            needs.append((at, able[0]))
        else:
            rows.append(Row((at, *able), (1, *(-1,) * len(able)), 0))
    return Closure(np.array(needs, dtype=np.int64).reshape(-1, 2), tuple(rows))


def nothing() -> Closure:
    return Closure(np.empty((0, 2), dtype=np.int64), ())


def within(asked: Closure, kept: BoolArray) -> Index:
    """The plain needs between kept members, in the numbering of the kept ones."""
    number = np.cumsum(kept) - 1
    inner = kept[asked.needs].all(axis=1)
    return number[asked.needs[inner]].reshape(-1, 2)
