"""What a template must have said, by DuckDB over everything that was published: nothing of Headrace computes here.

Publications are recorded where they are made, before anything is sent. Three questions are asked of them:

    at the end     do the rows of the view equal its SQL over the latest rows, or over all kept ones?
    on the way     is each result true of rows that existed, and was each said once?
    pair by pair   what does the text of a template's view say, run for each pair by itself?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

DISTANCE = """
CREATE MACRO distance(lat, lng, other_lat, other_lng) AS
    2 * 6371008.8 * asin(least(1, sqrt(
        pow(sin(radians(other_lat - lat) / 2), 2)
        + cos(radians(lat)) * cos(radians(other_lat)) * pow(sin(radians(other_lng - lng) / 2), 2))))
"""
LATEST = """
CREATE VIEW "{stream}" AS SELECT * FROM "{stream}_published"
QUALIFY row_number() OVER (PARTITION BY device ORDER BY seq DESC) = 1
"""
KEPT = """
CREATE VIEW "{stream}" AS SELECT * FROM "{stream}_published" WHERE at_ms > {after_ms}
"""

OF_SIDE = """
CREATE VIEW {side}."{stream}" AS
SELECT * EXCLUDE (device, seq, at_ms), make_timestamp(at_ms * 1000) AS at FROM main."{stream}"
WHERE device = getvariable('{side}')
"""
SIDES = ("a", "b")

Result = tuple[Any, ...]


@dataclass
class Published:
    """All rows of one stream, in the order in which each device made them."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, device: Any, seq: int, at_ms: int, row: Sequence[Any]) -> None:
        self.rows.append((device, seq, at_ms, *row))

    @property
    def table(self) -> pa.Table:
        names = ("device", "seq", "at_ms", *self.columns)
        columns = zip(*self.rows, strict=True) if self.rows else [[] for _ in names]
        return pa.table(dict(zip(names, map(list, columns), strict=True)))


@dataclass(frozen=True, slots=True)
class Difference:
    """What is missing in an answer and what is there that must not be, with how often."""

    missing: Counter[Result]
    extra: Counter[Result]

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)

    def say(self, most: int = 3) -> str:
        def some(rows: Counter[Result]) -> str:
            return f"{rows.total()} ({', '.join(map(str, list(rows)[:most]))})" if rows else "none"

        return f"missing: {some(self.missing)}; too many: {some(self.extra)}"


class Oracle:
    """Streams and tables in a DuckDB of its own. `keep_after_ms` has the kept streams, and since when rows count."""

    def __init__(
        self,
        streams: Mapping[str, Published],
        tables: Mapping[str, pa.Table],
        keep_after_ms: Mapping[str, int] | None = None,
    ) -> None:
        self._session = duckdb.connect(":memory:")
        self._session.execute(DISTANCE)
        for name, published in streams.items():
            self._session.register(f"{name}_published", published.table)
            after_ms = (keep_after_ms or {}).get(name)
            text = LATEST if after_ms is None else KEPT
            self._session.execute(text.format(stream=name, after_ms=after_ms))
        for side in SIDES:
            self._session.execute(f"SET VARIABLE {side} = NULL; CREATE SCHEMA {side}")
            for name in streams:
                self._session.execute(OF_SIDE.format(side=side, stream=name))
        for name, table in tables.items():
            self._session.register(name, table)

    def ask(self, sql: str) -> list[Result]:
        return self._session.execute(sql).fetchall()

    def ask_pair_by_pair(self, views: Mapping[str, str], view: str, pairs: Iterable[tuple[Any, ...]]) -> list[Result]:
        """A template's view, as its text has it, for each pair: the pair and the row. `views` are those it may read."""
        for name, text in views.items():
            if name != view:
                self._session.execute(f'CREATE OR REPLACE VIEW "{name}" AS {text}')
        found = []
        for pair in pairs:
            for side, device in zip(SIDES, pair, strict=False):
                self._session.execute(f"SET VARIABLE {side} = {device!r}")
            found += [(*pair, *row) for row in self.ask(views[view])]
        return found

    def compare(self, sql: str, answer: Iterable[Result]) -> Difference:
        """The answer against the query."""
        return find_difference(self.ask(sql), answer)

    def find_untrue(self, sql: str, columns: Sequence[str], said: Iterable[Result]) -> list[Result]:
        """Results that no rows make true: `sql` selects those of the table `said` that rows once made true."""
        rows = list(dict.fromkeys(map(tuple, said)))
        if not rows:
            return []
        self._session.register("said", pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))))
        true = set(self.ask(sql))
        return [one for one in rows if one not in true]

    def close(self) -> None:
        self._session.close()


def find_difference(expected: Iterable[Result], given: Iterable[Result]) -> Difference:
    """Of two bags."""
    wanted, found = Counter(map(tuple, expected)), Counter(map(tuple, given))
    return Difference(wanted - found, found - wanted)


def find_said_twice(changes: Iterable[tuple[int, Result]]) -> list[Result]:
    """Results that came (weight 1) while they were there, or went (-1) while they were not, in order of time."""
    there: Counter[Result] = Counter()
    wrong = []
    for weight, row in changes:
        there[row] += weight
        if there[row] not in (0, 1):
            wrong.append(row)
    return wrong
