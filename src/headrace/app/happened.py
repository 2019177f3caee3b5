"""Reads what happened in a project from its ledger, whether its service runs or not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headrace.app.reading import never_ran
from headrace.model.errors import UnknownName, nearest_name
from headrace.model.event_wire import EventsAsked, event_document
from headrace.model.events import Event
from headrace.site.folder import Folder

__all__ = ["EventsAsked", "check_contract", "event_document", "read_events"]

LOOK_EVERY_S = 0.5
NEWEST = EventsAsked(limit=1, routine=True, latest=True)


def read_events(directory: Path, asked: EventsAsked, follow: threading.Event | None) -> Iterator[Event]:
    """The latest that were asked for, oldest first; until `follow` is set, those to come as well."""
    folder = Folder(directory)
    if not folder.exists:
        raise never_ran(directory)
    ledger = folder.ledger()
    try:
        newest = ledger.events(NEWEST)  # first: what comes while we read the others is read afterwards
        found = ledger.events(replace(asked, latest=True))
        if asked.contract is not None and not found:
            check_contract(folder, asked.contract)
        yield from (one.event for one in found)
        last = max((one.number for one in (*newest, *found)), default=0)
        while follow is not None and not follow.wait(LOOK_EVERY_S):
            for one in ledger.events(replace(asked, after=last, latest=False)):
                yield one.event
                last = one.number
    finally:
        ledger.close()


def check_contract(folder: Folder, contract: str) -> None:
    """A name that nothing is known of is a mistake, not a contract to which nothing happened."""
    plan = folder.running()
    if plan is not None and contract not in plan.catalogue.contracts:
        known = sorted(plan.catalogue.contracts)
        hint = nearest_name(contract, known) or f"there are {', '.join(known)}"
        raise UnknownName(f'there is no contract "{contract}", and no event names it', hint)
