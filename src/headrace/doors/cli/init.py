"""`headrace init DIR`: a starter project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit, show

if TYPE_CHECKING:
    from headrace.app.project import Started


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to.")], json: Json = False
) -> int:
    """Write a small project to start from. Files that exist are left alone."""
    from headrace.app.project import init_project

    started = init_project(directory)
    return show(json, Exit.DONE, text=lambda: write_started(started), document=lambda: started_document(started))


def write_started(started: Started) -> str:
    lines = [f"wrote {Path(started.directory) / name}" for name in started.written]
    lines += [f"kept {Path(started.directory) / name}, which was there" for name in started.kept]
    return "\n".join([*lines, f"next: headrace check {started.directory}"])


def started_document(started: Started) -> dict[str, object]:
    return {"directory": started.directory, "written": list(started.written), "kept": list(started.kept)}
