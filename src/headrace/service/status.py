"""What `headrace status` shows of a service that runs, as a document."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.model.plan import ContractPlan
from headrace.observe.audit import Record
from headrace.observe.cost import Account
from headrace.run.capture.spool import STOPPED_NOTE
from headrace.run.next_push import next_starts
from headrace.run.shape import ShapedRunner
from headrace.service.last_status import State
from headrace.service.late_runner import Absence
from headrace.service.replanning import Move
from headrace.service.service import Service

LONGEST_EVENT = 4000
TELLING_US = 60_000_000
MOVES_TOLD = 5
MEND = "put its table right, or change the project's files and run `headrace apply`"


def status_document(service: Service, state: State, pid: int, moves: Sequence[Move] = ()) -> dict[str, Any]:
    """`written` is in seconds since 1970. Of `moves`, the last few are told."""
    loading = service.loading
    return {
        "contracts": _contracts(service, state),
        "slots": list(service.slots.found),
        "links": _links(service),
        "moves": [_move(move) for move in moves[-MOVES_TOLD:]],
        "service": {
            "state": state.value,
            "pid": pid,
            "phase": None if loading is None else loading.phase,
            "error": error_of(service),
            "written": time.time(),
            "engine": _engine(service.absence()),
            "troubles": _troubles(service),
            "pushes": service.pushes,
            "pushed_rows": service.pushed_rows,
            "push_seconds": service.push_seconds,
        },
    }


def _engine(absence: Absence | None) -> dict[str, Any]:
    """`running`, or away for some seconds: `starting`, or `restarting` since it died; and why the last start failed."""
    if absence is None:
        return {"state": "running"}
    state = "restarting" if absence.died else "starting"
    return {"state": state, "name": absence.engine, "away_s": absence.seconds, "error": absence.error}


def _links(service: Service) -> list[dict[str, Any]]:
    """Bytes that were sent since the service started; `simulated` if that takes as long as declared."""
    simulated = isinstance(service.runner, ShapedRunner)
    return [
        {"from": origin, "to": site, "sent_bytes": size, "simulated": simulated}
        for (origin, site), size in sorted(service.accounts.sent.items())
    ]


def _move(move: Move) -> dict[str, Any]:
    return {
        "at": move.at_s,
        "contracts": list(move.contracts),
        "because": list(move.reasons),
        "restores": list(move.restores),
        "saving_h": move.saving * 3600.0,
        "migration": move.migration,
        "made": list(move.made),
        "dropped": list(move.dropped),
        "error": move.error,
    }


def _troubles(service: Service) -> list[str]:
    """What goes wrong outside of contracts: sources that were stopped, captures that end, what cannot be given back."""
    stopped = service.ledger.notes(STOPPED_NOTE).items()
    found = [f'source "{name.removeprefix(STOPPED_NOTE)}" is stopped: {why}; {MEND}' for name, why in sorted(stopped)]
    captures = [(name, capture_failure(service.folder.capture(name))) for name in sorted(service.captures.running)]
    found += [f"capture of {name}: {failure}" for name, failure in captures if failure is not None]
    return found + service.withdrawals.troubles()


def capture_failure(scratch: Path) -> str | None:
    """Why a capture stands still; None if the last that it told is something else."""
    try:
        last = (scratch / "capture.log").read_bytes()[-LONGEST_EVENT:].splitlines()[-1]
        event = json.loads(last)
    except (OSError, ValueError, IndexError):
        return None
    return str(event["message"]) if isinstance(event, dict) and event.get("event") == "failed" else None


def error_of(service: Service) -> str | None:
    if service.failure is not None:
        return str(service.failure) or type(service.failure).__name__
    return None if service.loading is None else service.loading.error


def _contracts(service: Service, state: State) -> list[dict[str, Any]]:
    plan, scheduler = service.plan, service.scheduler
    if plan is None or scheduler is None:
        return []
    now, times = service.clock(), service.ledger.times()
    starts = next_starts(scheduler.paths, scheduler.scene(now, times, service.auditor.lags_of(times)))
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
        "cost_h": _cost_h(account, entry, now),
        "next_push_s": None if start is None else (start - now) / 1e6,
        "state": state.value if state is not State.RUNNING else _kept(lag, freshness, bool(trouble)),
        "view": entry.view,
        "site": entry.site,
        "last_push_s": service.accounts.last_s.get(entry.vertex),
        "prediction_error": service.scheduler.learning.error_of(name),
    }
    if name in service.forced:
        document["forced"] = True
    if trouble:
        document["error"] = trouble[0][1].reason.splitlines()[0]
    why = service.unloaded.get(name)
    if why is not None:
        document["state"], document["error"] = "failing", why.splitlines()[0]
    if name in service.deliveries.errors:
        document["delivery_error"] = service.deliveries.errors[name]
    return document


def _cost_h(account: Account | None, entry: ContractPlan, now: int) -> float:
    """As it was so far; as planned while that is too short to tell."""
    if account is None or now - account.since < TELLING_US:
        return entry.cost * 3600.0
    return account.cost_per_hour(now)


def _kept(lag: float | None, freshness_s: float, in_trouble: bool) -> str:
    if lag is None:
        return "loading"
    if in_trouble:
        return "failing"
    return "kept" if lag <= freshness_s else "late"
