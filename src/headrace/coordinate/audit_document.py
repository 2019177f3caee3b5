"""Builds the document of `headrace audit`: the numbers of all contracts, measured at the same time."""

from __future__ import annotations

from typing import Any

from headrace.observe.shown import ContractReadings
from headrace.site.folder import Folder
from headrace.site.reading import fresh_look, open_reader


def look_of(folder: Folder) -> ContractReadings:
    """The last of the service; if none looks now, what it would find."""
    ledger = folder.ledger()
    try:
        found = fresh_look(ledger)
    finally:
        ledger.close()
    if found is not None or folder.running_version is None:
        return found or ContractReadings(0)
    reader = open_reader(folder)
    try:
        return reader.look()
    finally:
        reader.ledger.close()


def audit_document(look: ContractReadings) -> dict[str, Any]:
    """`cost` is $ of resources, `money` with the penalty; `measured_at` is in seconds since 1970."""
    return {
        "contracts": [
            {
                "id": name,
                "episodes": one.violations,
                "violated_s": one.violated_s,
                "late_rows": one.late_rows,
                "penalty": one.penalty,
                "cost": one.cost,
                "money": one.money,
                "cost_h": one.cost_h,
                "lag_s": one.lag_s,
                "watched_s": one.watched_s,
                "worst_lag_s": one.worst_lag_s,
                "rows": one.rows,
                "measured_at": look.measured_at,
            }
            for name, one in look.contracts.items()
        ],
        "recompute": [],
    }
