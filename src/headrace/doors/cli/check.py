"""`headrace check [DIR]`: all mistakes of a project, and what it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, show


def check(
    directory: Directory = Path(),
    connect: Annotated[bool, typer.Option("--connect", help="Compare with the databases as well.")] = False,
    json: Json = False,
) -> int:
    """Find all mistakes in a project, and show what it declares."""
    from headrace.app.checking import check_project
    from headrace.doors.cli.check_document import check_document
    from headrace.doors.cli.check_text import check_text
    from headrace.model.errors import Severity

    report = check_project(directory, os.environ, connect)
    status = Exit.NO if report.of(Severity.ERROR) else Exit.DONE
    return show(json, status, text=lambda: check_text(report), document=lambda: check_document(report))
