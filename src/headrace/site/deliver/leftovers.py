"""Things that we create in other people's databases and folders, as the ledger records them: copies and slots.

For each there is a name for people, and a way to remove it. Addresses are recorded as they are written in the project,
without secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from headrace.connect.sources import connector_of
from headrace.model.copy_places import name_place
from headrace.model.errors import NotOurs
from headrace.model.notes import CaptureSlot, DeliveredCopy, read_notes
from headrace.run.ports import Ledger
from headrace.site.deliver.copies import Copied, target_of
from headrace.site.folder import Folder
from headrace.site.running import Running
from headrace.site.sources.databases import place_of

log = logging.getLogger("headrace.withdrawn")


@dataclass(frozen=True, slots=True)
class Means:
    """What one needs to give something back. It may be `called_off` at any time: somebody asks for it again."""

    folder: Folder
    environment: Mapping[str, str]
    ledger: Ledger
    epoch: int
    called_off: Callable[[], bool]


Noted = DeliveredCopy | CaptureSlot


def read_noted(ledger: Ledger) -> dict[str, Noted]:
    """Reads all that was made and not given back since, by the names of their notes."""
    found: list[Noted] = [*read_notes(ledger, DeliveredCopy).values(), *read_notes(ledger, CaptureSlot).values()]
    return {thing.name: thing for thing in found}


def describe_thing(thing: Noted) -> str:
    """What people call it, as the subject of a sentence."""
    match thing:
        case DeliveredCopy(contract=contract, place=place):
            return f'{name_place(place)} of contract "{contract}", which was withdrawn,'
        case CaptureSlot():
            return f'slot "{thing.slot}" of database {thing.database}, which is no longer captured,'
        case _:
            assert_never(thing)


def give_thing_back(thing: Noted, means: Means) -> None:
    """Removes it where it was made; it may be gone already."""
    match thing:
        case DeliveredCopy():
            _drop_copy(thing, means)
        case CaptureSlot():
            place = place_of(thing.project.partition(":")[0], means.folder.project, means.environment)
            connector_of(thing.kind).give_back(thing, place, means.ledger, means.called_off)
        case _:
            assert_never(thing)


def _drop_copy(copy: DeliveredCopy, means: Means) -> None:
    """Checks who owns the copy, not its contents."""
    about = Copied(copy.project, copy.contract, copy.view)
    delivery = target_of(about, copy.place, means.folder.project, means.environment).open(means.epoch)
    try:
        delivery.drop()
    except NotOurs as error:
        log.warning('the copy of contract "%s" is not dropped: %s', copy.contract, error)
    finally:
        delivery.close()


def captures_of(running: Running, folder: Folder) -> Iterator[CaptureSlot]:
    """What the captures that a plan's sources ask for make in other people's systems."""
    place = place_of(running.plan.catalogue.project, folder.project, {})  # notes hold no address in clear
    for database in running.databases:
        made = connector_of(database.kind).describe_made(database, place)
        if made is not None:
            yield made
