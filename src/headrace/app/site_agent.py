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
    UpSettings,
    keep_promises,
    log_to,
    open_host,
    say_phase,
    tell_remains,
)
from headrace.connect.signals import note_signals
from headrace.connect.wire.peer import HttpPeer, PeerAddress
from headrace.model.errors import UsageError
from headrace.model.options import ApplyWishes
from headrace.site.engine.settings import engine_to_start
from headrace.site.engine.start import start_engine
from headrace.site.folder import Folder
from headrace.site.process import running_process
from headrace.site.site_folders import read_part, site_folder


def run_agent(
    directory: Path, site: str, environment: Mapping[str, str], settings: UpSettings, serve: Serve, say: Say
) -> None:
    """Runs until the process is told to end."""
    project = Folder(directory.absolute())
    folder = site_folder(project, site)
    refuse_second(folder, say)
    folder.check_ledger()
    part = read_part(folder)
    if part is None:
        hint = "start the project with `headrace up --sites processes`"
        raise UsageError(f'nobody has said what site "{site}" is to run', hint)
    catalogue = part.plan.catalogue
    declared = engine_to_start(catalogue.sites[site].engine or catalogue.engine, settings.engine)
    folder.prepare()
    log_to(folder.root / "service.log")
    recovered = tell_remains(folder, say)
    alone = HostedSite(site, project.project, partial(_find_peer, project), partial(prepare_part, folder))
    began, engine = time.monotonic(), start_engine(declared, folder)
    with open_host(folder, environment, engine, settings, serve, recovered, alone) as host, note_signals(host.stop):
        host.start(host.prepare(ApplyWishes()))
        keep_promises(host, say, lambda phase: say(say_phase(phase, host, began)))


def _find_peer(project: Folder, site: str) -> HttpPeer:
    return HttpPeer(site, _find_where(project, site))


def _find_where(project: Folder, site: str) -> Callable[[], PeerAddress | None]:
    """Where a site's process is now: it says so in its folder."""

    def find() -> PeerAddress | None:
        process = running_process(site_folder(project, site))
        return None if process is None or not process.port else PeerAddress("127.0.0.1", process.port, process.token)

    return find
