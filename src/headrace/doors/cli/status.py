"""`headrace status [DIR]`: how far behind every view is, against what is promised."""

from __future__ import annotations

import json as json_text
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, show, write

Watch = Annotated[bool, typer.Option("--watch", help="Refresh every second until interrupted.")]

CLEAR = "\033[H\033[J"
EVERY_S = 1.0


def status(directory: Directory = Path(), watch: Watch = False, json: Json = False) -> int:
    """Show lag, violations and cost of each contract, as of now or of the last run. Exits with 1 if the service does
    not respond.
    """
    from headrace.app import reading
    from headrace.doors.cli.status_text import status_text

    def found() -> dict[str, Any]:
        return reading.project_status(directory)

    if not watch:
        document = found()
        silent = document["service"]["state"] == "unresponsive"
        return show(
            json,
            Exit.NO if silent else Exit.DONE,
            text=lambda: status_text(document, time.time()),
            document=lambda: document,
        )
    start = CLEAR if sys.stdout.isatty() and not json else ""
    while write(start + (json_text.dumps(found()) if json else status_text(found(), time.time())), sys.stdout):
        time.sleep(EVERY_S)
    return Exit.BROKEN_PIPE
