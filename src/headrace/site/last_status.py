"""Reads the last status that a service wrote: within the last second, or before it ended or stopped responding."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Any

from headrace.model.amounts import format_seconds
from headrace.model.errors import ConnectError, InputError
from headrace.model.trouble import Trouble
from headrace.site.folder import Folder
from headrace.site.process import running_process

FILE = "status.json"
UNRESPONSIVE_S = 5.0
"""A service writes its status every second: one that has not written it for this long stands still."""
ANSWER_WITHIN_S = 2.0
WAKE = "run `kill -CONT PID` if somebody suspended the process, else `kill -9 PID` and `headrace up`: nothing is lost"


class State(StrEnum):
    """State of a service: on its way, keeping promises, ended as it was told, ended otherwise, or standing still."""

    LOADING = "loading"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"
    UNRESPONSIVE = "unresponsive"


def last_status(folder: Folder) -> dict[str, Any] | None:
    """What was written last. Of a service that is gone without having said so, the state is `failed`; of one that runs
    and has written nothing for some seconds, `unresponsive`: its numbers are as old as what it wrote.
    """
    found = folder.read_json(FILE)
    if found is None:
        return None
    if not isinstance(found, dict) or not {"service", "contracts"} <= found.keys():
        raise folder.unreadable(FILE, "it is not the status of a service")
    alive = running_process(folder)
    about = found["service"]
    about["age_s"] = max(0.0, time.time() - about["written"])
    if about["state"] in (State.LOADING, State.RUNNING):
        if alive is None or alive.pid != about["pid"]:
            about["state"] = State.FAILED.value
            about["error"] = about["error"] or "its process is gone"
        elif (age_s := time.time() - about["written"]) > UNRESPONSIVE_S:
            _mark_unresponsive(found, age_s)
    if about["state"] in (State.STOPPED, State.FAILED):
        about["engine"] = {"state": State.STOPPED.value}
        found["troubles"] = []  # nobody looks after them now: the next service finds those that are left
        failed = about["state"] == State.FAILED
        _mark(found, "stopped", f"the service failed: {about['error']}" if failed else "the service was stopped")
    return found


def current_status(folder: Folder) -> dict[str, Any] | None:
    """What was written last; or, of a service that runs and has written nothing for some seconds, what it answers: its
    disk may be full.
    """
    found = last_status(folder)
    if found is None or found["service"]["state"] != State.UNRESPONSIVE:
        return found
    return _ask_for_status(folder) or found


def _ask_for_status(folder: Folder) -> dict[str, Any] | None:
    """What the service says now; None if it does not answer."""
    from headrace.connect.service_client import ask

    process = running_process(folder)
    if process is None or not process.is_here:
        return None
    try:
        found: dict[str, Any] = ask(process.port, process.token, "GET", "/status", within_s=ANSWER_WITHIN_S)
    except (ConnectError, InputError):
        return None
    return found


def _mark_unresponsive(found: dict[str, Any], age_s: float) -> None:
    about = found["service"]
    age = format_seconds(round(age_s))
    what = f"the service (process {about['pid']}) is unresponsive: it last wrote its status {age} ago"
    about["state"] = State.UNRESPONSIVE.value
    trouble = Trouble(what, about["written"], WAKE.replace("PID", str(about["pid"])))
    found["troubles"] = [*found.get("troubles", ()), trouble.to_json()]
    _mark(found, State.UNRESPONSIVE.value, what)


def _mark(found: dict[str, Any], state: str, reason: str) -> None:
    """Nobody brings views forward: they fall behind with the clock."""
    since_s = max(0.0, time.time() - found["service"]["written"])
    for contract in found["contracts"]:
        contract |= {"state": state, "next_push_s": None, "reason": reason}
        if contract["lag_s"] is not None:
            contract["lag_s"] += since_s
