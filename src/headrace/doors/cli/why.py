"""`headrace why NAME`: a decision with its numbers, the runners-up and what they would have cost."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, show


def why(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A contract, a view, a source, or the id of a vertex.")],
    directory: Directory = Path(),
    json: Json = False,
) -> int:
    """Explain a decision: its cost, what it shares, and the alternatives."""
    from headrace.app.explaining import explain
    from headrace.app.reading import known_status
    from headrace.doors.cli.why_text import explained_document, write_answers

    found, status = explain(directory, os.environ, name), known_status(directory)
    return show(
        json,
        Exit.DONE,
        text=lambda: write_answers(found, status, time.time()),
        document=lambda: explained_document(name, found, status),
    )
