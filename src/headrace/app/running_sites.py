"""Runs the process that coordinates the sites of a project, from its start until it is told to end.

What it does meanwhile is in `app/site_processes.py`, and for sites that join from elsewhere in `app/site_agents.py`.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from headrace.app.apart import refuse_moved_posts
from headrace.app.preparing import prepare_or_resume
from headrace.app.refusing import refuse_second
from headrace.app.running import Say, Server, UpSettings, closed_now, log_to
from headrace.app.site_processes import LOOK_EVERY_S, Coordinator
from headrace.connect.lean_start import end_start
from headrace.connect.ledger.holder import this_holder
from headrace.connect.signals import note_signals
from headrace.coordinate.host import Prepared
from headrace.model.errors import Fenced, HeadraceError, LeaseHeld, UsageError
from headrace.model.log import Lease
from headrace.model.options import SitesMode
from headrace.model.plan import Plan
from headrace.run.ports import Ledger
from headrace.site.folder import Folder
from headrace.site.home import refuse_copy
from headrace.site.last_status import State
from headrace.site.process import SERVICE, forget_process, release_remains, this_process, write_process
from headrace.site.site_folders import read_sites_mode

log = logging.getLogger("headrace.service")

LEASE_S = 30.0
STATUS_EVERY_S = 1.0
CERTIFY_EVERY_S = 600.0


MakeCoordinator = Callable[[Folder, Mapping[str, str], UpSettings, Plan], Coordinator]


class SitesServer(Protocol):
    """Starts a server for a coordinator with a token, at a port."""

    def __call__(self, host: Coordinator, token: str, port: int) -> Server: ...


def run_sites(
    directory: Path,
    environment: Mapping[str, str],
    settings: UpSettings,
    serve: SitesServer,
    say: Say,
    tell_plan: Callable[[Prepared], None],
    make_coordinator: MakeCoordinator,
) -> Prepared:
    """Runs until the process is told to end, or someone asks for it. Raises what keeps the project from running."""
    folder = Folder(directory.absolute())
    if settings.feed_servers is not None:
        settings.feed_servers.check()
    refuse_second(folder, say)
    folder.check_ledger()
    if not settings.moved:
        refuse_copy(folder)
    say("planning")
    prepared = prepare_or_resume(folder, environment, settings.planning, say, settings.sites)
    tell_plan(prepared)
    if not prepared.plan.contracts:
        return prepared
    if folder.prepare():
        say(closed_now(folder))
    log_to(folder.root / "service.log")
    release_remains(folder)
    refuse_other_mode(folder, settings.sites)
    host = make_coordinator(folder, environment, settings, prepared.plan)
    host.check_engines(prepared.plan)
    host.check_feed_servers(prepared.plan)
    refuse_moved_posts(folder.running(), prepared.plan)
    end_start()
    with _taking(folder) as (ledger, lease), note_signals(host.stop):
        refuse_state_of_one_process(ledger, folder)
        token = secrets.token_urlsafe(24)
        server = serve(host, token, settings.port)
        try:
            write_process(folder, this_process(lease, server.port, token, folder))
            with host.serving_sites(lease):
                host.tell_parts(prepared)
                host.note_left_out(prepared)
                _coordinate(host, ledger, lease, say)
        finally:
            if host.stop.is_set():  # otherwise something is wrong here, and sites go on
                host.end_processes()
                host.note_state(State.STOPPED)
            with suppress(OSError, HeadraceError):
                host.write_status()
            server.stop()
            forget_process(folder)
    return prepared


def _coordinate(host: Coordinator, ledger: Ledger, lease: Lease, say: Say) -> None:
    """Starts what ends, and tells how it goes, until the host is told to stop."""
    began = renewed = certified = time.monotonic()
    written, phase = 0.0, ""
    threading.Thread(target=_catch_up_until, args=(host,), name="catch up", daemon=True).start()
    host.start_moving(ledger, lease)
    while not host.stop.wait(LOOK_EVERY_S):
        now = time.monotonic()
        if now - written < STATUS_EVERY_S:
            continue
        written = now
        try:
            host.look_after_processes()
            if now - certified > CERTIFY_EVERY_S:
                host.give_certificates()
                certified = now
            if now - renewed > LEASE_S / 4:
                ledger.renew(lease, LEASE_S)
                renewed = now
            status = host.status()
            waiting = [site["id"] for site in status["sites"] if site["state"] != State.RUNNING]
            waiting = waiting if host.waits_for_sites else []
            if host.state is State.LOADING and not waiting:
                host.note_state(State.RUNNING)
                say(host.say_running(now - began))
            elif host.state is State.LOADING and (told := f"starting {', '.join(waiting)}") != phase:
                phase = told
                say(phase)
            host.write_status()
        except Fenced:
            raise  # somebody else coordinates the project by now
        except (OSError, HeadraceError) as error:  # a full disk, for example: sites go on, and so does this
            log.warning("the sites could not be looked after: %s", error)


def _catch_up_until(host: Coordinator) -> None:
    """Runs in a thread of its own: a site may take long to go over, and processes are looked after meanwhile."""
    while not host.stop.wait(STATUS_EVERY_S):
        try:
            if host.state is State.RUNNING:
                host.catch_up()
        except Exception:  # whatever it is: it is tried again
            log.exception("sites could not be brought to the newest plan")


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


def refuse_other_mode(folder: Folder, mode: SitesMode) -> None:
    """Raises UsageError if the sites of a project have run elsewhere: their rows are there."""
    ran = read_sites_mode(folder)
    if ran not in (SitesMode.INSIDE, mode):
        what = f'the sites of the project in "{folder.project}" have run with `--sites {ran.value}`'
        hint = f'go on with `headrace up --sites {ran.value}`, or move "{folder.root}" away to load everything again'
        raise UsageError(what, hint)


def refuse_state_of_one_process(ledger: Ledger, folder: Folder) -> None:
    if ledger.times():
        what = f'the project in "{folder.project}" has run with all sites in one process, and its rows are there'
        hint = f'go on with `headrace up`, or move "{folder.root}" away to load everything again'
        raise UsageError(what, hint)
