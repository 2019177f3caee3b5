"""Keys of a feed in Valkey are laid out for a cluster: what must be all or nothing touches keys of one hash slot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from headrace.connect.redis import feed_read_scripts as reading
from headrace.connect.redis import feed_scripts as scripts
from headrace.connect.redis import feed_store
from headrace.connect.redis.feed_store import RedisFeedReader, RedisFeedStore
from headrace.run.feeds.batch import Flip
from headrace.run.feeds.changes import StreamPlace
from headrace.run.feeds.page import SECOND, PageRules, make_page
from tests.connect.feed_world import BEGIN, PARTS, FeedWorld, Moment
from tests.connect.test_feed_stores import valkey_url

__all__ = ["valkey_url"]
CONSUMERS = ("anna", "ben", "cleo")
PRODUCERS = ("alice", "{x}", "a}b", "{}", "")
END = "all was seen"
TAG = re.compile(r"headrace:home:\{(p\d+|events|e:[^}]*)\}")


class Watching:
    """Notes the keys of every command that scripts run, by script; commands of one call are together."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url, decode_responses=True)
        self.other = redis.Redis.from_url(url)
        self.calls: list[tuple[str, list[list[str]]]] = []

    def note(self, script: str, run: Any) -> Any:
        with self.client.monitor() as monitor:
            answer = run()
            self.other.echo(END)
            commands = [one for one in _until_end(monitor) if one["client_type"] == "lua"]
        self.calls.append((script, [find_keys(one["command"]) for one in commands]))
        return answer


def _until_end(monitor: Any) -> Iterator[dict[str, Any]]:
    for one in monitor.listen():
        if END in one["command"]:
            return
        yield one


def find_keys(command: str) -> list[str]:
    name, *words = command.split(" ")
    return words if name.upper() == "DEL" else words[:1]


def slots_of(keys: list[str]) -> set[int]:
    return {key_slot(key.encode()) for key in keys}


@pytest.fixture
def watched(valkey_url: str) -> Iterator[tuple[Watching, RedisFeedStore, RedisFeedReader]]:
    watching = Watching(valkey_url)
    watching.client.flushall()

    class WatchedStore(RedisFeedStore):
        def _run(self, script: str, **said: object) -> Any:
            return watching.note(script, lambda: super(WatchedStore, self)._run(script, **said))

    class WatchedReader(RedisFeedReader):
        def _run(self, script: str, **said: object) -> Any:
            return watching.note(script, lambda: super(WatchedReader, self)._run(script, **said))

    with (
        closing(WatchedStore(valkey_url, "home", "p", "v1", 1)) as store,
        closing(WatchedReader(valkey_url, "home", most_few=2)) as reader,
    ):
        yield watching, store, reader


def use_everything(store: RedisFeedStore, reader: RedisFeedReader) -> None:
    world, rules = FeedWorld(3, 4), PageRules(2, more_than=1, within_s=60.0)
    events: dict[tuple[str, str], tuple[int, Any]] = {
        (who, f"{who}{n}"): (world.t - n * SECOND, None) for who in PRODUCERS for n in range(6)
    }
    follows = {(consumer, who): who == "alice" for consumer in CONSUMERS for who in PRODUCERS}
    world.change(Moment(events, follows))
    for moment in (None, Moment({}, follows), Moment(events, {})):
        if moment is not None:
            world.change(moment, pause=60 * SECOND)
        world.bring_events(store, world.t)
        world.bring_parts(store, PARTS, world.t)
        for consumer in CONSUMERS:
            read = reader.read_page(consumer, rules)
            assert read is not None
            reader.read_page(consumer, rules, make_page(rules, read).next)
            reader.read_ends(consumer, world.t, 4)
            reader.mark_seen(consumer, (world.t, "x"))
            reader.hide("anna", "bob", "mute")
            reader.count_unread(consumer)
        reader.read_changes([(consumer, StreamPlace(world.t - SECOND)) for consumer in CONSUMERS])
    reader.read_newest(PRODUCERS, 2)
    reader.add_counts("reads", {"anna": 1.0}, 5.0, 10.0)
    store.flip([Flip("anna", "alice", False, world.t + 1)])
    for part in range(64):
        if part not in PARTS:
            store.start(world.part_rows(part, world.t), world.t)
    store.purge()
    store.sizes()


def test_every_step_of_a_script_touches_keys_of_one_slot_and_whole_scripts_that_must_do_too(watched) -> None:
    watching, store, reader = watched
    use_everything(store, reader)
    every_name = vars(scripts) | vars(reading)
    names = {text: name for name, text in every_name.items() if isinstance(text, str)}
    every = {name for text, name in names.items() if text.startswith(scripts.PREAMBLE) and name != "PREAMBLE"}
    assert {names[script] for script, _ in watching.calls} == every, "every script is looked at"
    for script, commands in watching.calls:
        for keys in commands:
            assert len(slots_of(keys)) == 1, f"{names[script]}: {keys}"
        used = [key for keys in commands for key in keys]
        if script in scripts.ONE_SLOT:
            assert len(slots_of(used)) <= 1, f"{names[script]}: {used}"
        else:
            assert all(TAG.match(key) for key in used), f"{names[script]}: {used}"


def test_sizes_are_counted_in_steps_of_one_part_and_of_some_producers(watched, monkeypatch) -> None:
    """A script holds up everybody else until it ends."""
    monkeypatch.setattr(feed_store, "PRODUCERS_AT_ONCE", 50)
    watching, store, _ = watched
    world, names = FeedWorld(3, 4), [f"p{number}" for number in range(400)]
    events: dict[tuple[str, str], tuple[int, Any]] = {(who, id_): (world.t, None) for who in names for id_ in "ab"}
    world.change(Moment(events, {(consumer, who): True for consumer in CONSUMERS for who in names[:5]}))
    world.bring_events(store, world.t)
    world.bring_parts(store, PARTS, world.t)
    watching.calls.clear()
    sizes = store.sizes()
    assert (sizes.pairs, sizes.stored_ahead, sizes.entries, sizes.events) == (15, 15, 30, 800)
    assert max(len(commands) for _, commands in watching.calls) < 200


def test_purging_takes_steps_of_some_versions(watched, monkeypatch) -> None:
    monkeypatch.setattr(feed_store, "PURGED_AT_ONCE", 10)
    watching, store, _ = watched
    world = FeedWorld(3, 4)
    for events in ({(f"p{n}", "a"): (world.t, None) for n in range(25)}, {}, {}):
        world.change(Moment(events, {}), pause=60 * SECOND)
        world.bring_events(store, world.t)
        world.bring_parts(store, range(64), world.t)
    watching.calls.clear()
    assert store.purge() == 25
    purged = [sum(key.endswith("}:b") for keys in commands for key in keys) for _, commands in watching.calls]
    assert purged == [10, 10, 5]


def test_counting_what_is_unread_looks_only_at_those_who_have_posted_since(watched) -> None:
    watching, store, reader = watched
    world, names = FeedWorld(3, 4), [f"p{number}" for number in range(300)]
    events: dict[tuple[str, str], tuple[int, Any]] = {(who, "a"): (world.t, None) for who in names}
    world.change(Moment({**events, ("p7", "b"): (world.t + SECOND, None)}, {("anna", who): False for who in names}))
    world.bring_events(store, world.t)
    world.bring_parts(store, PARTS, world.t)
    assert reader.count_unread("anna") == 99
    reader.mark_seen("anna", (BEGIN + 1, ""))
    watching.calls.clear()
    assert reader.count_unread("anna") == 1
    assert len(watching.calls[0][1]) <= 10
