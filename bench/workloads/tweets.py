"""Three relations of SMILE's workload (EDBT 2014, Table 1) of any size, and batches of changes to them, as Arrow.

Sizes are in the paper's proportions: 3 users and 0.7 places for 7 tweets. Batches insert, replace and delete, in the
proportions of its update ratios (tweets 1, users 0.3, places 0.1). Everything follows from a seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace import Project
from headrace.model.catalogue import Catalogue

SITE = "m1"
SIZES = {"tweets": 1.0, "users": 3 / 7, "places": 0.1}
"""Rows for each row of tweets."""
RATIOS = {"tweets": 1.0, "users": 0.3, "places": 0.1}
KEYS = {"tweets": "tid", "users": "uid", "places": "tid"}
COLUMNS = {
    "tweets": {"tid": "bigint", "uid": "bigint", "body": "string"},
    "users": {"uid": "bigint", "name": "string"},
    "places": {"tid": "bigint", "lat": "double", "lng": "double"},
}
TWO_WAY = "SELECT t.tid, t.uid, t.body, u.name FROM tweets t JOIN users u ON t.uid = u.uid"
THREE_WAY = (
    "SELECT t.tid, t.uid, t.body, u.name, p.lat, p.lng"
    " FROM tweets t JOIN users u ON t.uid = u.uid JOIN places p ON t.tid = p.tid"
)
VIEWS = {"two_way": TWO_WAY, "three_way": THREE_WAY}
ONE_ROW_FOR_EACH = {"two_way": "tweets", "three_way": "places"}
"""Views have as many rows as these relations, at the start."""


def make_catalogue(rows: int) -> Catalogue:
    project = Project("engine")
    project.site(SITE, cpu="0.34 $/core-hour", disk="0.11 $/GB-month", speed=1)
    for name, columns in COLUMNS.items():
        size = rows_of(name, rows)
        described = {column: {"type": type_} for column, type_ in columns.items()}
        project.source(name, at=SITE, key=[KEYS[name]], rows=size, rate=100 * RATIOS[name], columns=described)
    for name, sql in VIEWS.items():
        project.view(name, sql)
        project.contract(name, view=name, at=SITE, freshness=45.0, penalty=0.001)
    return project.catalogue


def rows_of(name: str, rows: int) -> int:
    return int(rows * SIZES[name])


@dataclass
class Tweets:
    """The relations with `rows` tweets, and how far their keys have come."""

    rows: int
    seed: int = 1
    _next_key: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._next_key = {name: rows_of(name, self.rows) for name in KEYS}

    def contents(self, name: str) -> pa.Table:
        return self._table(name, np.arange(rows_of(name, self.rows), dtype=np.int64))

    def batch(self, size: int) -> dict[str, tuple[pa.Table, pa.Array]]:
        """About `size` changed rows in all, as rows and operations: of ten, five come, four are replaced, one goes."""
        total = sum(RATIOS.values())
        return {name: self._changes(name, round(size * ratio / total)) for name, ratio in RATIOS.items()}

    def _changes(self, name: str, count: int) -> tuple[pa.Table, pa.Array]:
        come = count // 2
        touched = self._rng.choice(rows_of(name, self.rows), count - come, replace=False)
        keys = np.concatenate([np.arange(come) + self._next_key[name], touched])
        self._next_key[name] += come
        operations = np.where(np.arange(count) < count - count // 10, "u", "d")
        return self._table(name, keys), pa.array(operations)

    def _table(self, name: str, keys: npt.NDArray[np.int64]) -> pa.Table:
        """Rows with these numbers; every tenth tweet has a place."""
        count = len(keys)
        if name == "tweets":
            authors = self._rng.integers(0, rows_of("users", self.rows), count)
            return pa.table({"tid": keys, "uid": authors, "body": self._text(count, 40)})
        if name == "users":
            return pa.table({"uid": keys, "name": self._text(count, 12)})
        return pa.table(
            {"tid": keys, "lat": self._rng.uniform(-90, 90, count), "lng": self._rng.uniform(-180, 180, count)}
        )

    def _text(self, count: int, width: int) -> pa.Array:
        letters = self._rng.integers(97, 123, count * width, dtype=np.uint8)
        offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
        return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])
