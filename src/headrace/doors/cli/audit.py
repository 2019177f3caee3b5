"""`headrace audit [DIR]`: what became of promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, show, table
from headrace.model.amounts import format_number, format_seconds


def audit(directory: Directory = Path(), json: Json = False) -> int:
    """Say which promises were broken, how often and for how long, and what contracts cost."""
    from headrace import app_read

    found = app_read.audit(directory)
    broken = any(contract["episodes"] or contract["late_rows"] for contract in found["contracts"])
    status = Exit.NO if broken else Exit.DONE
    return show(json, status, text=lambda: "\n".join(_lines(found, broken)), document=lambda: found)


def _lines(found: dict[str, Any], broken: bool) -> Iterator[str]:
    contracts = found["contracts"]
    if not contracts:
        yield "nothing was watched yet"
        return
    yield "promises were broken" if broken else "every promise was kept"
    header = ["contract", "violations", "violated", "watched", "late rows", "penalty", "cost"]
    yield from table([header, *(_row(contract) for contract in contracts)])


def _row(contract: dict[str, Any]) -> list[str]:
    return [
        contract["id"],
        str(contract["episodes"]),
        format_seconds(contract["violated_s"]),
        format_seconds(contract["watched_s"]),
        f"{contract['late_rows']} of {contract['rows']}",
        f"{format_number(contract['penalty'])} $",
        f"{contract['cost']:.2g} $",
    ]
