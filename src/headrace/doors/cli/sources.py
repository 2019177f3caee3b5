"""`headrace sources reread NAME [DIR]`: has a running project read one of its sources again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, join_items, say_troubles, show, wrap, write
from headrace.model.amounts import format_seconds

sources = typer.Typer(help="Manage the sources of a running project.", no_args_is_help=True)


@sources.callback()
def group() -> None:
    """What comes before the name of a command of the group."""


@sources.command()
def reread(
    name: Annotated[str, typer.Argument(help="A source of the project.")],
    directory: Directory = Path(),
    json: Json = False,
) -> int:
    """Read a source again and rebuild all that depends on it; its views have no rows until then."""
    from headrace.app.asking import reread_source

    answer = reread_source(directory, name, say_troubles if json else _say_progress)
    status = Exit.NO if answer["failing"] else Exit.DONE
    return show(json, status, text=lambda: "\n".join(_reread_lines(answer)), document=lambda: answer)


def _reread_lines(answer: dict[str, Any]) -> Iterator[str]:
    yield f'source "{answer["source"]}" was read again in {format_seconds(round(answer["seconds"], 1))}'
    yield from wrap(f"loaded with it: {join_items(answer['contracts'])}", "  ", "    ")
    for contract, why in answer["failing"].items():
        trouble = f'contract "{contract}" cannot be loaded; the service will try again: {why.splitlines()[0]}'
        yield from wrap(trouble, "", "  ")


def _say_progress(what: str) -> None:
    write(what, sys.stderr)
