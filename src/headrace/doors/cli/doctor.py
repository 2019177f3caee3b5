"""`headrace doctor [DIR]`: finds what is missing or wrong, and says how to fix it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, problem_document, show, wrap

if TYPE_CHECKING:
    from headrace.app.checking import Looked


def doctor(directory: Directory = Path(), json: Json = False) -> int:
    """Check this machine and the sources of a project."""
    from headrace.app.checking import examine

    looked = examine(directory, os.environ)
    findings = [one for one in looked if one.problem is not None]
    return show(
        json,
        Exit.NO if findings else Exit.DONE,
        text=lambda: "\n".join(_doctor_lines(looked, len(findings))),
        document=lambda: {
            "ok": not findings,
            "looked_at": [{"at": one.at, "seen": one.seen} for one in looked],
            "findings": [problem_document(one.problem) for one in looked if one.problem is not None],
        },
    )


def _doctor_lines(looked: list[Looked], findings: int) -> Iterator[str]:
    for one in looked:
        if one.problem is None:
            yield from wrap(one.seen, f"ok  {one.at}: ", "      ")
    for one in looked:
        if one.problem is not None:
            yield str(one.problem)
    if not findings:
        yield "nothing is wrong"
