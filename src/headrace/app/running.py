"""Keeps a project's promises until told to stop. This is what `headrace up` does, and most of what the demo does.

    run_project     plans the project, starts the engine, opens a host, has it go over to the plan, keeps promises
    start_engine    Spark, or this process (site/engine/start.py); it starts while everything else goes on
    open_host       service, watchdog, HTTP and replanning (coordinate/host.py); ends all of them, and the engine
    keep_promises   writes the status every second, and tells troubles, until somebody wants it to stop

The door passes in the functions that show progress and serve HTTP: neither is needed to keep a promise.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Protocol

from headrace.app.limits import need_for_heap
from headrace.app.preparing import prepare_beside_lost, prepare_or_resume, runnable
from headrace.app.refusing import refuse_second
from headrace.connect.lean_start import end_start, keep_pandas_out
from headrace.connect.machine import memory_bytes
from headrace.connect.signals import note_signals
from headrace.coordinate.host import Prepared, ServiceHost
from headrace.coordinate.old_passwords import hide_old_passwords
from headrace.coordinate.old_state import OLD_STATE, forget_old_views
from headrace.coordinate.resume import say_recovered
from headrace.coordinate.telling import TroubleLines
from headrace.declare.engine import OPEN_CLUSTER, exposing, is_open_cluster
from headrace.declare.variables import project_environment
from headrace.model.errors import ConnectError, DamagedLedger, Fenced, LeaseHeld, UnreadableState, UsageError
from headrace.model.events import ServiceRecovered, ServiceStarted
from headrace.model.log import Commit
from headrace.model.options import ApplyWishes, RunEngine, SitesMode
from headrace.model.plan_modes import PlanWishes
from headrace.run.push.simulated_links import SimulatedLinksRunner
from headrace.site.devices.processes import BrokerSettings
from headrace.site.engine.settings import engine_to_start, heap_bytes
from headrace.site.engine.start import StartedEngine, start_engine
from headrace.site.engine.watchdog import EngineWatch, Watchdog
from headrace.site.feeds.servers import FeedServerSettings
from headrace.site.folder import Folder
from headrace.site.home import home_of, refuse_copy
from headrace.site.importing import SitePeer
from headrace.site.last_status import State, last_status
from headrace.site.log_words import LOG_WORDS
from headrace.site.process import (
    forget_process,
    read_process,
    release_remains,
    this_process,
    write_process,
)
from headrace.site.service import Service, clock_now
from headrace.site.site_folders import refuse_state_of_processes
from headrace.site.snapshot import find_error
from headrace.site.troubles import DISK

__all__ = [
    "BrokerSettings",
    "FeedServerSettings",
    "HostedSite",
    "Say",
    "Serve",
    "Server",
    "ServiceHost",
    "UpSettings",
    "closed_now",
    "keep_promises",
    "log_to",
    "open_host",
    "run_project",
    "say_phase",
    "tell_remains",
]

STATUS_EVERY_S, PHASE_EVERY_S = 1.0, 0.1
QUIET_STATUS_EVERY_S = 2.0
"""How often the status is written while nothing has rows to push and nothing is wrong: most of it stays the same."""
MEND_DISK = "make room on its disk, and allow writing there; everything continues by itself then"
LOG_BYTES = 10_000_000
HID_PASSWORDS = 'an earlier version had stored passwords in "{root}"; they are removed now. Backups may still hold them'

log = logging.getLogger("headrace.service")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class UpSettings:
    """Port 0 is any that is free. With `shape_links`, transfers between sites take as long as links are declared to.

    `engine` is of the kind that the project says unless another is named. `moved` takes the state in the folder for its
    own, wherever it was made. Without `feed_servers` the service itself serves feeds, on its own port. `broker` is
    where the broker listens that projects with templates have.
    """

    port: int = 0
    engine: RunEngine | None = None
    shape_links: bool = False
    moved: bool = False
    feed_servers: FeedServerSettings | None = None
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    sites: SitesMode = SitesMode.INSIDE
    listen: str | None = None
    """Where sites that join from elsewhere find the coordinator: host, or host and port."""
    planning: PlanWishes = field(default_factory=PlanWishes)


@dataclass(frozen=True, slots=True)
class HostedSite:
    """A site that runs as a process of its own: the project that it belongs to, how to find others, what it runs, and
    how it answers them. `is_beside_others` if the processes of all other sites are on this machine, too.
    """

    site: str
    project: Path
    find_peer: Callable[[str], SitePeer]
    prepare: Callable[[ApplyWishes], Prepared]
    serve: Callable[[ServiceHost], Server]
    is_beside_others: bool = False


class Server(Protocol):
    """What answers over HTTP."""

    @property
    def port(self) -> int: ...

    def stop(self) -> None: ...


Serve = Callable[[ServiceHost, str, int], Server]
"""Starts a server for a host with a token, at a port."""


def run_project(
    directory: Path,
    environment: Mapping[str, str],
    settings: UpSettings,
    serve: Serve,
    say: Say,
    tell_plan: Callable[[Prepared], None],
) -> Prepared:
    """Runs until the process is told to end, or someone asks for it. Raises what keeps the project from running."""
    folder = Folder(directory)
    if settings.feed_servers is not None:
        settings.feed_servers.check()
    settings.broker.check()
    refuse_second(folder, say)
    folder.check_ledger()
    if not settings.moved:
        refuse_copy(folder)
    refuse_state_of_processes(folder)
    _remove_old_passwords(folder, say)
    say("planning")
    resumed = prepare_or_resume(folder, environment, settings.planning, say)
    declared = engine_to_start(resumed.plan.catalogue.engine, settings.engine)
    if declared.kind is RunEngine.SPARK:
        need_for_heap(heap_bytes(declared, memory_bytes()))
    prepared = runnable(resumed, declared.kind)
    tell_plan(prepared)
    if not prepared.plan.contracts:
        return prepared
    if is_open_cluster(declared.master, declared.properties):
        say(f"engine: {OPEN_CLUSTER}")
    for name, danger in exposing(declared.properties).items():
        say(f'engine: property "{name}" weakens a default: {danger}')
    if folder.prepare():
        say(closed_now(folder))
    log_to(folder.root / "service.log")
    recovered = tell_remains(folder, say)
    began, engine = time.monotonic(), start_engine(declared, folder)
    with open_host(folder, environment, engine, settings, serve, recovered) as host, note_signals(host.stop):
        host.start(prepared)
        keep_promises(host, say, lambda phase: say(say_phase(phase, host, began)))
    return prepared


@contextmanager
def open_host(
    folder: Folder,
    environment: Mapping[str, str],
    engine: StartedEngine,
    settings: UpSettings,
    serve: Serve,
    recovered: ServiceRecovered | None = None,
    alone: HostedSite | None = None,
) -> Iterator[ServiceHost]:
    """A host that can go over to a plan. The engine may still be on its way; it ends with the host.

    Whoever reads the project, asks it over HTTP or wants to end it finds this process. It runs all sites, or one that
    is `alone`: whether another plan would be better is then for those to say who see all of it.
    """
    keep_pandas_out()
    try:
        service, watch = _make_service(folder, environment, engine, settings, alone)
        _take_project(service, folder)
    except BaseException:
        engine.end()
        raise
    if recovered is not None:
        service.journal.emit(recovered)
    service.journal.emit(ServiceStarted(service.clock(), os.getpid()))
    _start_watchdog(service, watch)

    def prepare_project(wishes: ApplyWishes) -> Prepared:
        return runnable(prepare_beside_lost(folder.project, environment, wishes), engine.kind)

    end_start()
    host = ServiceHost(service, folder, prepare_project if alone is None else alone.prepare, engine=engine.kind)
    try:
        service.ledger.commit(service.lease, Commit(notes=(home_of(folder),)))
        forget_old_views(folder, service.ledger, service.lease)
        token = secrets.token_urlsafe(24)
        server = serve(host, token, settings.port)
        try:
            if alone is not None:
                with _answering_sites(alone, host) as wire_port:
                    write_process(folder, this_process(service.lease, server.port, token, folder, wire_port))
                    serving, deciding = host.serving_feeds(settings.feed_servers), host.deciding_feeds()
                    with serving, host.measuring(), host.checking(), deciding:
                        yield host
                return
            write_process(folder, this_process(service.lease, server.port, token, folder))
            serving = host.serving_feeds(settings.feed_servers)
            deciding, devices = host.deciding_feeds(), host.running_devices(settings.broker)
            with serving, host.replanning(), host.checking(), deciding, devices:
                yield host
        finally:
            server.stop()
    finally:
        with ExitStack() as ending:  # the last one first, and all of them whatever one raises
            ending.callback(_tell_end, host)
            ending.callback(engine.end)  # before the project is free: the next process starts one in the same folder
            ending.callback(service.close)


@contextmanager
def _answering_sites(alone: HostedSite, host: ServiceHost) -> Iterator[int]:
    """Answers other sites meanwhile, at this port."""
    server = alone.serve(host)
    try:
        yield server.port
    finally:
        server.stop()


def _make_service(
    folder: Folder,
    environment: Mapping[str, str],
    engine: StartedEngine,
    settings: UpSettings,
    alone: HostedSite | None,
) -> tuple[Service, EngineWatch]:
    stop, runner, watch = threading.Event(), engine.runner, EngineWatch(engine.replace, engine.allowed_s)
    links_now = None
    if settings.shape_links:
        links = SimulatedLinksRunner(engine.runner, lambda: service.links(), wait=stop.wait)
        watch = EngineWatch(engine.replace, lambda: engine.allowed_s() + links.allowed_s(), links.left_s)
        runner, links_now = links, links.queues
    service = Service(
        folder,
        project_environment(environment, folder.project if alone is None else alone.project),
        runner,
        absence=engine.absence,
        cores=engine.cores,
        stop=stop,
        links_now=links_now,
        site=None if alone is None else alone.site,
        home=None if alone is None else Folder(alone.project),
        find_peer=None if alone is None else alone.find_peer,
    )
    return service, watch


def _take_project(service: Service, folder: Folder) -> None:
    try:
        service.open()
    except LeaseHeld as error:
        raise _say_held(folder, error) from error


def _say_held(folder: Folder, error: LeaseHeld) -> UsageError:
    what = f'the project in "{folder.project}" is run by another process: {error}'
    return UsageError(what, "wait, or stop that process")


def _start_watchdog(service: Service, engine: EngineWatch) -> None:
    Watchdog(
        open_ledger=service.folder.ledger,
        state=lambda: service.rounds.state,
        unloaded=service.unloaded,
        troubles=service.troubles,
        absence=service.absence,
        stop=service.stop,
        engine=engine,
    ).start()


def keep_promises(host: ServiceHost, say: Say, tell_phase: Say) -> None:
    """Writes the status, and tells how loading goes on and what is wrong, until the host is told to stop.

    Raises what keeps views from being loaded, or has ended the service.
    """
    phase, written, troubles, quiet = "", 0.0, TroubleLines(), _Quiet()
    while not host.stop.wait(PHASE_EVERY_S if host.state is State.LOADING else STATUS_EVERY_S / 2):
        loading = host.service.loading
        assert loading is not None
        if host.state is State.LOADING and loading.phase != phase:
            phase = loading.phase
            tell_phase(phase)
        if host.state is State.LOADING and loading.done.is_set():
            if loading.error is not None:
                host.become(State.FAILED)
                raise ConnectError(
                    f"the views could not be loaded: {loading.error.splitlines()[0]}",
                    f"its log is {host.folder.root / 'service.log'}",
                )
            host.become(State.RUNNING)
            written = 0.0
        waiting = host.state is State.LOADING
        for line in troubles.next_lines(host.service.troubles.all(), time.monotonic(), waiting):
            say(line)
        if not host.service.is_running:
            host.become(State.FAILED)
            raise _failure(host)
        every_s = QUIET_STATUS_EVERY_S if quiet.is_quiet(host) else STATUS_EVERY_S
        if time.monotonic() - written >= 0.9 * every_s:
            _write_status(host)
            written = time.monotonic()
            quiet.note(host)


@dataclass(slots=True)
class _Quiet:
    """Whether a status would say what the one before said, but for times."""

    rows: int = -1
    troubles: Collection[str] = ()

    def note(self, host: ServiceHost) -> None:
        """A status has been written."""
        self.rows, self.troubles = host.service.rounds.counts.rows, host.service.troubles.all().keys()

    def is_quiet(self, host: ServiceHost) -> bool:
        """Nothing was pushed that has rows, nothing is wrong, and nothing is late."""
        service = host.service
        same = service.rounds.counts.rows == self.rows and service.troubles.all().keys() == self.troubles == set()
        return same and host.state is State.RUNNING and not service.auditor.is_any_late


def tell_status(host: ServiceHost, end: threading.Event) -> None:
    """Writes the status meanwhile, as `keep_promises` did: a host that is about to end still pushes views."""
    while not end.wait(STATUS_EVERY_S / 2):
        _write_status(host)


def _write_status(host: ServiceHost) -> None:
    """Writes the status, and tells of a disk that does not take it: then `status` asks for it over HTTP."""
    service, hindrance = host.service, host.service.threads.hindrance
    found = {} if hindrance is None else {f"{DISK}ledger": (hindrance.message, hindrance.hint or MEND_DISK)}
    try:
        host.write_status()
    except OSError as error:
        found[f"{DISK}status"] = f'"{host.folder.root}" cannot be written: {error.strerror}', MEND_DISK
    except ConnectError as error:  # the ledger, which the status is read from
        found[f"{DISK}ledger"] = error.message, error.hint or MEND_DISK
    service.troubles.report_exactly(DISK, found)


def _remove_old_passwords(folder: Folder, say: Say) -> None:
    try:
        if hide_old_passwords(folder):
            say(HID_PASSWORDS.format(root=folder.root))
    except LeaseHeld as error:
        raise _say_held(folder, error) from error


def say_phase(phase: str, host: ServiceHost, began: float) -> str:
    process = read_process(host.folder)
    if phase != "running" or process is None:
        return phase
    served = f"; feeds: {host.feed_servers.settings.address}" if host.feed_servers is not None else ""
    return f"running after {time.monotonic() - began:.1f} s: {process.address}{served}"


def _failure(host: ServiceHost) -> Exception:
    """The error of a service that has ended by itself.

    One that lost its project did no harm: nothing of it was committed.
    """
    why = host.service.failure
    if isinstance(why, Fenced):
        what = f'the project in "{host.folder.project}" was taken over while this process was suspended: {why}'
        return UsageError(what, "the other process continues from the last commit of this one")
    if isinstance(why, DamagedLedger):
        return why
    failed = RuntimeError("the service failed")
    failed.__cause__ = why
    return failed


def _tell_end(host: ServiceHost) -> None:
    """Tells the end to files, as far as these can be read: nothing may hide why the service ends."""
    host.become(State.STOPPED if host.state is not State.FAILED else State.FAILED)
    try:
        _write_last_status(host)
        forget_process(host.folder)
    except (UnreadableState, OSError) as error:
        log.warning("how the service ended is not written down: %s", error)


def _write_last_status(host: ServiceHost) -> None:
    """The ledger is closed: what was written last, with how it ended; unless somebody else runs the project by now."""
    found, process = host.folder.read_json("status.json"), read_process(host.folder)
    if isinstance(found, dict) and process is not None and process.is_this:
        found["service"] |= {"state": host.state.value, "error": find_error(host.service), "written": time.time()}
        host.folder.write_json("status.json", found)


def closed_now(folder: Folder) -> str:
    return f'other users could read "{folder.root}"; it is closed to them now'


def tell_remains(folder: Folder, say: Say) -> ServiceRecovered | None:
    """What is left of a run that was killed; None if there is nothing."""
    dead = release_remains(folder)
    last = last_status(folder) if dead is not None else None
    if dead is not None:
        seen = last["service"]["written"] if last else dead.started
        say(f"the last run (process {dead.pid}) ended unexpectedly, after {_clock(seen)}")
    if folder.is_of_old_version:
        for line in OLD_STATE:
            say(line)
    if dead is None:
        return None
    kept = None if folder.is_of_old_version else say_recovered(folder, clock_now())
    if kept is not None:
        say(f"continuing from its last commit: {kept}")
    return ServiceRecovered(clock_now(), dead.pid, max(0.0, time.time() - seen), reason=kept)


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


class _PrivateLog(logging.handlers.RotatingFileHandler):
    """Every file that it begins is for the owner alone."""

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).touch(mode=0o600)
        return super()._open()


def log_to(file: Path) -> None:
    """Everything goes to the file; what people see is said to them."""
    handler = _PrivateLog(file, maxBytes=LOG_BYTES, backupCount=1)
    handler.setFormatter(LOG_WORDS)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
