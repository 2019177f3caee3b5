"""Runs one site of a project: this is what `headrace agent` does.

A site has a folder of its own, with everything that a project's folder has. What it runs is written there by whoever
coordinates the sites. It goes on with that when nobody coordinates any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from headrace.app.preparing import prepare_part
from headrace.app.refusing import refuse_second
from headrace.app.running import (
    HostedSite,
    Say,
    Serve,
    ServiceHost,
    UpSettings,
    keep_promises,
    log_to,
    open_host,
    say_phase,
    tell_remains,
    tell_status,
)
from headrace.app.site_answers import answer_site
from headrace.connect.free_port import free_port
from headrace.connect.machine import memory_bytes
from headrace.connect.signals import note_signals
from headrace.connect.small_memory import keep_giving_back, use_few_pools
from headrace.connect.wire.client import WireAddress, WireClient
from headrace.connect.wire.contexts import IDENTITY_FOLDER, WireIdentity
from headrace.connect.wire.limit import LinkLimits
from headrace.connect.wire.peer import HttpPeer
from headrace.connect.wire.server import WireServer
from headrace.model.errors import UsageError
from headrace.model.options import ApplyWishes, DeclaredEngine, RunEngine
from headrace.model.plan import Plan
from headrace.site.engine.settings import engine_to_start, find_engines, share_heap
from headrace.site.engine.start import start_engine
from headrace.site.folder import Folder
from headrace.site.left_fresh import keep_left
from headrace.site.process import running_process
from headrace.site.site_folders import SitePart, read_part, site_folder
from headrace.site.threads import running_beside

LOOPBACK = "127.0.0.1"
FOUND_FOR_S = 1.0


def run_agent(
    directory: Path, site: str, environment: Mapping[str, str], settings: UpSettings, serve: Serve, say: Say
) -> None:
    """Runs until the process is told to end."""
    project = Folder(directory.absolute())
    folder = site_folder(project, site)
    refuse_second(folder, say, what=f'site "{site}"')
    folder.check_ledger()
    part = read_part(folder)
    if part is None:
        hint = "start the project with `headrace up --sites processes`"
        raise UsageError(f'nobody has said what site "{site}" is to run', hint)
    folder.prepare()
    log_to(folder.root / "service.log")
    identity, limits = WireIdentity(folder.root / IDENTITY_FOLDER), LinkLimits()

    def serve_sites(host: ServiceHost) -> WireServer:
        limits.follow(host.service.find_limit)
        return WireServer(partial(answer_site, host), identity, LOOPBACK, free_port(LOOPBACK), limits)

    alone = HostedSite(
        site,
        project.project,
        partial(_find_peer, project, identity, limits),
        partial(prepare_part, folder),
        serve_sites,
        is_beside_others=True,
    )
    run_hosted(folder, alone, part, environment, settings, serve, say)


def run_hosted(
    folder: Folder,
    alone: HostedSite,
    part: SitePart,
    environment: Mapping[str, str],
    settings: UpSettings,
    serve: Serve,
    say: Say,
) -> None:
    """Runs the part of a site until the process is told to end."""
    declared = _choose_engine(part.plan, alone, settings)
    if declared.kind is RunEngine.LOCAL:
        use_few_pools()
    recovered = tell_remains(folder, say)
    began, engine = time.monotonic(), start_engine(declared, folder)
    with (
        open_host(folder, environment, engine, settings, serve, recovered, alone) as host,
        note_signals(host.stop),
        running_beside(keep_giving_back, "give back memory"),
    ):
        host.start(host.prepare(ApplyWishes()))
        keep_promises(host, say, lambda phase: say(say_phase(phase, host, began)))
        with running_beside(partial(tell_status, host), "status"):
            left = host.service.leave_fresh()
    keep_left(folder, left)
    if left is not None:
        say(left.say())


def _choose_engine(plan: Plan, alone: HostedSite, settings: UpSettings) -> DeclaredEngine:
    """The engine that the site declares, or the project."""
    catalogue = plan.catalogue
    own = engine_to_start(catalogue.sites[alone.site].engine or catalogue.engine, settings.engine)
    others = find_engines(plan, settings.engine) if alone.is_beside_others else {}
    return share_heap({**others, alone.site: own}, alone.site, memory_bytes())


def _find_peer(project: Folder, identity: WireIdentity, limits: LinkLimits, site: str) -> HttpPeer:
    return HttpPeer(WireClient(site, _find_where(project, site), identity, limits))


def _find_where(project: Folder, site: str) -> Callable[[], WireAddress | None]:
    """Where a site's process is now: it says so in its folder. What was found holds for a moment: sites ask each other
    all the time, and whoever does not find one there asks again.
    """
    found: tuple[float, WireAddress | None] = (float("-inf"), None)

    def find() -> WireAddress | None:
        nonlocal found
        now, (looked, where) = time.monotonic(), found
        if where is not None and now < looked + FOUND_FOR_S:
            return where
        process = running_process(site_folder(project, site))
        where = None if process is None or not process.wire_port else WireAddress(LOOPBACK, process.wire_port)
        found = (now, where)
        return where

    return find
