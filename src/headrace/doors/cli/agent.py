"""`headrace agent --site SITE`: runs one site of a project until it is told to stop.

With `--join` it joins a project that is coordinated elsewhere. Its folder keeps that: later starts need no `--join`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit
from headrace.doors.cli.up import (
    LOOPBACK,
    EngineOption,
    FeedCertificate,
    FeedHost,
    FeedKey,
    FeedPort,
    FeedServerCount,
    Listen,
    Port,
    choose_say,
    read_feed_servers,
)

if TYPE_CHECKING:
    from headrace.app.late_server import LateServer, ListeningPort
    from headrace.app.running import Server, ServiceHost

Site = Annotated[str, typer.Option("--site", help="The site to run.")]


Join = Annotated[str | None, typer.Option("--join", metavar="URL", help="Join the project that is coordinated there.")]
Token = Annotated[str | None, typer.Option("--token", help="What `headrace sites invite` printed.")]
OwnFolder = Annotated[
    Path | None, typer.Option("--folder", metavar="DIR", help="Where the site keeps its rows.", show_default="here")
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Take the place of another folder that ran the site, which is gone for good.")
]


def agent(
    site: Site,
    directory: Directory = Path(),
    join: Join = None,
    token: Token = None,
    listen: Listen = None,
    folder: OwnFolder = None,
    replace: Replace = False,
    port: Port = 0,
    engine: EngineOption = None,
    feed_servers: FeedServerCount = 0,
    feed_port: FeedPort = 0,
    feed_host: FeedHost = LOOPBACK,
    feed_cert: FeedCertificate = None,
    feed_key: FeedKey = None,
    json: Json = False,
) -> int:
    """Run one site of a project. `headrace up --sites processes` starts one for each site by itself."""
    from headrace.app.membership import is_member
    from headrace.app.running import UpSettings

    servers = read_feed_servers(feed_servers, feed_host, feed_port, feed_cert, feed_key)
    if servers is not None:
        servers.check()
    say, settings = choose_say(json), UpSettings(port, engine, feed_servers=servers)
    own = directory if folder is None else folder
    if join is not None or folder is not None or is_member(own):
        from headrace.app.joined_agent import run_joined
        from headrace.app.joining import JoinWishes

        run_joined(own, site, os.environ, settings, JoinWishes(join, token, listen, replace), _serve_when_asked, say)
    else:
        from headrace.app.site_agent import run_agent

        run_agent(directory, site, os.environ, settings, _serve_when_asked, say)
    say("stopped")
    return Exit.DONE


def _serve_when_asked(host: ServiceHost, token: str, port: int) -> LateServer:
    """What answers is loaded with the first question."""
    from headrace.app.late_server import LateServer

    def begin(listening: ListeningPort) -> Server:
        from headrace.doors.api.server import serve

        return serve(host, token, listening.port, listening)

    return LateServer(port, begin)
