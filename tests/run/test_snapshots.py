"""Rows of a copy at a time, sent in parts: whoever is killed goes on after the last part, and the rows are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connect.wire.snapshot_files import SnapshotFiles, SnapshotPart
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Source
from headrace.model.types import Row
from headrace.model.wish import CopyWish
from headrace.run.push.engine import NotThereYet
from headrace.run.push.exports import ChangesGone, SentChanges
from headrace.run.rows.changes import contents
from headrace.site.given_contents import GivenContents
from headrace.site.received_contents import ReceivedContents
from headrace.testing import SCHEMA, changes, tables
from headrace.testing.tables import POOLS
from headrace.testing.worlds import quick_folder
from tests.examples import examples
from tests.run.sites_world import SitesWorld
from tests.run.test_crashes import VIEWS
from tests.run.test_engine import ANY_SIZE
from tests.run.test_sites import apart


class Killed(BaseException):
    """A process ends between two parts, or while one is on its way."""


@dataclass
class DirectPeer:
    """The site that has the rows, by calls. Every part that it sends is counted."""

    world: SitesWorld
    origin: str
    given: GivenContents
    kill_at: int | None = None
    sent: list[tuple[int, int]] = field(default_factory=list)

    def read_part(self, copy: str, t: int, number: int) -> SnapshotPart:
        exports = self.world.exports(self.origin)
        part = self.given.read_part(copy, t, number, exports.find(copy).spec, exports.read_contents)
        self.sent.append((t, number))
        if self.kill_at == len(self.sent):
            raise Killed
        return part

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> SentChanges:
        self.world.push(self.origin, list(self.world.exports(self.origin).find(copy).task.reads), wish.t)
        return SentChanges(self.world.exports(self.origin).read_changes(copy, after), 0)


def as_rows(table: pa.Table) -> list[tuple[object, ...]]:
    found = contents([table], 2**62) if "__t" in table.column_names else table
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def some_copy(world: SitesWorld) -> tuple[str, str]:
    program = world.worlds["m2"].program
    copy = next(iter(program.imports.values()))
    return copy.name, copy.origin


def is_whole(world: SitesWorld, copy: str) -> bool:
    return world.worlds["m2"].program.imports[copy].is_whole


def make_places(world: SitesWorld, folder: Path, origin: str) -> Callable[[], tuple[ReceivedContents, DirectPeer]]:
    """Both sides as they are after a start."""

    def start() -> tuple[ReceivedContents, DirectPeer]:
        received = ReceivedContents(SnapshotFiles(folder / "received"), lambda: world.now)
        return received, DirectPeer(world, origin, GivenContents(SnapshotFiles(folder / "given"), part_rows=2))

    return start


@settings(ANY_SIZE, max_examples=examples(12))
@given(st.data())
def test_rows_are_right_and_at_most_one_part_is_sent_again_after_a_kill(data):
    with quick_folder() as name:
        world = apart(VIEWS, "m2", Path(name))
        world.capture(data.draw(tables(max_rows=9)))
        world.load()
        copy = data.draw(st.sampled_from(sorted(world.worlds["m2"].program.imports)))
        origin = world.worlds["m2"].program.imports[copy].origin
        start = make_places(world, Path(name), origin)
        sent, kills = list[tuple[int, int]](), 0
        for _ in range(data.draw(st.integers(0, 3))):
            received, peer = start()
            peer.kill_at = data.draw(st.integers(1, 5))
            try:
                received.read(peer, copy, world.now, is_whole(world, copy))
            except Killed:
                kills += 1
            sent += peer.sent
            world.capture(data.draw(changes(world.history[world.now])))
        received, peer = start()
        found = received.read(peer, copy, world.now, is_whole(world, copy))
        sent += peer.sent
        assert as_rows(found) == as_rows(world.exports(origin).read_contents(copy, world.now))
        held = received.files.find(copy)
        assert held is not None and held.of is not None
        if is_whole(world, copy):
            assert len(sent) <= held.of + kills, "each kill costs the part that was on its way"


def test_a_kill_sends_one_part_again_and_none_that_came(tmp_path: Path):
    world = large_world(tmp_path)
    copy, origin = some_copy(world)
    start = make_places(world, tmp_path, origin)
    received, peer = start()
    peer.kill_at = 3
    with pytest.raises(Killed):
        received.read(peer, copy, world.now, is_whole(world, copy))
    t = world.now
    world.capture({})
    again, peer_again = start()
    again.read(peer_again, copy, world.now, is_whole(world, copy))
    assert [number for _, number in peer.sent] == [0, 1, 2]
    assert peer_again.sent[0] == (t, 2), "the part that was on its way"
    numbers = [number for _, number in peer_again.sent]
    assert numbers == list(range(2, 2 + len(numbers))) and len(numbers) >= 2


def make_row(source: Source, number: int) -> Row:
    pools = [POOLS[one.type] for one in source.columns or ()]
    return tuple(pool[(number + number // len(pool)) % len(pool)] for pool in pools)


def large_world(folder: Path) -> SitesWorld:
    """Copies have more than a few parts."""
    rows = {name: ZSet.of(make_row(source, number) for number in range(30)) for name, source in SCHEMA.items()}
    world = apart(VIEWS, "m2", folder)
    world.capture(rows)
    world.load()
    return world


def test_a_snapshot_that_is_gone_is_begun_anew(tmp_path: Path):
    world = large_world(tmp_path)
    copy, origin = some_copy(world)
    start = make_places(world, tmp_path, origin)
    received, peer = start()
    peer.kill_at = 2
    with pytest.raises(Killed):
        received.read(peer, copy, world.now, is_whole(world, copy))
    peer.given.files.forget_idle(0.0)
    with pytest.raises(ChangesGone):
        peer.read_part(copy, world.now, 1)
    again, peer_again = start()
    found = again.read(peer_again, copy, world.now, is_whole(world, copy))
    assert as_rows(found) == as_rows(world.exports(origin).read_contents(copy, world.now))
    assert peer_again.sent[0] == (world.now, 0)


def test_rows_of_a_time_that_is_not_kept_are_asked_for_at_a_later_one(tmp_path: Path):
    world = large_world(tmp_path)
    copy, origin = some_copy(world)
    with pytest.raises(NotThereYet):
        world.exports(origin).read_contents(copy, world.now + 1_000_000)
