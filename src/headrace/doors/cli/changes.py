"""`headrace changes VIEW [DIR]`: prints the changes of a view as JSON lines."""

from __future__ import annotations

import json as json_text
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli.options import Directory
from headrace.doors.cli.output import Exit, write
from headrace.doors.cli.show import View

After = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="T",
        help="Start after: 10s (ago), beginning (of the kept history), 2024-02-29T12:30:15Z, or microseconds.",
        show_default="beginning",
    ),
]
Follow = Annotated[bool, typer.Option("--follow", help="Keep printing new changes until interrupted.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Accepted, and changes nothing: the output is JSON lines in any case.")
]


def changes(
    view: View, directory: Directory = Path(), after: After = None, follow: Follow = False, json: AsJson = False
) -> int:
    """Print the changes of a view: one JSON object per line, {t, op, row}."""
    from headrace.app import reading

    going_on = threading.Event() if follow else None
    for change in reading.changes(directory, view, reading.read_moment(after), going_on):
        if not write(json_text.dumps(change, ensure_ascii=False), sys.stdout):
            return Exit.BROKEN_PIPE
    return Exit.DONE
