"""Things that we create in other people's databases and folders, as the ledger records them: copies, slots, and stores
of feeds.

For each there is a name for people, and a way to remove it. Addresses are recorded as they are written in the project,
without secrets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import assert_never

from headrace.connect.feed_targets import find_target
from headrace.connect.sources import connector_of
from headrace.declare.variables import fill, project_environment
from headrace.model.copy_places import name_place
from headrace.model.errors import NotOurs
from headrace.model.events import Event
from headrace.model.feed_events import StoreLeft
from headrace.model.feed_names import name_trial
from headrace.model.notes import CaptureSlot, DeliveredCopy, KeptFeedStore, read_notes
from headrace.model.plan import Plan
from headrace.run.ports import Ledger
from headrace.site.deliver.copies import Copied, target_of
from headrace.site.folder import Folder
from headrace.site.running import Running
from headrace.site.sources.databases import place_of

log = logging.getLogger("headrace.withdrawn")

MAY_BE_SAME = "both addresses may lead to one place; if they do not, drop {what} at the earlier one"


@dataclass(frozen=True, slots=True)
class Means:
    """What one needs to give something back. It may be `called_off` at any time: somebody asks for it again."""

    folder: Folder
    environment: Mapping[str, str]
    ledger: Ledger
    epoch: int
    called_off: Callable[[], bool]
    own_dsn: Callable[[], str]
    tell: Callable[[Event], None]


Noted = DeliveredCopy | CaptureSlot | KeptFeedStore


def read_noted(ledger: Ledger) -> dict[str, Noted]:
    """Reads all that was made and not given back since, by the names of their notes."""
    kinds: tuple[type[Noted], ...] = (DeliveredCopy, CaptureSlot, KeptFeedStore)
    return {thing.name: thing for kind in kinds for thing in read_notes(ledger, kind).values()}


def describe_thing(thing: Noted) -> str:
    """What people call it, as the subject of a sentence."""
    match thing:
        case DeliveredCopy(contract=contract, place=place):
            return f'{name_place(place)} of contract "{contract}", which was withdrawn,'
        case CaptureSlot():
            return f'slot "{thing.slot}" of database {thing.database}, which is no longer captured,'
        case KeptFeedStore():
            where = "" if thing.address is None else f" in {thing.address}"
            return f'the {thing.store} store{where} of feed "{thing.feed}", which was removed or moved,'
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
        case KeptFeedStore():
            _drop_feed(thing, means)
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


def _drop_feed(kept: KeptFeedStore, means: Means) -> None:
    """Drops what the project has there of the feed, and of a trial that was broken off; nothing of anybody else.

    Two addresses of one kind of server may be two names of one place. What is kept there for the feed that runs,
    whom people mute above all, must not go, so it is left, and an event says so.
    """
    others = (other for other in read_notes(means.ledger, KeptFeedStore).values() if other != kept)
    if any(_may_be_same_place(other, kept) for other in others):
        _tell_left(kept, MAY_BE_SAME.format(what=_name_contents(kept)), means)
        return
    environment = project_environment(means.environment, means.folder.project)
    address = means.own_dsn() if kept.address is None else fill(kept.address, environment, None)
    target = find_target(kept.store, address, kept.feed, kept.project, "")
    for one in (target.make_trial(name_trial(kept.project, kept.feed)), target):
        with closing(one.open_store(means.epoch)) as feed_store:
            try:
                feed_store.drop()
            except NotOurs as error:
                _tell_left(kept, str(error), means)


def _tell_left(kept: KeptFeedStore, why: str, means: Means) -> None:
    means.tell(StoreLeft(time.time_ns() // 1000, kept.feed, kept.store, kept.address, reason=why))


def _name_contents(kept: KeptFeedStore) -> str:
    """What a feed has in a store, as somebody finds it there."""
    return f"tables headrace_feeds.{kept.feed}_*" if kept.store == "postgres" else f"keys headrace:{kept.feed}:*"


def _may_be_same_place(one: KeptFeedStore, other: KeptFeedStore) -> bool:
    is_same_feed = (one.project, one.feed, one.store) == (other.project, other.feed, other.store)
    return is_same_feed and one.address is not None and other.address is not None


def stores_of_feeds(plan: Plan) -> tuple[KeptFeedStore, ...]:
    """The stores of all feeds that are declared, of those of its site if a plan is the part of one. One that is refused
    keeps its store: whom people mute is theirs.
    """
    feeds = (feed for feed in plan.catalogue.feeds.values() if feed.site and plan.site in (None, feed.site))
    return tuple(KeptFeedStore(plan.store_owner, feed.name, feed.store, feed.address) for feed in feeds)


def captures_of(running: Running, folder: Folder) -> Iterator[CaptureSlot]:
    """What the captures that a plan's sources ask for make in other people's systems."""
    place = place_of(running.plan.catalogue.project, folder.project, {})  # notes hold no address in clear
    for database in running.databases:
        made = connector_of(database.kind).describe_made(database, place)
        if made is not None:
            yield made
