"""Runs each site of a project as a process of its own: this is what `headrace up --sites processes` does.

This process plans, tells each site its part, starts the processes of sites and starts those again that end. No rows
pass through it. Sites go on without it; the next one that is started finds those that run.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from headrace.app.preparing import prepare_beside_lost, prepare_or_resume
from headrace.app.refusing import refuse_second
from headrace.app.running import Say, Server, UpSettings, closed_now, log_to
from headrace.connect.files import open_private
from headrace.connect.ledger.holder import this_holder
from headrace.connect.service_client import ask
from headrace.connect.signals import note_signals
from headrace.coordinate.host import Applied, Prepared
from headrace.coordinate.site_statuses import find_sites_status
from headrace.model.errors import ConnectError, Fenced, HeadraceError, LeaseHeld, UsageError
from headrace.model.log import Lease
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan
from headrace.plan.document import plan_document
from headrace.run.ports import Ledger
from headrace.site.folder import Folder
from headrace.site.forced import write_forced
from headrace.site.home import refuse_copy
from headrace.site.last_status import FILE as STATUS_FILE
from headrace.site.last_status import State
from headrace.site.process import (
    SERVICE,
    ServiceProcess,
    end_process,
    exit_status,
    forget_process,
    module_command,
    release_remains,
    running_process,
    spawn_detached,
    this_process,
    write_process,
)
from headrace.site.site_folders import SitePart, note_sites, read_part, read_sites, site_folder, write_part

log = logging.getLogger("headrace.service")

LEASE_S = 30.0
LOOK_EVERY_S = 0.25
STATUS_EVERY_S = 1.0
BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""How long to wait before a site's process is started again that ends right after its start."""
LASTING_S = 30.0
MOST_SAID = 1_000_000
"""Bytes that processes of a site may have said before the next one begins anew."""
END_WITHIN_S = 45.0
APPLIED_WITHIN_S = 3600.0


def _open_growing(file: Path) -> BinaryIO:
    is_long = file.exists() and file.stat().st_size > MOST_SAID
    return open_private(file, os.O_TRUNC if is_long else os.O_APPEND)


def _used_sites(plan: Plan) -> tuple[str, ...]:
    """Sites at which a plan has anything."""
    used = {vertex.site for vertex in plan.graph.vertices.values()}
    return tuple(site for site in plan.catalogue.sites if site in used)


class SitesServer(Protocol):
    """Starts a server for a coordinator with a token, at a port."""

    def __call__(self, host: Coordinator, token: str, port: int) -> Server: ...


@dataclass(slots=True)
class _SiteProcess:
    """How often in a row a site's process ended soon, when the last was started, and which that is."""

    failures: int = 0
    started_s: float = 0.0
    pid: int | None = None


@dataclass
class Coordinator:
    """Plans, tells sites their parts, and sees to it that their processes run."""

    folder: Folder
    environment: Mapping[str, str]
    settings: UpSettings
    plan: Plan
    stop: threading.Event = field(default_factory=threading.Event)
    state: State = State.LOADING

    def __post_init__(self) -> None:
        self._turn = threading.Lock()  # held while a plan is applied
        self._starting = threading.Lock()  # held to look after processes: two threads do
        self._processes: dict[str, _SiteProcess] = {}
        self._behind: set[str] = set()
        """Sites that run, and may not have gone over to the part that was written for them."""

    @property
    def sites(self) -> tuple[str, ...]:
        return read_sites(self.folder)

    # Plans

    def tell_parts(self, prepared: Prepared) -> None:
        """Writes down what each site is to run: a site that runs nothing has an empty part."""
        plan = prepared.plan
        for gone in [site for site in self.sites if site not in plan.catalogue.sites]:
            self._end(gone)
        there = (site for site in self.sites if site in plan.catalogue.sites)
        sites = tuple(dict.fromkeys((*there, *_used_sites(plan))))
        note_sites(self.folder, sites)
        for site in sites:
            here = site_folder(self.folder, site)
            before = read_part(here)
            part = SitePart(1 if before is None else before.number + 1, plan.at_site(site), prepared.forced)
            write_part(here, part)
            if running_process(here) is not None:
                self._behind.add(site)
        self.folder.save_running(plan, plan_document(plan))
        write_forced(self.folder, plan, prepared.forced)
        self.plan = plan

    def apply(self, wishes: ApplyWishes) -> Applied:
        """Brings all sites to the project's plan, and returns when they run it."""
        with self._turn:
            prepared = prepare_beside_lost(self.folder.project, self.environment, wishes)
            refuse_what_needs_one_process(prepared.plan)
            is_same = prepared.change is not None and prepared.change.is_nothing
            if is_same:
                prepared = replace(prepared, steps=())
            if wishes.dry_run:
                return Applied(prepared, done=False)
            if not is_same:
                self.tell_parts(prepared)
                self.look_after_processes()
            return Applied(prepared, done=True, failing=self._apply_behind())

    def catch_up(self) -> None:
        """Has sites go over to their parts that could not before. Tries again later if they cannot now."""
        if self._behind and self._turn.acquire(blocking=False):
            try:
                self._apply_behind()
            except HeadraceError as error:
                log.warning("a site has not gone over to its part: %s", error)
            finally:
                self._turn.release()

    def _apply_behind(self) -> dict[str, str]:
        """Why contracts are not loaded, by contract. Raises what a site has refused; it stays behind then."""
        behind = sorted(self._behind)
        with ThreadPoolExecutor(max(1, len(behind))) as asking:
            failing = [one for found in asking.map(self._apply_at, behind) for one in found.items()]
        return dict(failing)

    def _apply_at(self, site: str) -> Mapping[str, str]:
        """Has a site go over to its part; why contracts are not loaded there, by contract."""
        process = self._wait_for_process(site)
        body = {"replan": False, "force": [], "dry_run": False}
        found = ask(process.port, process.token, "POST", "/apply", body, within_s=APPLIED_WITHIN_S)
        self._behind.discard(site)
        failing: Mapping[str, str] = found.get("failing", {})
        return failing

    def _wait_for_process(self, site: str) -> ServiceProcess:
        until = time.monotonic() + LASTING_S
        while not self.stop.wait(LOOK_EVERY_S / 5):
            process = running_process(site_folder(self.folder, site))
            if process is not None and process.port:
                return process
            if time.monotonic() > until:
                break
        raise ConnectError(f'the process of site "{site}" does not start', "see agent.log in its folder")

    # Processes

    def look_after_processes(self) -> None:
        """Starts the processes of sites that do not run."""
        with self._starting:
            self._look_after_processes()

    def _look_after_processes(self) -> None:
        for site in self.sites:
            known = self._processes.setdefault(site, _SiteProcess())
            if known.pid is not None and exit_status(known.pid) is not None:
                known.pid = None
            if known.pid is not None or running_process(site_folder(self.folder, site)) is not None:
                continue
            since_s = time.monotonic() - known.started_s
            if known.started_s and since_s > LASTING_S:
                known.failures = 0
            if since_s < BACKOFF_S[min(known.failures, len(BACKOFF_S) - 1)]:
                continue
            known.pid = self._start(site)
            known.failures, known.started_s = known.failures + 1, time.monotonic()

    def _start(self, site: str) -> int:
        """What its process says is added to what the one before has said, as long as that is not much."""
        here = site_folder(self.folder, site)
        here.prepare()
        words = ["agent", str(self.folder.project), "--site", site]
        words += [] if self.settings.engine is None else ["--engine", self.settings.engine.value]
        with _open_growing(here.root / "agent.log") as out, _open_growing(here.root / "agent.errors") as err:
            pid = spawn_detached(module_command("headrace", *words), out, err)
        log.info("started the process of site %s", site, extra={"pid": pid})
        return pid

    def end_processes(self) -> None:
        """Ends all sites. Those that have just been started end too, as soon as they are there."""
        with self._starting, ThreadPoolExecutor(max(1, len(self.sites))) as ending:
            list(ending.map(self._end, self.sites))

    def _end(self, site: str) -> None:
        known = self._processes.get(site)
        if known is not None and known.pid is not None and exit_status(known.pid) is None:
            with suppress(ProcessLookupError):
                os.kill(known.pid, signal.SIGTERM)
        process = running_process(site_folder(self.folder, site))
        if process is not None and not end_process(process, END_WITHIN_S):
            log.warning("process %d of site %s did not end", process.pid, site)

    # Telling

    def status(self) -> dict[str, Any]:
        return find_sites_status(self.folder, {"state": self.state.value, "pid": os.getpid()})

    def write_status(self) -> None:
        self.folder.write_json(STATUS_FILE, self.status(), indent=None)


def run_sites(
    directory: Path,
    environment: Mapping[str, str],
    settings: UpSettings,
    serve: SitesServer,
    say: Say,
    tell_plan: Callable[[Prepared], None],
) -> Prepared:
    """Runs until the process is told to end, or someone asks for it. Raises what keeps the project from running."""
    folder = Folder(directory.absolute())
    refuse_second(folder, say)
    folder.check_ledger()
    if not settings.moved:
        refuse_copy(folder)
    say("planning")
    prepared = prepare_or_resume(folder, environment, say)
    refuse_what_needs_one_process(prepared.plan)
    tell_plan(prepared)
    if not prepared.plan.contracts:
        return prepared
    if folder.prepare():
        say(closed_now(folder))
    log_to(folder.root / "service.log")
    release_remains(folder)
    host = Coordinator(folder, environment, settings, prepared.plan)
    with _taking(folder) as (ledger, lease), note_signals(host.stop):
        refuse_state_of_one_process(ledger, folder)
        token = secrets.token_urlsafe(24)
        server = serve(host, token, settings.port)
        try:
            write_process(folder, this_process(lease, server.port, token, folder))
            host.tell_parts(prepared)
            _coordinate(host, ledger, lease, say)
        finally:
            if host.stop.is_set():  # otherwise something is wrong here, and sites go on
                host.end_processes()
                host.state = State.STOPPED
            with suppress(OSError, HeadraceError):
                host.write_status()
            server.stop()
            forget_process(folder)
    return prepared


def _coordinate(host: Coordinator, ledger: Ledger, lease: Lease, say: Say) -> None:
    """Starts what ends, and tells how it goes, until the host is told to stop."""
    began, renewed, written, phase = time.monotonic(), time.monotonic(), 0.0, ""
    while not host.stop.wait(LOOK_EVERY_S):
        now = time.monotonic()
        if now - written < STATUS_EVERY_S:
            continue
        written = now
        try:
            host.look_after_processes()
            if now - renewed > LEASE_S / 4:
                ledger.renew(lease, LEASE_S)
                renewed = now
            status = host.status()
            waiting = [site["id"] for site in status["sites"] if site["state"] != State.RUNNING]
            if host.state is State.LOADING and not waiting:
                host.state = State.RUNNING
                say(f"running after {now - began:.1f} s: {', '.join(host.sites)}")
            elif host.state is State.LOADING and (told := f"starting {', '.join(waiting)}") != phase:
                phase = told
                say(phase)
            elif host.state is State.RUNNING:
                host.catch_up()
            host.write_status()
        except Fenced:
            raise  # somebody else coordinates the project by now
        except (OSError, HeadraceError) as error:  # a full disk, for example: sites go on, and so does this
            log.warning("the sites could not be looked after: %s", error)


@contextmanager
def _taking(folder: Folder) -> Iterator[tuple[Ledger, Lease]]:
    ledger = folder.ledger()
    try:
        try:
            lease = ledger.acquire(SERVICE, this_holder(), LEASE_S)
        except LeaseHeld as error:
            what = f'the project in "{folder.project}" is run by another process: {error}'
            raise UsageError(what, "wait, or stop that process") from error
        try:
            yield ledger, lease
        finally:
            ledger.release(lease)
    finally:
        ledger.close()


def refuse_what_needs_one_process(plan: Plan) -> None:
    """Raises UsageError for projects that cannot run apart yet."""
    recomputed = [name for name, edge in plan.graph.edges.items() if edge.is_recomputed]
    in_full = sorted({contract for name in recomputed for contract in plan.vertex_figures[name].serves})
    # A view in full is known at the times of its own pushes alone: at another site, a copy could start in between.
    views = f"views that are refreshed in full ({', '.join(in_full)})"
    for what, found in (("feeds", plan.feeds), ("templates", plan.templates), (views, in_full)):
        if found:
            hint = "run it with `headrace up --sites inside`, which is the default"
            raise UsageError(f"a project with {what} cannot run its sites as processes of their own yet", hint)


def refuse_state_of_one_process(ledger: Ledger, folder: Folder) -> None:
    if ledger.times():
        what = f'the project in "{folder.project}" has run with all sites in one process, and its rows are there'
        hint = f'go on with `headrace up`, or move "{folder.root}" away to load everything again'
        raise UsageError(what, hint)
