"""`headrace down [DIR]`: ends the service of a project."""

from __future__ import annotations

from pathlib import Path

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, show


def down(directory: Directory = Path(), json: Json = False) -> int:
    """Stop the running project. Committed data stays; `headrace up` continues from there."""
    from headrace.app.asking import say_left, stop_project

    ended = stop_project(directory)
    left = None if ended is None else say_left(directory)
    said = "the project is not running" if ended is None else f"process {ended.pid} has ended"
    return show(
        json,
        Exit.DONE,
        text=lambda: said if left is None else f"{said}; {left}",
        document=lambda: {"stopped": ended is not None, "pid": None if ended is None else ended.pid},
    )
