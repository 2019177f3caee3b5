"""What streams are told of changes is what changes on pages: nothing is missing, twice or out of order."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.run.feeds.changes import KEPT_AFTER_END, MOST_CHANGES, FeedChanges, StreamPlace
from headrace.run.feeds.page import SECOND, PageEntry
from headrace.run.ports import FeedReader
from tests.connect.feed_world import CONSUMERS, PARTS, PRODUCERS, FeedWorld, Moment, first_moment, next_moment
from tests.connect.test_feed_stores import ANY_SIZE, BOB_AND_ZOE, KEEP, Place, a_world, fill, place, valkey_url

__all__ = ["place", "valkey_url"]

NOW = StreamPlace(2**62)
Kept = dict[tuple[str, str | int], tuple[int, Any]]


@dataclass
class Listener:
    """Somebody who keeps what a stream tells."""

    consumer: str
    place: StreamPlace
    kept: Kept
    order: list[tuple[Any, ...]] = field(default_factory=list)

    def hear(self, found: FeedChanges, most: int) -> None:
        """Hears some changes, and goes on from there the next time."""
        assert found.is_complete
        for position, change in enumerate(found.changes[:most]):
            key = name_entry(change.entry)
            if change.is_gone:
                self.kept.pop(key, None)
            else:
                self.kept[key] = change.entry.time, change.entry.body
            self.order.append(change.order)
            self.place = found.place_after(position)
        if not found.changes:
            self.place = StreamPlace(max(found.t, self.place.t))


def read_changes(reader: FeedReader, consumer: str, place: StreamPlace) -> FeedChanges:
    (found,) = reader.read_changes([(consumer, place)])
    assert found is not None
    return found


def name_entry(entry: PageEntry) -> tuple[str, str | int]:
    """What tells an entry apart from others."""
    return entry.producer, entry.id or entry.time


def find_kept(world: FeedWorld, consumer: str, t: int) -> Kept:
    return {name_entry(one): (one.time, one.body) for one in world.entries(consumer, t)}


@settings(ANY_SIZE)
@given(has_ids=st.booleans(), seed=st.integers(0, 2**32))
def test_whoever_keeps_what_is_told_has_what_pages_can_show(place, has_ids, seed):
    with place.another() as another:
        listen(another, has_ids, Random(seed))


def listen(place: Place, has_ids: bool, random: Random) -> None:
    world, gone = FeedWorld(3, KEEP, has_ids), dict[tuple[str, str], Any]()
    follows = {(who, whom): random.random() < 0.5 for who in CONSUMERS for whom in PRODUCERS if random.random() < 0.7}
    world.change(Moment(first_moment(random, world.t).events, follows))
    store, reader = fill(place, world), place.open_reader()
    listeners = [Listener(who, StreamPlace(world.t), find_kept(world, who, world.t)) for who in CONSUMERS]
    for _ in range(random.randint(1, 8)):
        for _ in range(random.randint(0, 5)):
            events = next_moment(random, world.at(world.t), world.t, gone).events
            world.change(Moment(events, follows))
        world.bring_events(store, world.t)
        world.bring_parts(store, random.choice([PARTS, PARTS[:2], PARTS[1:]]), world.t)
        store.purge()
        for one, found in zip(
            listeners, reader.read_changes([(one.consumer, one.place) for one in listeners]), strict=True
        ):
            assert found is not None
            one.hear(found, random.choice([0, 1, 3, MOST_CHANGES]))
    world.bring_parts(store, PARTS, world.t)
    for one in listeners:
        one.hear(read_changes(reader, one.consumer, one.place), MOST_CHANGES)
        assert one.kept == find_kept(world, one.consumer, world.t)
        assert one.order == sorted(set(one.order)), "told in order, and once"
        assert read_changes(reader, one.consumer, one.place).changes == ()


def test_nothing_is_told_of_those_who_are_hidden_or_not_followed(place):
    world = a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True, ("anna", "zoë"): False})
    store, reader = fill(place, world), place.open_reader()
    begin = StreamPlace(read_changes(reader, "anna", NOW).t)
    assert begin.t == world.t
    later = world.t + 10 * SECOND
    posted: dict[tuple[str, str], tuple[int, Any]] = {(who, "new"): (later, {}) for who in ("bob", "zoë", "chad")}
    world.change(Moment(posted, world.at(world.t).follows))
    world.bring_events(store, world.t)
    assert read_changes(reader, "anna", begin).changes == (), "her part is not there yet"
    world.bring_parts(store, PARTS, world.t)
    told = [(one.entry.producer, one.entry.id, one.is_gone) for one in read_changes(reader, "anna", begin).changes]
    assert told == [("bob", "a", True), ("zoë", "c", True), ("bob", "b", True), ("bob", "new", False),
                    ("zoë", "new", False)]  # fmt: skip
    reader.hide("anna", "bob", "mute")
    assert [one.entry.id for one in read_changes(reader, "anna", begin).changes] == ["c", "new"]
    assert reader.read_changes([("ben", begin)])[0] == FeedChanges(world.t, ())


def test_who_is_too_far_behind_is_told_to_read_a_page(place):
    world = a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True})
    store, reader = fill(place, world), place.open_reader()
    begin = StreamPlace(world.t)
    world.change(Moment({}, world.at(world.t).follows), pause=KEPT_AFTER_END)
    world.bring_events(store, world.t)
    world.bring_parts(store, PARTS, world.t)
    assert len(read_changes(reader, "anna", begin).changes) == 2
    world.change(Moment({}, world.at(world.t).follows), pause=SECOND)
    world.bring_events(store, world.t)
    world.bring_parts(store, PARTS, world.t)
    assert read_changes(reader, "anna", begin) == FeedChanges(world.t, (), is_complete=False)


def test_after_the_store_was_filled_again_nobody_is_told_that_everything_is_new(place):
    world = a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True})
    store, reader = fill(place, world), place.open_reader()
    begin = StreamPlace(world.t)
    world.change(Moment(world.at(world.t).events, world.at(world.t).follows))
    store.start_events(world.event_rows(world.t), world.t)
    world.bring_parts(store, PARTS, world.t)
    assert read_changes(reader, "anna", begin) == FeedChanges(world.t, (), is_complete=False)
    assert read_changes(reader, "anna", StreamPlace(world.t)) == FeedChanges(world.t, ())
