"""Money: what a contract is charged, in one definition for `status`, `audit`, `/metrics` and bills.

    money = its share of the resources that were used, at their prices + the penalty for rows that came late

The score by which plans are compared is something else: it counts slow plans for more (`ContractPlan.cost`).
"""

from __future__ import annotations

from headrace.observe.audit import Record
from headrace.observe.cost import HOUR_S, SECOND, Account

TELLING = 60 * SECOND
"""Microseconds after which an average tells more than the plan."""


def paid(account: Account | None, record: Record) -> float:
    """$ until now."""
    return (0.0 if account is None else account.cost) + record.penalty


def paid_per_hour(account: Account | None, record: Record, now: int) -> float | None:
    """$/h on average since the account was opened; None while that is too short to tell."""
    if account is None or now - account.since < TELLING:
        return None
    return paid(account, record) / ((now - account.since) / SECOND / HOUR_S)
