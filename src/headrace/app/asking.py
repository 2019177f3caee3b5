"""Asks the service of a project to stop, to apply the project's files, to read a source again, or for a page of a feed.

This module imports little, because people wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from headrace.connect.service_client import ask
from headrace.coordinate.telling import HINT, TROUBLE, WaitLines
from headrace.model.errors import ConnectError, HeadraceError, UsageError
from headrace.model.options import ApplyWishes
from headrace.model.trouble import Trouble
from headrace.site.folder import Folder
from headrace.site.left_fresh import read_left
from headrace.site.process import ServiceProcess, end_process, running_process
from headrace.site.site_folders import find_site_of_feed, read_sites, site_folder

__all__ = [
    "HINT",
    "TROUBLE",
    "apply_project",
    "calibrate_feed",
    "count_unread",
    "follow_in_feed",
    "hide_in_feed",
    "is_running",
    "mark_seen",
    "post_to_feed",
    "read_feed",
    "reread_source",
    "say_left",
    "stop_project",
]

END_WITHIN_S = 60.0
LOOK_EVERY_S = 0.2
ANSWER_WITHIN_S = 10.0
CALIBRATED_WITHIN_S = 300.0
QUIET_S = 1.0
"""What is done sooner needs no telling."""


def stop_project(directory: Path) -> ServiceProcess | None:
    """Ends the service of a project, and waits until it has; None if none runs."""
    folder = Folder(directory)
    process = running_process(folder)
    # Sites that run as processes of their own end with the one that coordinates them, or now if that is gone.
    ended = _end(process)
    for site in read_sites(folder):
        ended = _end(running_process(site_folder(folder, site))) or ended
    return ended


def say_left(directory: Path) -> str | None:
    """Says how long promises hold without a site that has just ended in this folder; None if it was no site alone."""
    left = read_left(Folder(directory))
    return None if left is None else left.say()


def _end(process: ServiceProcess | None) -> ServiceProcess | None:
    if process is not None:
        _refuse_elsewhere(process)
    if process is not None and not end_process(process, END_WITHIN_S):
        raise ConnectError(
            f"process {process.pid} did not end within {END_WITHIN_S:.0f} s",
            f"end it with `kill -9 {process.pid}`: nothing that is committed is lost",
        )
    return process


def _refuse_elsewhere(process: ServiceProcess) -> None:
    if not process.is_here:
        raise UsageError(f"the project is run by {process.words}", "run the command there")


def is_running(directory: Path) -> bool:
    return running_process(Folder(directory)) is not None


def apply_project(directory: Path, wishes: ApplyWishes, say: Callable[[str], None]) -> dict[str, Any]:
    """What changed, as a document: from the service that runs. Tells what it is doing if that takes a while."""
    body: dict[str, Any] = {"replan": wishes.replan, "force": list(wishes.force), "dry_run": wishes.dry_run}
    said = wishes.planning
    planning = {"method": said.method, "share": said.sharing, "wide_area": said.wide_area}
    body |= {name: wish.value for name, wish in planning.items() if wish is not None}
    return _ask_and_tell(directory, "/apply", body, say)


def reread_source(directory: Path, source: str, say: Callable[[str], None]) -> dict[str, Any]:
    """What was loaded again, as a document. Tells how far it is if that takes a while."""
    return _ask_and_tell(directory, f"/sources/{quote(source, safe='')}/reread", {}, say)


def read_feed(
    directory: Path, feed: str, consumer: str, limit: int | None = None, before: str | None = None
) -> dict[str, Any]:
    """A page of a consumer's feed, as a document."""
    given = {"limit": limit, "before": before}
    asked = urlencode({name: value for name, value in given.items() if value is not None})
    return _ask_feed(directory, "GET", (feed, consumer), query=f"?{asked}" if asked else "")


def count_unread(directory: Path, feed: str, consumer: str) -> dict[str, Any]:
    """How many entries are newer than what a consumer has seen, as a document."""
    return _ask_feed(directory, "GET", (feed, consumer, "unread"))


def mark_seen(directory: Path, feed: str, consumer: str, seen: Mapping[str, Any]) -> dict[str, Any]:
    """Up to an entry, given by its time and id; without both, up to the newest one now."""
    return _ask_feed(directory, "PUT", (feed, consumer, "seen"), seen)


def hide_in_feed(directory: Path, feed: str, pair: tuple[str, str], what: str, undo: bool) -> dict[str, Any]:
    """Mutes or blocks (`what` is `mutes` or `blocks`) the second of a pair for the first, or takes that back."""
    return _ask_feed(directory, "DELETE" if undo else "PUT", (feed, what, *pair))


def post_to_feed(directory: Path, feed: str, post: Mapping[str, Any]) -> dict[str, Any]:
    """Posts an event, given as a document: producer, id, time, body."""
    return _ask_feed(directory, "POST", (feed, "events"), post)


def follow_in_feed(directory: Path, feed: str, pair: tuple[str, str], undo: bool) -> dict[str, Any]:
    """Has the first of a pair follow the second, or no longer."""
    return _ask_feed(directory, "DELETE" if undo else "PUT", (feed, "follows", *pair))


def _ask_feed(
    directory: Path, method: str, words: tuple[str, ...], body: Mapping[str, Any] | None = None, query: str = ""
) -> dict[str, Any]:
    """Words of a path may hold anything; the first is the feed."""
    process = _find_feed_process(directory, words[0])
    path = "/".join(quote(word, safe="") for word in words)
    given = None if body is None else dict(body)
    answer: dict[str, Any] = ask(
        process.port, process.token, method, f"/feeds/{path}{query}", given, within_s=ANSWER_WITHIN_S
    )
    return answer


def read_devices(directory: Path) -> dict[str, Any]:
    """Devices of the running project, as a document."""
    return _ask_service(directory, "/devices")


def read_device_plan(directory: Path, device: str) -> dict[str, Any]:
    """What a device was told to do, as a document."""
    return _ask_service(directory, f"/devices/{quote(device, safe='')}/plan")


def _ask_service(directory: Path, path: str) -> dict[str, Any]:
    process = _find_process(directory)
    answer: dict[str, Any] = ask(process.port, process.token, "GET", path, within_s=ANSWER_WITHIN_S)
    return answer


def calibrate_feed(directory: Path, feed: str) -> dict[str, Any]:
    """Measures the prices of a feed now, as a document."""
    process = _find_feed_process(directory, feed)
    path = f"/feeds/{quote(feed, safe='')}/calibrate"
    answer: dict[str, Any] = ask(process.port, process.token, "POST", path, {}, within_s=CALIBRATED_WITHIN_S)
    return answer


def _find_process(directory: Path) -> ServiceProcess:
    process = running_process(Folder(directory))
    if process is None:
        raise UsageError(f'the project in "{directory}" does not run', "start it with `headrace up`")
    _refuse_elsewhere(process)
    return process


def _find_feed_process(directory: Path, feed: str) -> ServiceProcess:
    """The process that keeps a feed: the project's, or that of a site."""
    project = Folder(directory)
    folder = find_site_of_feed(project, feed)
    process = None if folder is project else running_process(folder)
    if process is None and folder is not project and running_process(project) is not None:
        raise ConnectError(f'the process of the site that keeps feed "{feed}" is away', "try again in a moment")
    return process or _find_process(directory)


def _ask_and_tell(directory: Path, path: str, body: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    process = _find_process(directory)
    answer: Future[dict[str, Any]] = Future()
    # Not a thread that is waited for: to interrupt the command must not interrupt the service.
    threading.Thread(target=_ask, args=(answer, process, path, body), daemon=True).start()
    _tell_phases(process, answer, say)
    return answer.result()


def _ask(answer: Future[dict[str, Any]], process: ServiceProcess, path: str, body: Mapping[str, Any]) -> None:
    try:
        answer.set_result(ask(process.port, process.token, "POST", path, body))
    except Exception as error:
        answer.set_exception(error)


def _tell_phases(process: ServiceProcess, answer: Future[dict[str, Any]], say: Callable[[str], None]) -> None:
    started, lines = time.monotonic(), WaitLines()
    while not wait([answer], LOOK_EVERY_S).done:
        passed_s = time.monotonic() - started
        if passed_s >= QUIET_S:
            for line in lines.next_lines(*_look_at(process), passed_s):
                say(line)


def _look_at(process: ServiceProcess) -> tuple[str, list[Trouble]]:
    """What the service is doing, and what is wrong there."""
    try:
        status = ask(process.port, process.token, "GET", "/status", within_s=ANSWER_WITHIN_S)
    except HeadraceError:
        return "the service does not answer", []
    phase = status["service"]["phase"] or ""
    return "planning" if phase == "running" else phase, [Trouble.from_json(one) for one in status["troubles"]]
