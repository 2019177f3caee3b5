"""`headrace agent --site SITE`: runs one site of a project until it is told to stop.

With `--join` it joins a project that is coordinated elsewhere. Its folder keeps that: later starts need no `--join`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit
from headrace.doors.cli.up import EngineOption, Listen, Port, choose_say

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
    json: Json = False,
) -> int:
    """Run one site of a project. `headrace up --sites processes` starts one for each site by itself."""
    from headrace.app.joining import JoinWishes, is_member
    from headrace.app.running import UpSettings
    from headrace.doors.api.server import serve

    say, settings = choose_say(json), UpSettings(port, engine)
    own = directory if folder is None else folder
    if join is not None or folder is not None or is_member(own):
        from headrace.app.joined_agent import run_joined

        run_joined(own, site, os.environ, settings, JoinWishes(join, token, listen, replace), serve, say)
    else:
        from headrace.app.site_agent import run_agent

        run_agent(directory, site, os.environ, settings, serve, say)
    say("stopped")
    return Exit.DONE
