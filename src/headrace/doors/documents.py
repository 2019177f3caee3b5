"""JSON documents that both the commands and the HTTP interface return."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headrace.model.names import name_of_view
from headrace.model.steps import step_document

if TYPE_CHECKING:
    from headrace.app.preparing import Applied, Reread
    from headrace.app.reading import Seen
    from headrace.model.plan import Rejection


def reread_document(reread: Reread) -> dict[str, Any]:
    return {
        "source": reread.source,
        "contracts": list(reread.contracts),
        "seconds": round(reread.seconds, 3),
        "failing": dict(reread.failing),
    }


def applied_document(applied: Applied) -> dict[str, Any]:
    """`steps` in the order in which they are taken: what is new is loaded before what is old goes. Each says in words
    (`text`) what it does, to which vertices.
    """
    change, plan = applied.prepared.change, applied.prepared.plan
    steps = [step_document(step) for step in applied.prepared.left]
    return {
        "applied": applied.done,
        "changed": change is None or not change.is_nothing,
        "steps": steps,
        "change": None if change is None else {**asdict(change), "steps": steps},
        "contracts": [
            {
                "id": entry.contract,
                "view": name_of_view(entry.view),
                "at": entry.site,
                "freshness_s": applied.prepared.forced.get(entry.contract, entry.freshness_s),
                "forced": entry.contract in applied.prepared.forced,
                "cost_h": entry.money * 3600.0,
            }
            for entry in plan.contracts
        ],
        "rejected": [
            {**rejection_document(one), "stays": one not in plan.rejected} for one in applied.prepared.rejected
        ],
        "refused_feeds": [
            {
                "feed": one.feed,
                "reason": one.reason,
                "detail": one.detail,
                "smallest_staleness": one.smallest_staleness_s,
                "stays": one.goes_on,
            }
            for one in plan.feeds
            if one.reason is not None
        ],
        "failing": dict(applied.failing),
        "held": dict(applied.held),
        "lost": [{"message": one.message, "hint": one.hint} for one in applied.prepared.lost],
        "left_out": [{"message": one.message, "hint": one.hint} for one in applied.prepared.left_out],
    }


def rejection_document(rejection: Rejection) -> dict[str, Any]:
    return {
        "contract": rejection.contract,
        "reason": rejection.reason,
        "detail": rejection.detail,
        "fastest_cp_s": rejection.fastest_cp_s,
        "smallest_staleness": rejection.smallest_staleness_s,
    }


def seen_document(seen: Seen) -> dict[str, Any]:
    from headrace.app.reading import moment_text, rows_as_json

    return {
        "view": seen.view,
        "as_of": moment_text(seen.as_of),
        "lag_s": seen.lag_s,
        "freshness_s": seen.freshness_s,
        "measured_at": seen.measured_at,
        **({"running": "earlier version"} if seen.earlier else {}),
        "columns": list(seen.rows.column_names),
        "rows": [list(row.values()) for row in rows_as_json(seen.rows)],
    }
