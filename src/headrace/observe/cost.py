"""What contracts cost, from what was used: core seconds, bytes over links, bytes on disks, at the catalogue's prices.

What a vertex uses is shared equally by the contracts that it serves at that time, so that all accounts together are
all that was used. Money is dollars, times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from headrace.model.catalogue import Catalogue
from headrace.model.event_wire import NumberedEvent
from headrace.model.push_events import DatasetsPushed, DatasetsStored, LogsKeptUp, Use

SECOND = 1_000_000
HOUR_S = 3600.0
MONTH_S = 2_592_000.0
GB = 1e9


@dataclass(frozen=True, slots=True)
class Usage:
    """What one vertex used: by a push, or by being kept. `sent` are bytes that came from the site `origin`, `kept` are
    byte seconds on disk.
    """

    vertex: str
    site: str
    core_s: float = 0.0
    origin: str | None = None
    sent: float = 0.0
    kept: float = 0.0


def price_of(catalogue: Catalogue, usage: Usage) -> float:
    site = catalogue.sites[usage.site]
    computed = usage.core_s * site.cpu_price_h / HOUR_S
    stored = usage.kept / GB * site.disk_price_gb_month / MONTH_S
    return computed + stored + usage.sent / GB * _link_price(catalogue, usage)


def _link_price(catalogue: Catalogue, usage: Usage) -> float:
    ends = usage.origin, usage.site
    return next((link.price_gb for link in catalogue.links if (link.src, link.dst) == ends), 0.0)


@dataclass(frozen=True, slots=True)
class Account:
    """What a contract cost since a time. `core_s`, `sent` and `kept` are its share of what was used."""

    since: int
    cost: float = 0.0
    core_s: float = 0.0
    sent: float = 0.0
    kept: float = 0.0

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Account:
        """Raises TypeError or ValueError for a text that is none of ours."""
        return Account(**json.loads(text))


@dataclass(frozen=True, slots=True)
class ChargedAccounts:
    """The accounts of contracts after all events up to a number."""

    accounts: Mapping[str, Account] = field(default_factory=dict)
    upto: int = 0


def charge_event(before: ChargedAccounts, one: NumberedEvent) -> ChargedAccounts:
    """Charges the next event to its contracts; those without an account get one. Most kinds of events charge nobody.

    An account is the sum over all events, however often the service was killed between: it is kept together with the
    number of the last event in it.
    """
    accounts = before.accounts
    if isinstance(one.event, DatasetsPushed | DatasetsStored | LogsKeptUp):
        at = one.event.at
        charged = {name: _with_use(accounts.get(name, Account(at)), use) for name, use in one.event.used.items()}
        accounts = {**accounts, **charged}
    return ChargedAccounts(accounts, one.number)


def _with_use(account: Account, use: Use) -> Account:
    return Account(
        account.since,
        account.cost + use.cost,
        account.core_s + use.core_s,
        account.sent + use.sent_bytes,
        account.kept + use.kept_byte_s,
    )


def share_out(catalogue: Catalogue, serves: Mapping[str, tuple[str, ...]], usages: Iterable[Usage]) -> dict[str, Use]:
    """What each contract is charged of what was used; to seven digits, so that what is kept is what is charged."""
    found: dict[str, Use] = {}
    for usage in usages:
        contracts, price = serves.get(usage.vertex, ()), price_of(catalogue, usage)
        for contract in contracts:
            before, parts = found.get(contract, Use()), len(contracts)
            found[contract] = Use(
                before.core_s + usage.core_s / parts,
                before.sent_bytes + usage.sent / parts,
                before.cost + price / parts,
                before.kept_byte_s + usage.kept / parts,
            )
    return {contract: Use(*map(_round, use)) for contract, use in sorted(found.items())}


def _round(amount: float) -> float:
    return float(f"{amount:.7g}")
