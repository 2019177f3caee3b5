"""Rows of Sessions: rows of a partition that follow each other closely in time, with the bounds of what they form."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator

from headrace.meaning.row_functions import bag, names_of, row_of, value_of
from headrace.meaning.scalar import Surroundings
from headrace.meaning.scalar_time import from_micros, micros
from headrace.meaning.zset import ZSet
from headrace.model.relation import Sessions
from headrace.model.types import Row

Weighted = tuple[Row, int]


def find_sessions(relation: Sessions, input_: ZSet, around: Surroundings) -> Iterator[Weighted]:
    names = names_of(relation.input)
    partition_of, time_of = row_of(relation.partition, names, around), value_of(relation.time, names, around)
    partitions: dict[Row, list[tuple[int, Weighted]]] = defaultdict(list)
    for row, weight in bag(input_, relation):
        time = time_of(row)
        if time is not None:
            assert isinstance(time, dt.datetime), f"a session of {time!r}"
            partitions[partition_of(row)].append((micros(time), (row, weight)))
    gap = 1000 * relation.gap_ms
    for timed in partitions.values():
        timed.sort(key=lambda one: one[0])
        first = 0
        for place, (time, _) in enumerate(timed):
            if place + 1 == len(timed) or timed[place + 1][0] > time + gap:
                bounds = (from_micros(timed[first][0]), from_micros(time + gap))
                yield from (((*row, *bounds), weight) for _, (row, weight) in timed[first : place + 1])
                first = place + 1
