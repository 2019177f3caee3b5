"""`headrace audit [DIR]`: shows which promises were broken, and whether views equal their queries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, show, table
from headrace.doors.cli.progress import progress
from headrace.model.amounts import format_seconds

if TYPE_CHECKING:
    from headrace.app.reading import ComparedViews

SAY_EVERY_S = 2.0

Recompute = Annotated[
    bool, typer.Option("--recompute", help="Compare every view with its query, evaluated on the sources.")
]


def audit(directory: Directory = Path(), recompute: Recompute = False, json: Json = False) -> int:
    """Show which promises were broken, how often and for how long, and what contracts cost."""
    from headrace.app import reading
    from headrace.doors.cli.compared_text import compared_lines

    found = reading.audit(directory, partly=recompute)
    compared = reading.compare_views(directory, os.environ, progress(SAY_EVERY_S)) if recompute else None
    late = [contract for contract in found["contracts"] if contract["episodes"] or contract["late_rows"]]
    return show(
        json,
        _verdict(compared) if compared is not None else Exit.NO if late else Exit.DONE,
        text=lambda: "\n".join(
            [audit_text(found, len(late)), *([] if compared is None else ["", *compared_lines(compared)])]
        ),
        document=lambda: {**found, **({} if compared is None else _document(compared))},
    )


def _verdict(compared: ComparedViews) -> Exit:
    """Whether views are what their queries say; late ones may well be."""
    if not compared.equal:
        return Exit.NO
    return Exit.NOT_COMPARED if compared.not_compared else Exit.DONE


def _document(compared: ComparedViews) -> dict[str, object]:
    return {"recompute": compared.document(), "writers_waited_s": round(compared.writers_waited_s, 3)}


def audit_text(found: dict[str, Any], late: int) -> str:
    """What became of the promises; `late` is the number of contracts that broke theirs."""
    return "\n".join(_audit_lines(found, late))


def _audit_lines(found: dict[str, Any], late: int) -> Iterator[str]:
    contracts = found["contracts"]
    if not contracts:
        yield "no contract has run yet"
        return
    yield f"{late} of {len(contracts)} contracts were late at some time" if late else "every promise was kept"
    header = ["contract", "violations", "violated", "watched", "late rows", "money", "penalty"]
    yield from table([_row(contract) for contract in contracts], head=header)


def _row(contract: dict[str, Any]) -> list[str]:
    return [
        contract["id"],
        str(contract["episodes"]),
        format_seconds(contract["violated_s"]),
        format_seconds(contract["watched_s"]),
        f"{contract['late_rows']} of {contract['rows']}",
        f"{contract['money']:.2g} $",
        f"{contract['penalty']:.2g} $",
    ]
