"""Asking the service of a project: to end, and to go over to the project's plan. Light, because people wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.connect.service_client import ask
from headrace.model.errors import ConnectError, UsageError
from headrace.model.running import ApplyWishes
from headrace.service.folder import Folder
from headrace.service.process import ServiceProcess, end_process, running_process

END_WITHIN_S = 60.0


def stop_project(directory: Path) -> ServiceProcess | None:
    """Ends the service of a project, and waits until it has; None if none runs."""
    process = running_process(Folder(directory))
    if process is not None and not end_process(process, END_WITHIN_S):
        raise ConnectError(
            f"process {process.pid} did not end within {END_WITHIN_S:.0f} s",
            f"end it with `kill -9 {process.pid}`: nothing that is committed is lost",
        )
    return process


def is_running(directory: Path) -> bool:
    return running_process(Folder(directory)) is not None


def apply_project(directory: Path, wishes: ApplyWishes) -> dict[str, Any]:
    """What changed, as a document: from the service that runs."""
    process = running_process(Folder(directory))
    if process is None:
        raise UsageError(f'the project in "{directory}" does not run', "start it with `headrace up`")
    body = {"replan": wishes.replan, "force": list(wishes.force), "dry_run": wishes.dry_run}
    answer: dict[str, Any] = ask(process.port, process.token, "POST", "/apply", body)
    return answer
