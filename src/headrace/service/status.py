"""What `headrace status` shows of a service that runs, as a document."""

from __future__ import annotations

import time
from typing import Any

from headrace.observe.audit import Record
from headrace.run.next_push import next_starts
from headrace.service.last_status import State
from headrace.service.service import Service


def status_document(service: Service, state: State, pid: int) -> dict[str, Any]:
    """`written` is in seconds since 1970."""
    loading = service.loading
    return {
        "contracts": _contracts(service, state),
        "slots": list(service.slots.found),
        "service": {
            "state": state.value,
            "pid": pid,
            "phase": None if loading is None else loading.phase,
            "error": error_of(service),
            "written": time.time(),
            "pushes": service.pushes,
            "pushed_rows": service.pushed_rows,
            "push_seconds": service.push_seconds,
        },
    }


def error_of(service: Service) -> str | None:
    if service.failure is not None:
        return str(service.failure) or type(service.failure).__name__
    return None if service.loading is None else service.loading.error


def _contracts(service: Service, state: State) -> list[dict[str, Any]]:
    plan, scheduler = service.plan, service.scheduler
    if plan is None or scheduler is None:
        return []
    now, times = service.clock(), service.ledger.times()
    starts = next_starts(scheduler.paths, scheduler.scene(now, times, service.auditor.lags_s))
    return [_contract(service, one.contract, now, starts.get(one.contract), state) for one in plan.contracts]


def _contract(service: Service, name: str, now: int, start: int | None, state: State) -> dict[str, Any]:
    assert service.plan is not None and service.scheduler is not None
    entry = next(one for one in service.plan.contracts if one.contract == name)
    record, lag = service.auditor.records.get(name, Record()), service.auditor.lags_s.get(name)
    account = service.accounts.accounts.get(name)
    freshness = service.forced.get(name, entry.freshness_s)
    trouble = service.scheduler.troubles_of(name)
    document: dict[str, Any] = {
        "id": name,
        "lag_s": lag,
        "freshness_s": freshness,
        "violations": record.episodes,
        "cost_h": 0.0 if account is None else account.cost_per_hour(now),
        "next_push_s": None if start is None else (start - now) / 1e6,
        "state": state.value if state is not State.RUNNING else _kept(lag, freshness, bool(trouble)),
        "view": entry.view,
        "site": entry.site,
        "last_push_s": service.accounts.last_s.get(entry.vertex),
    }
    if name in service.forced:
        document["forced"] = True
    if trouble:
        document["error"] = trouble[0][1].reason.splitlines()[0]
    if name in service.deliveries.errors:
        document["delivery_error"] = service.deliveries.errors[name]
    return document


def _kept(lag: float | None, freshness_s: float, in_trouble: bool) -> str:
    if lag is None:
        return "loading"
    if in_trouble:
        return "failing"
    return "kept" if lag <= freshness_s else "late"
