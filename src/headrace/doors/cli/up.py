"""`headrace up [DIR]`: keeps the project's promises until it is told to stop."""

from __future__ import annotations

import json as json_text
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, count, fit, say_troubles, show, show_errors, write
from headrace.doors.cli.plan import MethodOption, SharingOption, WideAreaOption
from headrace.model.errors import Problem, UsageError
from headrace.model.options import RunEngine, SitesMode
from headrace.model.plan_modes import PlanWishes

if TYPE_CHECKING:
    from headrace.app.detached import Detached
    from headrace.app.preparing import Prepared
    from headrace.app.running import FeedServerSettings

LOOPBACK = "127.0.0.1"
Detach = Annotated[bool, typer.Option("--detach", help="Start the service in the background; return once it runs.")]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="The port for HTTP, on this machine only.", show_default="any")
]
EngineOption = Annotated[
    RunEngine | None,
    typer.Option(
        "--engine", help="Computes the views; local is for small projects.", show_default="as the project says"
    ),
]


ShapeLinks = Annotated[
    bool,
    typer.Option(
        "--shape-links",
        help="Simulate links: transfers between sites take the time that their bandwidth and latency imply.",
    ),
]


Sites = Annotated[
    SitesMode,
    typer.Option(
        "--sites",
        help="Run all sites in this process, or each as one of its own on this machine; agents join from elsewhere.",
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen", metavar="ADDRESS", help="HOST or HOST:PORT for other sites.", show_default="127.0.0.1, or as before"
    ),
]


Moved = Annotated[
    bool,
    typer.Option(
        "--moved", help="Continue with state that was copied from another folder, which nobody runs any more."
    ),
]


FeedServerCount = Annotated[
    int,
    typer.Option(
        "--feed-servers", min=0, max=64, help="Processes that serve feeds.", show_default="the service itself"
    ),
]
FeedPort = Annotated[
    int, typer.Option("--feed-port", min=0, max=65535, help="The port of feed servers.", show_default="any")
]
FeedHost = Annotated[str, typer.Option("--feed-host", help="Where feed servers listen; elsewhere needs TLS.")]
FeedCertificate = Annotated[Path | None, typer.Option("--feed-cert", help="Certificate for TLS of feed servers (PEM).")]
FeedKey = Annotated[Path | None, typer.Option("--feed-key", help="Its key (PEM).")]
BrokerPort = Annotated[
    int,
    typer.Option("--broker-port", min=0, max=65535, help="The port of the devices' broker.", show_default="as before"),
]
BrokerHost = Annotated[str, typer.Option("--broker-host", help="Where the broker listens; elsewhere needs TLS.")]
BrokerCertificate = Annotated[
    Path | None, typer.Option("--broker-cert", help="Certificate for TLS of the broker (PEM).")
]
BrokerKey = Annotated[Path | None, typer.Option("--broker-key", help="Its key (PEM).")]


def up(
    directory: Directory = Path(),
    detach: Detach = False,
    port: Port = 0,
    engine: EngineOption = None,
    shape_links: ShapeLinks = False,
    sites: Sites = SitesMode.INSIDE,
    listen: Listen = None,
    moved: Moved = False,
    method: MethodOption = None,
    share: SharingOption = None,
    wide_area: WideAreaOption = None,
    feed_servers: FeedServerCount = 0,
    feed_port: FeedPort = 0,
    feed_host: FeedHost = LOOPBACK,
    feed_cert: FeedCertificate = None,
    feed_key: FeedKey = None,
    broker_port: BrokerPort = 0,
    broker_host: BrokerHost = LOOPBACK,
    broker_cert: BrokerCertificate = None,
    broker_key: BrokerKey = None,
    json: Json = False,
) -> int:
    """Run the project: load its views and keep them fresh."""
    from headrace.app.running import BrokerSettings, UpSettings, run_project

    servers = read_feed_servers(feed_servers, feed_host, feed_port, feed_cert, feed_key)
    broker = BrokerSettings(broker_host, broker_port, *map(_name_file, (broker_cert, broker_key)))
    planning = PlanWishes(method, share, wide_area)
    if listen is not None and sites is not SitesMode.AGENTS:
        raise UsageError("--listen is for sites that join from elsewhere", "add --sites agents")
    settings = UpSettings(port, engine, shape_links, moved, servers, broker, sites, listen, planning)
    say = choose_say(json)
    if detach:
        from headrace.app.detached import start_detached

        return _tell_detached(start_detached(directory, settings, say_troubles if json else say), json)
    if sites is not SitesMode.INSIDE:
        from headrace.app.running_sites import run_sites
        from headrace.app.site_agents import AgentsCoordinator
        from headrace.app.site_processes import Coordinator
        from headrace.doors.api.coordinator import serve_sites

        make = Coordinator if sites is SitesMode.PROCESSES else AgentsCoordinator
        tell = partial(_refusals, say=say)
        prepared = run_sites(directory, os.environ, settings, serve_sites, say, tell, make)
    else:
        from headrace.doors.api.server import serve

        prepared = run_project(directory, os.environ, settings, serve, say, lambda found: _refusals(found, say))
    if not prepared.plan.contracts:
        none = "no contract can be kept" if prepared.plan.catalogue.contracts else "the project has no contracts"
        say(f"{none}: nothing runs")
        return Exit.NO
    say("stopped")
    return Exit.DONE


def read_feed_servers(
    count: int, host: str, port: int, certificate: Path | None, key: Path | None
) -> FeedServerSettings | None:
    """What the options of feed servers ask for; None without any. Raises UsageError."""
    from headrace.app.running import FeedServerSettings

    if count:
        return FeedServerSettings(count, host, port, *map(_name_file, (certificate, key)))
    if port or host != LOOPBACK or certificate is not None or key is not None:
        raise UsageError("the other options of feed servers need --feed-servers", "say how many: --feed-servers 2")
    return None


def _name_file(file: Path | None) -> str | None:
    return None if file is None else str(file.absolute())


def _tell_detached(started: Detached, json: bool) -> int:
    process = started.process
    if process is None and json:
        show_errors(json, [Problem(started.error or "the service ended right after it started")])
    elif process is None:
        write(started.error, sys.stderr)
    if process is None:
        return started.status or Exit.NO
    if started.waits_for is not None:
        what = f"the service (process {process.pid}) does not keep promises yet: {started.waits_for.what}"
        hint = f"{started.waits_for.hint}; the service keeps trying; `headrace status` shows the progress"
        show_errors(json, [Problem(what, hint=hint)])
        return Exit.NO
    return show(
        json,
        Exit.DONE,
        text=lambda: "stop it with `headrace down`",
        document=lambda: {
            "pid": process.pid,
            "port": process.port,
            "address": process.address,
            "seconds": round(started.seconds, 3),
        },
    )


def choose_say(json: bool) -> Callable[[str], None]:
    """How a command that stays tells what it does."""
    return _say_json if json else _say


def _say(what: str) -> None:
    _say_if_possible(fit(what))


def _say_json(what: str) -> None:
    _say_if_possible(json_text.dumps({"phase": what}))


def _say_if_possible(line: str) -> None:
    """A service whose output goes to a file on a full disk goes on: `status` tells the same."""
    with suppress(OSError):
        write(line, sys.stdout)


def _refusals(prepared: Prepared, say: Callable[[str], None]) -> None:
    from headrace.app.apart import NEEDS_INSIDE

    plan = prepared.plan
    say(f"{plan.catalogue.project}: {count(len(plan.contracts), 'contract')}")
    for feed in plan.feeds:
        if feed.reason is not None:
            say(f'feed "{feed.feed}" is refused: {feed.detail}; see `headrace why {feed.feed}`')
    for left_out in prepared.left_out:
        say(left_out.message)
    for rejection in prepared.rejected:
        # `why` explains the plan of the project's files, in which such a contract can be kept.
        more = "" if rejection.reason.endswith(NEEDS_INSIDE) else f"; see `headrace why {rejection.contract}`"
        say(f'contract "{rejection.contract}" is refused: {rejection.detail}{more}')
