"""`headrace apply [DIR]`: makes the running project match its files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, count, fit, say_troubles, show, wrap, write
from headrace.doors.cli.plan import MethodOption, SharingOption, WideAreaOption
from headrace.model.amounts import format_seconds_up
from headrace.model.options import ApplyWishes
from headrace.model.plan_modes import PlanWishes
from headrace.model.words import put_in_words

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")]
Replan = Annotated[bool, typer.Option("--replan", help="Plan from scratch instead of building on the running plan.")]
Force = Annotated[
    list[str], typer.Option("--force", metavar="CONTRACT", help="Run a refused contract on a best-effort basis.")
]


def apply(
    directory: Directory = Path(),
    dry_run: DryRun = False,
    replan: Replan = False,
    force: Force = [],  # noqa: B006 - typer's way to say that an option may occur several times
    method: MethodOption = None,
    share: SharingOption = None,
    wide_area: WideAreaOption = None,
    json: Json = False,
) -> int:
    """Make the running project match its files."""
    from headrace.app import asking

    wishes = ApplyWishes(replan, tuple(force), dry_run, PlanWishes(method, share, wide_area))
    if dry_run and not asking.is_running(directory):
        answer = _imagine_apply(directory, wishes)
    else:
        answer = asking.apply_project(directory, wishes, say_troubles if json else _say)
    status = Exit.NO if answer["rejected"] or answer["refused_feeds"] else Exit.DONE
    return show(json, status, text=lambda: "\n".join(_answer_lines(answer)), document=lambda: answer)


def _say(what: str) -> None:
    write(fit(what), sys.stderr)


def _imagine_apply(directory: Path, wishes: ApplyWishes) -> dict[str, Any]:
    """What would be applied to a project that does not run."""
    from headrace.app.preparing import Applied, prepare_while_stopped
    from headrace.doors.documents import applied_document

    return applied_document(Applied(prepare_while_stopped(directory, os.environ, wishes, _say), done=False))


def _answer_lines(answer: dict[str, Any]) -> Iterator[str]:
    change = answer["change"]
    if change is None:
        yield "nothing runs now; `headrace up` would"
    elif not answer["changed"]:
        yield f"nothing changes: {count(len(change['reused']), 'vertex stays as it is', 'vertices stay as they are')}"
    else:
        yield "applied" if answer["applied"] else "would change"
    for step in answer["steps"]:
        if step["do"] != "keep":
            yield from wrap(step["text"], "  ", "    ")
    if change is not None and answer["changed"]:
        yield f"  {count(len(change['reused']), 'vertex stays as it is', 'vertices stay as they are')}"
    for contract in answer["contracts"]:
        if contract["forced"]:
            yield f'  contract "{contract["id"]}" is forced: it is served last, on a best-effort basis'
    for lost in (*answer["lost"], *answer["left_out"]):
        yield from wrap(lost["message"], "", "  ")
        if lost["hint"]:
            yield from wrap(f"hint: {lost['hint']}", "  ", "    ")
    for name, why in answer["failing"].items():
        yield from wrap(
            f'contract "{name}" cannot be loaded yet; the service will try again: {put_in_words(why.splitlines()[0])}',
            "",
            "  ",
        )
    for name, why in answer["held"].items():
        yield from wrap(
            f'contract "{name}" goes on as it was made before: {put_in_words(why.splitlines()[0])}', "", "  "
        )
    yield from _refused_lines(answer)


def _refused_lines(answer: dict[str, Any]) -> Iterator[str]:
    for refused in answer["refused_feeds"]:
        yield from wrap(f'feed "{refused["feed"]}" is refused, because {put_in_words(refused["detail"])}', "", "  ")
        if refused["smallest_staleness"] is not None:
            yield f"  a freshness of {format_seconds_up(refused['smallest_staleness'])} or more could be kept"
        if refused["stays"]:
            yield "  the running version continues"
    for refused in answer["rejected"]:
        yield from wrap(
            f'contract "{refused["contract"]}" is refused, because {put_in_words(refused["detail"])}', "", "  "
        )
        if refused["smallest_staleness"] is not None:
            yield f"  {format_seconds_up(refused['smallest_staleness'])} or more could be promised"
        if refused["stays"]:
            yield "  the running version continues"
