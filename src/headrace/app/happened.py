"""Reads what happened in a project from its ledger, whether its service runs or not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from headrace.app.reading import never_ran
from headrace.model.errors import UnknownName, nearest_name
from headrace.model.event_wire import EventsAsked, event_document
from headrace.model.events import Event
from headrace.model.options import SitesMode
from headrace.site.folder import Folder
from headrace.site.site_folders import read_sites, read_sites_mode, site_folder

__all__ = ["EventsAsked", "check_contract", "event_document", "read_events"]

LOOK_EVERY_S = 0.5
NEWEST = EventsAsked(limit=1, routine=True, latest=True)


def read_events(directory: Path, asked: EventsAsked, follow: threading.Event | None) -> Iterator[Event]:
    """The latest that were asked for, oldest first; until `follow` is set, those to come as well."""
    folder = Folder(directory)
    if not folder.exists:
        raise never_ran(directory)
    if read_sites_mode(folder) is SitesMode.AGENTS:
        yield from _read_joined(folder, asked, follow)
        return
    with ExitStack() as stack:
        ledgers = [stack.enter_context(closing(one.ledger())) for one in _find_folders(folder)]
        # First: what comes while we read the others is read afterwards.
        newest = [ledger.events(NEWEST) for ledger in ledgers]
        found = [ledger.events(replace(asked, latest=True)) for ledger in ledgers]
        if asked.contract is not None and not any(found):
            check_contract(folder, asked.contract)
        every = [one.event for some in found for one in some]
        yield from every if len(ledgers) == 1 else sorted(every, key=lambda event: event.at)[-asked.limit :]
        last = [max((one.number for one in (*new, *some)), default=0) for new, some in zip(newest, found, strict=True)]
        while follow is not None and not follow.wait(LOOK_EVERY_S):
            for number, ledger in enumerate(ledgers):
                for one in ledger.events(replace(asked, after=last[number], latest=False)):
                    yield one.event
                    last[number] = one.number


def _read_joined(folder: Folder, asked: EventsAsked, follow: threading.Event | None) -> Iterator[Event]:
    from headrace.app.site_events import read_joined_events

    if asked.contract is not None:
        check_contract(folder, asked.contract)
    return read_joined_events(folder, asked, follow)


def _find_folders(folder: Folder) -> list[Folder]:
    """Where events are: with the project, and with each site that runs as a process of its own."""
    sites = (site_folder(folder, site) for site in read_sites(folder))
    return [folder, *(one for one in sites if one.exists)]


def check_contract(folder: Folder, contract: str) -> None:
    """A name that nothing is known of is a mistake, not a contract to which nothing happened."""
    plan = folder.running()
    if plan is not None and contract not in plan.catalogue.contracts:
        known = sorted(plan.catalogue.contracts)
        hint = nearest_name(contract, known) or f"there are {', '.join(known)}"
        raise UnknownName(f'there is no contract "{contract}", and no event names it', hint)
