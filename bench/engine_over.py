"""Window functions: what a push takes, next to DuckDB computing all rows anew.

    few rows come     100 new rows at the end of 20 partitions, of 250 rows each and of 5,000
    any row changes   100 rows anywhere in the same partitions are replaced

A function that looks near should take the same in partitions of both sizes, and a running one at their end; a running
one anywhere, and one of whole partitions, grow with them. After the pushes, the view is compared with DuckDB's answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.cpu import Seconds
from bench.engine_tops import Scores, measure_pushes
from headrace.run.ports import Runner

PARTITIONS, SIZES, CHANGED = 20, (250, 5_000), 100
QUERIES = {
    "lag": "SELECT id, points - lag(points) OVER (PARTITION BY team ORDER BY id) AS value FROM scores",
    "moving avg": "SELECT id, avg(points) OVER (PARTITION BY team ORDER BY id ROWS 9 PRECEDING) AS value FROM scores",
    "running sum": "SELECT id, sum(points) OVER (PARTITION BY team ORDER BY id) AS value FROM scores",
    "row_number": "SELECT id, row_number() OVER (PARTITION BY team ORDER BY id) AS value FROM scores",
    "whole sum": "SELECT id, count(*) OVER (PARTITION BY team) AS value FROM scores",
}


@dataclass(frozen=True, slots=True)
class WindowCost:
    """One function over partitions of so many rows: a push of rows that come last, one of rows that change anywhere,
    and all rows anew by DuckDB."""

    name: str
    size: int
    last: Seconds
    anywhere: Seconds
    anew: Seconds


class Changed(Scores):
    """Points are whole numbers, which sum up alike whatever the order; and no row goes for good."""

    def _make_rows(self, keys: npt.NDArray[np.int64]) -> pa.Table:
        rows = super()._make_rows(keys)
        points = pa.array(np.floor(rows.column("points").to_numpy()))
        return rows.set_column(rows.column_names.index("points"), "points", points)


def measure_windows(runner: Runner[Any], scratch: Path, repeats: int) -> tuple[WindowCost, ...]:
    costs = []
    for name, query in QUERIES.items():
        for size in SIZES:
            found = [
                measure_pushes(runner, scratch, Changed(PARTITIONS * size, PARTITIONS), (CHANGED, come), repeats, query)
                for come in (CHANGED, 0)
            ]
            costs.append(WindowCost(name, size, found[0][0], found[1][0], found[1][1]))
    return tuple(costs)
