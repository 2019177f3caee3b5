"""`headrace events [DIR]`: says what happened in a project, in words."""

from __future__ import annotations

import json as json_text
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.doors.cli.options import Directory
from headrace.doors.cli.output import UNBROKEN, Exit, wrap, write

if TYPE_CHECKING:
    from headrace.model.events import Event

Follow = Annotated[bool, typer.Option("--follow", help="Keep printing new events until interrupted.")]
Contract = Annotated[str | None, typer.Option("--contract", metavar="C", help="Only events about this contract.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most the last N events.")]
All = Annotated[bool, typer.Option("--all", help="Also every push and every capture of changes.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per line: {at, kind, about, text, reason, numbers}.")
]


def events(
    directory: Directory = Path(),
    follow: Follow = False,
    contract: Contract = None,
    limit: Limit = 50,
    all_: All = False,
    json: AsJson = False,
) -> int:
    """Say what happened, oldest first: late views, failures, moves, restarts."""
    from headrace.app import happened

    asked = happened.EventsAsked(limit=limit, contract=contract, routine=all_)
    told = False
    for event in happened.read_events(directory, asked, threading.Event() if follow else None):
        line = json_text.dumps(happened.event_document(event), ensure_ascii=False) if json else event_text(event)
        told = True
        if not write(line, sys.stdout):
            return Exit.BROKEN_PIPE
    if not told and not json:
        write("nothing to tell yet" if contract is None else f'nothing to tell of contract "{contract}"', sys.stdout)
    return Exit.DONE


def event_text(event: Event) -> str:
    """When it happened, in UTC, a sentence, and why."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(event.at / 1e6))
    reason = "" if event.reason is None else f": {event.reason}"
    whole = re.sub(r"(?<=\d) (?=[^\W\d])", UNBROKEN, event.text + reason)  # a number stays with its unit
    return "\n".join(wrap(whole, f"{clock}  "))
