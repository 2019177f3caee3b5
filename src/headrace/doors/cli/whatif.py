"""`headrace whatif CONTRACT`: what a change would cost, without doing it."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, show, table, wrap

if TYPE_CHECKING:
    from headrace.app.explaining import Imagined
    from headrace.model.explanation import ContractOutcome


def whatif(
    contract: Annotated[str, typer.Argument(metavar="CONTRACT", help="The contract to ask about.")],
    directory: Directory = Path(),
    freshness: Annotated[str | None, typer.Option(metavar="5s", help="With this freshness instead.")] = None,
    at: Annotated[str | None, typer.Option(metavar="SITE", help="With the view at this site instead.")] = None,
    link: Annotated[
        list[str] | None, typer.Option(metavar="'us>eu=50 Mbps'", help="With this bandwidth on a link.")
    ] = None,
    rate: Annotated[
        list[str] | None, typer.Option(metavar="tweets=2x", help="With this rate of changes at a source.")
    ] = None,
    json: Json = False,
) -> int:
    """Show what a change would cost, without making it."""
    from headrace.app.explaining import Wishes, imagine

    wishes = Wishes(freshness, at, tuple(link or ()), tuple(rate or ()))
    found = imagine(directory, os.environ, contract, wishes)
    status = Exit.DONE if found.answer.after.kept else Exit.NO
    return show(json, status, text=lambda: _whatif_text(contract, found), document=lambda: _document(contract, found))


def _whatif_text(contract: str, found: Imagined) -> str:
    from headrace.doors.cli.plan_text import dollars_per_hour
    from headrace.doors.cli.why_text import grounds_lines

    answer = found.answer

    rows = [[contract, _say_outcome(answer.before), _say_outcome(answer.after)]]
    rows += [[name, _say_outcome(before), _say_outcome(after)] for name, (before, after) in answer.others.items()]
    before, after = answer.rescost
    rows.append(["all resources", dollars_per_hour(before), dollars_per_hour(after)])
    lines = [*table(rows, indent=0, head=("planned", "now", "then")), *grounds_lines(found.grounds)]
    if found.on_apply is not None:
        lines += wrap(f"`apply` uses planned times, not measured ones: {_say_outcome(found.on_apply)}", "", "  ")
    return "\n".join(lines)


def _say_outcome(outcome: ContractOutcome) -> str:
    from headrace.doors.cli.plan_text import dollars_per_hour
    from headrace.model.amounts import format_seconds, format_seconds_up
    from headrace.model.words import name_reason

    if outcome.kept:
        how = "kept, recomputed in full" if outcome.recomputed else "kept"
        return f"{how}, {dollars_per_hour(outcome.money or 0.0)}, takes {format_seconds(outcome.path_s or 0.0)}"
    offer = outcome.smallest_staleness_s
    return f"refused: {name_reason(outcome.reason or '')}" + (
        f"; possible from {format_seconds_up(offer)}" if offer is not None else ""
    )


def _document(contract: str, found: Imagined) -> dict[str, object]:
    answer = found.answer
    return {
        "contract": contract,
        "before": asdict(answer.before),
        "after": asdict(answer.after),
        "others": {name: {"before": asdict(a), "after": asdict(b)} for name, (a, b) in answer.others.items()},
        "rescost": {"before": answer.rescost[0], "after": answer.rescost[1]},
        "grounds": asdict(found.grounds),
        "on_apply": asdict(answer.after if found.on_apply is None else found.on_apply),
    }
