"""The audit: whether promises were kept, by looking at lags every five seconds, whatever the executor believes.

How long a promise was broken is counted in intervals, each judged by the look at its end alone. A violation is an
episode: a change from kept to broken, however long it lasts, counted as soon as somebody looks. All figures are sums,
and a record survives restarts as text: while nobody looked nothing was pushed either, so a lag at the next look tells
what it was at the looks that are missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt

from headrace.model.events import ContractKeptAgain, ContractLate, Event

INTERVAL_S = 5.0
SECOND = 1_000_000
INTERVAL = round(INTERVAL_S * SECOND)


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one contract's promise. `looked_at` is the time of the last look, microseconds; `rows` are all
    changes of the view that were applied, `penalty` is in $. `broken_at` is when the last episode was noticed.
    """

    looked_at: int | None = None
    intervals: int = 0
    bad_intervals: int = 0
    episodes: int = 0
    is_broken: bool = False
    rows: int = 0
    late_rows: int = 0
    penalty: float = 0.0
    worst_lag_s: float = 0.0
    broken_at: int | None = None

    @property
    def watched_s(self) -> float:
        return INTERVAL_S * self.intervals

    @property
    def violated_s(self) -> float:
        return INTERVAL_S * self.bad_intervals

    @property
    def episodes_per_hour(self) -> float:
        return self.episodes / self.watched_s * 3600.0 if self.intervals else 0.0

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Record:
        """Raises TypeError or ValueError for a text that is none of ours."""
        return Record(**json.loads(text))


def look(record: Record, now: int, lag_s: float, freshness_s: float) -> Record:
    """The record after a look. Within an interval only a promise that is broken since the last look is noted: a
    reader who sees the lag then must find the episode too.

    Intervals are counted from the first look on, and anew from one after the clock was put back. After a pause the
    looks that are missing are judged as if nothing had been pushed since: the lag was smaller by the time that has
    passed.
    """
    if record.looked_at is None or now < record.looked_at:
        return _note_breach(replace(record, looked_at=now), now, lag_s, freshness_s)
    passed = (now - record.looked_at) // INTERVAL
    if not passed:
        return _note_breach(record, now, lag_s, freshness_s)
    bad = min(passed, max(0, math.ceil((lag_s - freshness_s) / INTERVAL_S)))
    goes_on = record.is_broken and bad == passed
    return replace(
        record,
        looked_at=record.looked_at + passed * INTERVAL,
        intervals=record.intervals + passed,
        bad_intervals=record.bad_intervals + bad,
        episodes=record.episodes + (bad > 0 and not goes_on),
        is_broken=bad > 0,
        worst_lag_s=max(record.worst_lag_s, lag_s),
        broken_at=record.looked_at + (passed - bad + 1) * INTERVAL if bad > 0 and not goes_on else record.broken_at,
    )


def tell_breach(
    contract: str, before: Record, after: Record, now: int, seen: tuple[float, float], cause: str | None = None
) -> Iterator[Event]:
    """What a look tells of a promise: that it is kept again, that it is broken, or first one and then the other.

    `seen` are lag and freshness in seconds. There are as many events `late` as episodes.
    """
    begins = after.episodes > before.episodes
    if before.is_broken and (begins or not after.is_broken):
        late_s = None if before.broken_at is None else max(0, now - before.broken_at) / SECOND
        yield ContractKeptAgain(now, contract, *seen, late_s)
    if begins:
        yield ContractLate(now, contract, *seen, reason=cause)


def _note_breach(record: Record, now: int, lag_s: float, freshness_s: float) -> Record:
    seen = replace(record, worst_lag_s=max(record.worst_lag_s, lag_s))
    if lag_s <= freshness_s or record.is_broken:
        return seen
    return replace(seen, episodes=record.episodes + 1, is_broken=True, broken_at=now)


def apply_rows(record: Record, rows: int, late_rows: int, penalty_per_row: float) -> Record:
    """The record after rows were applied to the view."""
    return replace(
        record,
        rows=record.rows + rows,
        late_rows=record.late_rows + late_rows,
        penalty=record.penalty + penalty_per_row * late_rows,
    )


def count_late(
    times: npt.NDArray[np.int64], weights: npt.NDArray[np.int64], applied_at: int, freshness_s: float
) -> tuple[int, int]:
    """Counts, among changes (t and weight of each), rows that come or go, and those of them that came later than
    promised.
    """
    rows = np.abs(weights)
    is_late = applied_at - times > freshness_s * SECOND
    return int(rows.sum()), int(rows[is_late].sum())
