"""Builds the document of `headrace status` for a running service."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.coordinate.check.book import ChecksShown
from headrace.coordinate.contract_status import contract_documents
from headrace.coordinate.replanning import ContractMove
from headrace.run.push.simulated_links import Ends, LinkQueue
from headrace.site.engine.late_runner import Absence
from headrace.site.feeds.servers import FeedServerTold
from headrace.site.last_status import State
from headrace.site.link_states import LinkState
from headrace.site.scrub import ScrubProgress
from headrace.site.snapshot import ServiceSnapshot

MOVES_TOLD = 5


def status_document(
    seen: ServiceSnapshot,
    state: State,
    pid: int,
    moves: Sequence[ContractMove] = (),
    checks: ChecksShown | None = None,
    feeds: Sequence[Mapping[str, Any]] = (),
    feed_servers: Sequence[FeedServerTold] = (),
    templates: Sequence[Mapping[str, Any]] = (),
    devices: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """`written` and `since` are in seconds since 1970. Of `moves`, the last few are told. Whoever reads this later says
    how old it is then (`age_s`).
    """
    loading, counts = seen.loading, seen.counts
    return {
        "contracts": contract_documents(seen, state),
        "troubles": [trouble.to_json() for trouble in seen.troubles.values()],
        "slots": list(seen.slots),
        "files": _files(seen.files),
        "links": _links(seen),
        "feeds": list(feeds),
        "templates": list(templates),
        "moves": move_documents(moves),
        "checks": (checks or ChecksShown()).document(),
        "service": {
            "state": state.value,
            "pid": pid,
            "phase": None if loading is None else loading.phase,
            "error": seen.error,
            "written": time.time(),
            "age_s": 0.0,
            "engine": _engine(seen.absence),
            "pushes": counts.pushes,
            "pushed_rows": counts.rows,
            "push_seconds": counts.seconds,
            "upkeep_seconds": seen.upkeep_s,
            "feed_servers": [_feed_server(one) for one in feed_servers],
            "devices": devices,
        },
    }


def _engine(absence: Absence | None) -> dict[str, Any]:
    """`running`, or away for some seconds: `starting`, or `restarting` since it died; and why the last start failed."""
    if absence is None:
        return {"state": "running"}
    state = "restarting" if absence.died else "starting"
    return {"state": state, "name": absence.engine, "away_s": absence.seconds, "error": absence.error}


def _files(progress: ScrubProgress) -> dict[str, Any]:
    """The files of logs, and in how many seconds the service has checked every byte of them."""
    return {
        "count": progress.files,
        "bytes": progress.bytes,
        "without_checksums": progress.unsummed,
        "checked_within_s": progress.round_s,
    }


def _links(seen: ServiceSnapshot) -> list[dict[str, Any]]:
    """Bytes that were sent since the service started; `simulated` if that takes as long as declared. Bytes wait until
    they are sent; what is sent last arrives `behind_s` from now. Where sites run apart, `behind_s` is how old that is
    which has come.
    """
    return [_link(seen, ends) for ends in sorted({*seen.sent, *seen.queues, *seen.states, *seen.waiting})]


def _link(seen: ServiceSnapshot, ends: Ends) -> dict[str, Any]:
    queue, state = seen.queues.get(ends, LinkQueue(0, 0.0)), seen.states.get(ends, LinkState())
    is_cut = state.silent_since is not None
    return {
        "from": ends[0],
        "to": ends[1],
        "sent_bytes": seen.sent.get(ends, 0),
        "simulated": seen.simulated,
        "bytes_s": state.bytes_s if ends in seen.states else None,
        "capacity_bytes_s": state.capacity_bytes_s,
        "declared_bytes_s": state.declared_bytes_s,
        "round_trip_s": state.round_trip_s,
        "waiting_bytes": max(queue.waiting_bytes, seen.waiting.get(ends, 0)),
        "behind_s": queue.arrives_s if seen.simulated else state.behind_s,
        "state": "cut" if is_cut else "sending" if ends in seen.queues else "idle",
        "since": state.silent_since,
    }


def _feed_server(told: FeedServerTold) -> dict[str, Any]:
    return {
        "pid": told.pid,
        "port": told.port,
        "state": told.state.value,
        "restarts": told.restarts,
        "streams": told.streams,
    }


def move_documents(moves: Sequence[ContractMove]) -> list[dict[str, Any]]:
    """The last few moves."""
    return [_move(move) for move in moves[-MOVES_TOLD:]]


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
