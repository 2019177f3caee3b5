"""Builds the document of `headrace status` for a running service."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.coordinate.contract_status import contract_documents
from headrace.coordinate.replanning import ContractMove
from headrace.run.push.simulated_links import SimulatedLinksRunner
from headrace.site.engine.late_runner import Absence
from headrace.site.last_status import State
from headrace.site.service import Service

MOVES_TOLD = 5


def status_document(service: Service, state: State, pid: int, moves: Sequence[ContractMove] = ()) -> dict[str, Any]:
    """`written` and `since` are in seconds since 1970. Of `moves`, the last few are told."""
    loading, counts = service.loading, service.rounds.counts
    return {
        "contracts": contract_documents(service, state),
        "troubles": [trouble.to_json() for trouble in service.troubles.all().values()],
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
            "pushes": counts.pushes,
            "pushed_rows": counts.rows,
            "push_seconds": counts.seconds,
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
    simulated = isinstance(service.runner, SimulatedLinksRunner)
    return [
        {"from": origin, "to": site, "sent_bytes": size, "simulated": simulated}
        for (origin, site), size in sorted(service.accounts.sent.items())
    ]


def _move(move: ContractMove) -> dict[str, Any]:
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


def error_of(service: Service) -> str | None:
    if service.failure is not None:
        return str(service.failure) or type(service.failure).__name__
    return None if service.loading is None else service.loading.error
