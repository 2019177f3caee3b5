"""`headrace check-plan FILE`: an independent check of a plan document."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit, count, show


def check_plan(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A plan document: `headrace plan --json > FILE`.")],
    json: Json = False,
) -> int:
    """Check a plan document: its meaning, its sites, and every number."""
    from headrace.app import checking

    problems = checking.check_plan(file)

    def text() -> str:
        lines = [f"{where}: {what}" for where, what in problems]
        return "\n".join([*lines, f"{count(len(problems), 'problem')} in {file}" if problems else f"{file} is correct"])

    def document() -> object:
        return {"ok": not problems, "problems": [{"where": where, "what": what} for where, what in problems]}

    return show(json, Exit.NO if problems else Exit.DONE, text=text, document=document)
