"""`headrace convert FILE`: a view in Spark's dialect."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit, show


def convert(
    file: Annotated[Path, typer.Argument(help="A file of views/.")],
    connect: Annotated[bool, typer.Option("--connect", help="Ask the databases for columns.")] = False,
    json: Json = False,
) -> int:
    """Show what a view is read as: its text in Spark's dialect."""
    from headrace.app.converting import convert

    made = convert(file, os.environ, connect)
    return show(
        json,
        Exit.DONE,
        text=lambda: made.sql,
        document=lambda: {"file": made.file, "dialect": made.dialect.value, "sql": made.sql},
    )
