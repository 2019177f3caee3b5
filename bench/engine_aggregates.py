"""Aggregates of groups: what a push takes, next to DuckDB computing all groups anew over the same rows.

Some are kept as totals, and a change costs the same in every group; others need the rows of the groups that change, and
a change costs more in a large group. So each is measured with more groups and with larger ones. After the pushes, the
view is compared with DuckDB's answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cpu import Seconds
from bench.engine_tops import Scores, measure_pushes
from headrace.run.ports import Runner

CHANGED = 1_000
SHAPES = ((100_000, 10_000), (1_000_000, 100_000), (100_000, 100))
"""Rows and groups."""
QUERIES = {
    "sum": "SELECT team, sum(points) AS value FROM scores GROUP BY team",
    "stddev": "SELECT team, stddev(points) AS value FROM scores GROUP BY team",
    "max": "SELECT team, max(points) AS value FROM scores GROUP BY team",
    "max_by": "SELECT team, max_by(points, id) AS value FROM scores GROUP BY team",
    "median": "SELECT team, median(points) AS value FROM scores GROUP BY team",
    "distinct": "SELECT team, count(DISTINCT name) AS value, bit_xor(id) AS bits FROM scores GROUP BY team",
    "string_agg": "SELECT team, string_agg(name, ',' ORDER BY id) AS value FROM scores GROUP BY team",
    "rollup": "SELECT team, points > 500 AS high, count(*) AS value FROM scores GROUP BY ROLLUP (team, high)",
}


@dataclass(frozen=True, slots=True)
class AggregateCost:
    """One aggregate over so many rows in so many groups: a push of `CHANGED` rows, and all groups anew by DuckDB."""

    name: str
    rows: int
    groups: int
    push: Seconds
    anew: Seconds


def measure_aggregates(runner: Runner[Any], scratch: Path, repeats: int) -> tuple[AggregateCost, ...]:
    costs = []
    for name, query in QUERIES.items():
        for rows, groups in SHAPES:
            scores = Scores(rows, groups)
            push, anew = measure_pushes(runner, scratch, scores, (CHANGED, CHANGED // 2), repeats, query)
            costs.append(AggregateCost(name, rows, groups, push, anew))
    return tuple(costs)
