"""Starts a separate process that runs a project, and waits until it does."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from headrace.app.limits import say_signal
from headrace.app.project import load_project
from headrace.app.refusing import refuse_second
from headrace.app.running import Say, UpSettings, closed_now
from headrace.connect.files import open_private
from headrace.coordinate.telling import Progress
from headrace.declare.project_text import PROJECT_FILE
from headrace.model.options import SitesMode
from headrace.model.plan_modes import PlanWishes
from headrace.model.trouble import Trouble
from headrace.site.devices.processes import BrokerSettings
from headrace.site.feeds.servers import FeedServerSettings
from headrace.site.folder import Folder
from headrace.site.last_status import State, last_status
from headrace.site.process import ServiceProcess, exit_status, module_command, running_process, spawn_detached

LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Detached:
    """A process that runs a project, and how long that took; or what it ended with instead, and its last words.

    One that `waits_for` something does not keep promises yet: somebody has to mend it, and it goes on trying.
    """

    process: ServiceProcess | None
    seconds: float
    status: int | None = None
    error: str = ""
    waits_for: Trouble | None = None


def start_detached(directory: Path, settings: UpSettings, say: Say) -> Detached:
    """Starts a process of its own that runs the project; returns when it does. Tells what that process says.

    Also returns when it has waited for some minutes for something that somebody has to mend.
    """
    folder = Folder(directory)
    if settings.feed_servers is not None:
        settings.feed_servers.check()
    settings.broker.check()
    refuse_second(folder, say)
    if not (directory / PROJECT_FILE).is_file():
        load_project(directory, {})  # raises what is wrong: nothing is made where there is no project
    if folder.prepare():
        say(closed_now(folder))
    began, output, errors = time.monotonic(), folder.root / "up.log", folder.root / "up.errors"
    words = ["up", str(directory), "--port", str(settings.port)]
    words += [] if settings.engine is None else ["--engine", settings.engine.value]
    words += ["--shape-links"] if settings.shape_links else []
    words += ["--moved"] if settings.moved else []
    words += ["--sites", settings.sites.value] if settings.sites is not SitesMode.INSIDE else []
    words += [] if settings.listen is None else ["--listen", settings.listen]
    words += _name_planning(settings.planning)
    words += name_servers(settings.feed_servers)
    words += _name_broker(settings.broker)
    with open_private(output) as out, open_private(errors) as err:
        child = spawn_detached(module_command("headrace", *words), out, err)
    told, process, status, progress, waits_for = 0, None, None, Progress(), None
    while process is None and status is None:
        time.sleep(LOOK_EVERY_S)
        status = exit_status(child)
        told = _tell_more(output, told, say)
        process, waits_for = _look_at(folder, child, progress)
    _tell_more(output, told, say)
    seconds = time.monotonic() - began
    if process is None and status is not None and status < 0:
        said = errors.read_text().strip()
        return Detached(None, seconds, None, "\n".join(filter(None, (said, f"error: {say_signal(-status)}"))))
    if process is None:
        return Detached(None, seconds, status, errors.read_text().strip())
    return Detached(process, seconds, waits_for=waits_for)


def _name_planning(said: PlanWishes) -> list[str]:
    named = {"--method": said.method, "--share": said.sharing, "--wide-area": said.wide_area}
    return [word for option, wish in named.items() if wish is not None for word in (option, wish.value)]


def name_servers(servers: FeedServerSettings | None) -> list[str]:
    """The options of `up` that ask for them."""
    if servers is None:
        return []
    words = ["--feed-servers", str(servers.count), "--feed-host", servers.host, "--feed-port", str(servers.port)]
    words += [] if servers.certificate is None else ["--feed-cert", servers.certificate]
    return words + ([] if servers.key is None else ["--feed-key", servers.key])


def _look_at(folder: Folder, pid: int, progress: Progress) -> tuple[ServiceProcess | None, Trouble | None]:
    """The process, once it runs; or once it has waited for too long, and for what."""
    process, last = running_process(folder), last_status(folder)
    if process is None or last is None or not process.pid == pid == last["service"]["pid"]:
        return None, None
    if last["service"]["state"] == State.RUNNING:
        return process, None
    troubles = [Trouble.from_json(one) for one in last["troubles"]]
    if progress.is_stuck(last["service"]["phase"] or "", troubles, time.monotonic()):
        return process, troubles[0]
    return None, None


def _tell_more(file: Path, told: int, say: Say) -> int:
    """Tells the whole lines that were added to a file; up to where."""
    text = file.read_text()[told:]
    whole = text[: text.rfind("\n") + 1]
    for line in whole.splitlines():
        say(line)
    return told + len(whole)


def _name_broker(broker: BrokerSettings) -> list[str]:
    if broker == BrokerSettings():
        return []
    words = ["--broker-host", broker.host, "--broker-port", str(broker.port)]
    words += [] if broker.certificate is None else ["--broker-cert", broker.certificate]
    return words + ([] if broker.key is None else ["--broker-key", broker.key])
