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
    from headrace.doors.cli.output import wrap
    from headrace.model.words import put_in_words

    problems = checking.check_plan(file)

    def text() -> str:
        said = (put_in_words(f"{where.removeprefix('vertices/')}: {what}") for where, what in problems)
        lines = [line for one in said for line in wrap(one, "", "  ")]
        found = f"{count(len(problems), 'problem')} in {file}; `--json` has the ids of datasets"
        return "\n".join([*lines, found if problems else f"{file} is correct"])

    def document() -> object:
        return {"ok": not problems, "problems": [{"where": where, "what": what} for where, what in problems]}

    return show(json, Exit.NO if problems else Exit.DONE, text=text, document=document)
