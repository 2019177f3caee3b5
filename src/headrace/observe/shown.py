"""The numbers of contracts that every door shows: what one look at all of them found.

The auditor looks every second and keeps the last look in the ledger. `status`, `why`, `audit`, `show`, `/metrics` and
the other answers over HTTP read it, and none measures by itself: numbers of the same look (`measured_at`) are equal
wherever they are shown, and a lag above the promise is never seen before its violation is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from headrace.observe.audit import Record
from headrace.observe.cost import Account
from headrace.observe.money import paid, paid_per_hour


@dataclass(frozen=True, slots=True)
class WatchedPromise:
    """What a contract that is watched asks for, and $/h that are planned for it."""

    freshness_s: float
    planned_h: float


@dataclass(frozen=True, slots=True)
class ContractNumbers:
    """`lag_s` is None while there are no rows, `freshness_s` while nobody watches. `cost` is $ of resources, `penalty`
    $ for late rows, `money` both until now, `cost_h` both as $/h: planned, until there is enough to tell.
    """

    lag_s: float | None
    freshness_s: float | None
    violations: int
    violated_s: float
    watched_s: float
    worst_lag_s: float
    rows: int
    late_rows: int
    penalty: float
    cost: float
    money: float
    cost_h: float | None


@dataclass(frozen=True, slots=True)
class ContractReadings:
    """The numbers of all contracts at one moment, microseconds since 1970."""

    at: int
    contracts: Mapping[str, ContractNumbers] = field(default_factory=dict)

    @property
    def measured_at(self) -> float:
        """Seconds since 1970."""
        return self.at / 1e6

    def to_json(self) -> str:
        return _LOOK.dump_json(self).decode()

    @staticmethod
    def from_json(text: str) -> ContractReadings:
        """Raises ValueError for a text that is none of ours."""
        return _LOOK.validate_json(text)


_LOOK: TypeAdapter[ContractReadings] = TypeAdapter(ContractReadings)


def take_numbers(
    at: int,
    promises: Mapping[str, WatchedPromise],
    lags_s: Mapping[str, float],
    records: Mapping[str, Record],
    accounts: Mapping[str, Account],
) -> ContractReadings:
    """Takes the numbers of all contracts that are or were watched."""
    return ContractReadings(
        at,
        {
            name: _numbers(at, promises.get(name), lags_s.get(name), records.get(name, Record()), accounts.get(name))
            for name in sorted({*promises, *records})
        },
    )


def _numbers(
    at: int, promise: WatchedPromise | None, lag_s: float | None, record: Record, account: Account | None
) -> ContractNumbers:
    per_hour = paid_per_hour(account, record, at)
    return ContractNumbers(
        lag_s=lag_s,
        freshness_s=None if promise is None else promise.freshness_s,
        violations=record.episodes,
        violated_s=record.violated_s,
        watched_s=record.watched_s,
        worst_lag_s=record.worst_lag_s,
        rows=record.rows,
        late_rows=record.late_rows,
        penalty=record.penalty,
        cost=0.0 if account is None else account.cost,
        money=paid(account, record),
        cost_h=promise.planned_h if per_hour is None and promise is not None else per_hour,
    )
