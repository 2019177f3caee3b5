"""`headrace agent --site SITE [DIR]`: runs one site of a project until it is told to stop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit
from headrace.doors.cli.up import EngineOption, Port, choose_say

Site = Annotated[str, typer.Option("--site", help="The site to run.")]


def agent(
    site: Site, directory: Directory = Path(), port: Port = 0, engine: EngineOption = None, json: Json = False
) -> int:
    """Run one site of a project. `headrace up --sites processes` starts one for each site."""
    from headrace.app.running import UpSettings
    from headrace.app.site_agent import run_agent
    from headrace.doors.api.server import serve

    say = choose_say(json)
    run_agent(directory, site, os.environ, UpSettings(port, engine), serve, say)
    say("stopped")
    return Exit.DONE
