"""The status that a service wrote last: within the last second, or before it ended."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from headrace.service.folder import Folder
from headrace.service.process import running_process

FILE = "status.json"


class State(StrEnum):
    """Of a service: on its way, keeping promises, ended as it was told, or ended otherwise."""

    LOADING = "loading"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


def last_status(folder: Folder) -> dict[str, Any] | None:
    """What was written last. Of a service that is gone without having said so, the state is `failed`."""
    found = folder.read_json(FILE)
    if not isinstance(found, dict):
        return None
    about = found["service"]
    alive = running_process(folder)
    if about["state"] in (State.LOADING, State.RUNNING) and (alive is None or alive.pid != about["pid"]):
        about["state"] = State.FAILED.value
        about["error"] = about["error"] or "its process is gone"
    if about["state"] in (State.STOPPED, State.FAILED):
        about["engine"] = {"state": State.STOPPED.value}
        for contract in found["contracts"]:
            contract["state"], contract["next_push_s"] = "stopped", None
    return found
