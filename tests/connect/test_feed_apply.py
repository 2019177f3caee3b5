"""A feed's store follows its logs through everything that happens to either, by work items of the engine."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connect.postgres.feed_store import PostgresFeedStore
from headrace.connect.postgres.feed_target import PostgresFeedTarget
from headrace.connect.postgres.sessions import Connection
from headrace.meaning.zset import ZSet
from headrace.model.errors import Conflict, ConnectError, CopyChanged, Fenced
from headrace.model.log import Log
from headrace.model.types import BIGINT, BOOLEAN, STRING, TIMESTAMP
from headrace.run.feeds.apply import FeedAdvance, FeedApplied, FeedApplyItem, perform_apply, plan_parts
from headrace.run.feeds.batch import EVENTS_PART, PARTS
from headrace.run.feeds.logs import FeedLog, FeedLogs, read_id
from headrace.run.feeds.page import SECOND, PageRules
from headrace.run.ports import FeedTarget
from headrace.run.push.items import HereRunner
from tests.connect.delivered_views import View
from tests.connect.feed_world import BEGIN, FeedWorld, Moment, first_moment, next_moment, rules_of_feeds
from tests.connect.test_feed_stores import ANY_SIZE, KEEP, check_pages
from tests.examples import examples

NEWEST = {"author": STRING, "ts": TIMESTAMP, "pid": STRING, "doc": STRING}
PAIRS = {"consumer": STRING, "producer": STRING, "ahead": BOOLEAN}
STORED = {"consumer": STRING, "producer": STRING, "time": TIMESTAMP, "id": STRING}
ALL = tuple(range(PARTS))


def moment_of(micros: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)


class Crash(Exception):
    pass


class BreakingStore(PostgresFeedStore):
    """Breaks before or after a commit, as often as a test says, in whichever process it is."""

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with super()._transaction() as session:
            yield session
            if BreakingTarget.when[:1] == ["before"]:
                raise Crash(BreakingTarget.when.pop(0))
        if BreakingTarget.when[:1] == ["after"]:
            raise Crash(BreakingTarget.when.pop(0))
        if BreakingTarget.when[:1] == ["later"]:
            BreakingTarget.when.pop(0)


@dataclass(frozen=True)
class BreakingTarget(PostgresFeedTarget):
    when: ClassVar[list[str]] = []

    def open_store(self, epoch: int) -> PostgresFeedStore:
        return BreakingStore(self.dsn, self.feed, self.project, self.meaning, epoch)


class LoggedWorld(FeedWorld):
    """A feed whose relations are in files, as the engine leaves them."""

    def __init__(self, folder: Path, shown: int, keep: int = KEEP) -> None:
        super().__init__(shown, keep)
        self.views = tuple(View(folder / name, kinds) for name, kinds in (("n", NEWEST), ("p", PAIRS), ("s", STORED)))
        for view in self.views:
            view.log = replace(view.log, t=BEGIN, start=BEGIN)
            view.store = self.views[0].store

    def change(self, to: Moment, pause: int = 1_000) -> None:
        super().change(to, pause)
        for view, rows in zip(self.views, self.contents(to), strict=True):
            view.change(ZSet.of(rows) - view.now, pause=pause)

    def contents(self, moment: Moment) -> tuple[list[Any], list[Any], list[Any]]:
        newest = [(who, moment_of(ts), id_, body) for who, ts, id_, body in self.newest(moment)]
        pairs = [(*pair, ahead) for pair, ahead in moment.follows.items()]
        stored = [(who, whom, moment_of(ts), id_) for who, whom, ts, id_ in self.stored(moment, ALL)]
        return newest, pairs, stored

    @property
    def logs(self) -> tuple[Log, Log, Log]:
        newest, pairs, stored = (view.log for view in self.views)
        return newest, pairs, stored

    @property
    def reading(self) -> FeedLogs:
        newest, pairs, stored = (FeedLog("log", view.fields, view.outputs) for view in self.views)
        return FeedLogs(newest, pairs, stored, "author", "ts", "pid", "doc")

    def advance_of(self, target: FeedTarget, epoch: int, slots: int = 2) -> FeedAdvance:
        item = FeedApplyItem("home", self.reading, target, self.views[0].store, epoch, self.logs, (), None, 0)
        return FeedAdvance(item, target.open_store(epoch), HereRunner(perform_apply), slots)


@settings(ANY_SIZE, max_examples=examples(12))
@given(rules=rules_of_feeds(), seed=st.integers(0, 2**32))
def test_a_store_equals_its_logs_through_crashes_restarts_and_lost_history(postgres_database, rules, seed):
    random, target = Random(seed), BreakingTarget(postgres_database(), "home", "p", "m")
    BreakingTarget.when.clear()
    with TemporaryDirectory() as folder, closing(target.open_reader()) as reader:
        world, epoch, gone = LoggedWorld(Path(folder), rules.shown), 1, dict[tuple[str, str], Any]()
        advance = world.advance_of(target, epoch)
        world.change(first_moment(random, world.t))
        for _ in range(random.randint(2, 4)):
            for _ in range(random.randint(0, 4)):
                world.change(next_moment(random, world.at(world.t), world.t, gone))
            if random.random() < 0.2:
                for view in world.views:
                    view.compact()
            BreakingTarget.when += random.choice(
                ([], [], ["before"], ["after"], ["later", "after"], ["later", "before"])
            )
            for _ in range(4):
                try:
                    advance.advance(world.logs)
                    break
                except (Crash, ConnectError):
                    if random.random() < 0.5:
                        epoch += 1
                        advance.feed_store.close()
                        advance = world.advance_of(target, epoch)
            BreakingTarget.when.clear()
            assert advance.reached == world.t
            check_pages(reader, rules, world, dict.fromkeys(ALL, world.t))
        restored = LoggedWorld(Path(folder) / "restored", rules.shown)
        restored.change(first_moment(random, restored.t), pause=1)
        again = restored.advance_of(target, epoch)
        again.advance(restored.logs)
        check_pages(reader, rules, restored, dict.fromkeys(ALL, restored.t))
        again.feed_store.close()
        advance.feed_store.close()


def a_world(folder: Path) -> LoggedWorld:
    world = LoggedWorld(folder, 5)
    events = {("bob", "a"): (BEGIN + SECOND, {"n": 1}), ("bob", "b"): (BEGIN + 3 * SECOND, {"n": 2})}
    world.change(Moment(events, {("anna", "bob"): True, ("ben", "bob"): False}))
    return world


@pytest.fixture
def target(postgres_dsn: str) -> Iterator[BreakingTarget]:
    BreakingTarget.when.clear()
    yield BreakingTarget(postgres_dsn, "home", "p", "m")
    BreakingTarget.when.clear()


@pytest.fixture
def opened(target: BreakingTarget) -> Iterator[Callable[[LoggedWorld, int], FeedAdvance]]:
    """Makes what brings a feed forward; its store is closed when the test ends."""
    with ExitStack() as stack:

        def make(world: LoggedWorld, epoch: int) -> FeedAdvance:
            advance = world.advance_of(target, epoch)
            stack.callback(advance.feed_store.close)
            return advance

        yield make


def test_an_earlier_service_is_told_that_another_has_taken_over(opened, tmp_path):
    world = a_world(tmp_path)
    old, new = opened(world, 1), opened(world, 2)
    old.advance(world.logs)
    new.advance(world.logs)
    world.change(Moment())
    with pytest.raises(Fenced, match="taken over"):
        old.advance(world.logs)
    new.advance(world.logs)
    assert new.reached == world.t


def test_what_another_try_has_done_is_noticed_and_gone_on_from(opened, tmp_path):
    world = a_world(tmp_path)
    one, other = opened(world, 1), opened(world, 1)
    one.advance(world.logs)
    other.advance(world.logs)
    world.change(Moment())
    other.advance(world.logs)
    with pytest.raises(Conflict):
        one.advance(world.logs)
    one.advance(world.logs)
    assert one.reached == world.t


def test_parts_that_somebody_else_has_changed_are_filled_again(target, opened, tmp_path):
    world = a_world(tmp_path)
    advance = opened(world, 1)
    advance.advance(world.logs)
    with advance.feed_store._transaction() as session:
        session.execute("DELETE FROM headrace_feeds.home_feed")
    world.change(Moment({}, world.at(world.t).follows))
    with pytest.raises(CopyChanged):
        advance.advance(world.logs)
    advance.advance(world.logs)
    with closing(target.open_reader()) as reader:
        check_pages(reader, PageRules(5), world, dict.fromkeys(ALL, world.t))


def test_parts_wait_to_be_started_while_a_log_does_not_tell_what_it_held(opened, tmp_path):
    world = a_world(tmp_path)
    item = opened(world, 1).item
    newest, pairs, stored = world.logs
    world.views[1].compact()
    ahead = world.views[1].log
    behind = replace(item, logs=(newest, ahead, replace(stored, t=stored.t - 1)))
    assert plan_parts(behind, {EVENTS_PART: newest.t}, (), 2) == []
    level = plan_parts(replace(item, logs=(newest, ahead, stored)), {EVENTS_PART: newest.t}, (), 2)
    assert [(one.parts, one.after) for one in level] == [(ALL, None)] and pairs.t == ahead.t


def test_large_changes_are_shared_out(opened, tmp_path):
    world = a_world(tmp_path)
    item = opened(world, 1).item
    newest, pairs, stored = world.logs
    large = replace(stored, pieces=tuple(replace(piece, rows=50_000) for piece in stored.pieces))
    clocks = {EVENTS_PART: newest.t, **dict.fromkeys(ALL, BEGIN)}
    items = plan_parts(replace(item, logs=(newest, pairs, large)), clocks, (), 3)
    assert sorted(part for one in items for part in one.parts) == list(ALL) and len(items) == 3


def test_bodies_are_objects_of_the_other_columns_and_whole_numbers_keep_their_order(tmp_path):
    columns = {"author": BIGINT, "ts": TIMESTAMP, "pid": BIGINT, "text": STRING}
    view = View(tmp_path, columns)
    view.change(
        ZSet.of([(7, moment_of(5), n, "\\u0000 nul \x00") for n in (-10, -9, 9, 10)] + [(None, moment_of(5), 1, "")])
    )
    log = FeedLog("newest", view.fields, view.outputs)
    events = FeedLogs(log, log, log, "author", "ts", "pid").read_events(view.store, view.log, view.log.t)
    rows = sorted(events.to_pylist(), key=lambda row: row["id"])
    assert [read_id(row["id"], True) for row in rows] == ["-10", "-9", "9", "10"]
    assert {(row["producer"], row["ts"], row["body"]) for row in rows} == {
        ("7", 5, json.dumps({"text": "\\u0000 nul �"}, ensure_ascii=False))
    }


def test_clocks_stand_still_for_a_while_if_nothing_happens_and_move_alone_afterwards(opened, tmp_path):
    world = a_world(tmp_path)
    advance = opened(world, 1)
    advance.pause = 5_000
    advance.advance(world.logs)
    before, advance.runner = world.t, HereRunner(fail)
    world.change(world.at(world.t), pause=4_999)
    advance.advance(world.logs)
    assert advance.reached == before
    world.change(world.at(world.t), pause=1)
    advance.advance(world.logs)
    assert advance.reached == world.t
    assert set(advance.feed_store.take_over().values()) == {world.t}


def fail(item: FeedApplyItem) -> FeedApplied:
    raise AssertionError("there is no work")
