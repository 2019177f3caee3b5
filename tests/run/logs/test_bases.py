"""Rows are written once where a file can be two things: the rows of a push and an index, or an index and a base."""

from __future__ import annotations

from pathlib import Path

from headrace.meaning.zset import ZSet
from headrace.model.log import Log, Piece, PieceKind
from headrace.model.types import Value
from headrace.run.check.read_log import read_contents_at
from headrace.run.logs.upkeep import Upkeep
from headrace.run.logs.upkeep_work import UpkeepItem
from headrace.testing.worlds import RunningWorld
from tests.run.test_engine import check, world_of

VIEWS = ["SELECT r.name, s.label FROM r JOIN s ON r.k = s.k"]
SOURCE = "r:r@m1"


def test_the_rows_of_a_push_are_an_index_under_another_name(tmp_path: Path):
    world = start(tmp_path)
    change_rows(world, 1)
    check(world.engine.push(list(world.program.tasks), world.now))
    log = world.ledger.logs([SOURCE])[SOURCE]
    newest = [piece for piece in log.pieces if piece.upto == world.now]
    assert {piece.kind for piece in newest} == {PieceKind.CHANGE, PieceKind.INDEX}
    assert len(find_inodes(world, log, newest)) == 1
    assert world.wrong() == []


def test_a_merge_of_all_rows_is_the_next_base(tmp_path: Path):
    world = start(tmp_path)
    upkeep, shared = Upkeep(world.engine), 0
    for number in range(1, 30):
        change_rows(world, number)
        check(world.engine.push(list(world.program.tasks), world.now))
        while upkeep.step():
            pass
        log = world.ledger.logs([SOURCE])[SOURCE]
        bases = log.of_kind(PieceKind.BASE)
        assert len(bases) <= 1, "all rows would be there twice"
        indexes = find_inodes(world, log, log.of_kind(PieceKind.INDEX))
        shared += log.base_t == world.now and find_inodes(world, log, bases) <= indexes
        upkeep.trim(world.now)
        upkeep.sweep(number, grace=0.0)
        assert world.wrong() == []
        assert held_rows(world, log) == sum(weight for _, weight in world.history[world.now]["r"].items())
    assert shared > 1, "no merge has made a base"


def test_no_merge_makes_a_base_of_times_that_a_reader_still_tells_apart(tmp_path: Path):
    """The join is behind: it will ask which rows of the source were there before those of the other side."""
    world = start(tmp_path)
    upkeep = Upkeep(world.engine)
    behind = world.now
    for number in range(1, 40):
        change_rows(world, number)
        check(world.engine.push([SOURCE], world.now))
        while upkeep.step():
            pass
    base_t = world.ledger.logs([SOURCE])[SOURCE].base_t
    assert base_t is None or base_t <= behind
    check(world.engine.push(list(world.program.tasks), world.now))
    assert world.wrong() == []
    while upkeep.step():
        pass
    assert world.ledger.logs([SOURCE])[SOURCE].base_t == world.now


def test_a_log_that_was_given_another_base_meanwhile_keeps_it(tmp_path: Path):
    world = start(tmp_path)
    upkeep = Upkeep(world.engine)
    for number in range(1, 12):
        change_rows(world, number)
        check(world.engine.push(list(world.program.tasks), world.now))
    items = [item for item in upkeep._next(lambda _: True) if isinstance(item, UpkeepItem) and item.makes_base]
    assert items
    while upkeep.step():
        pass
    before = world.ledger.logs()
    for item, outcome in zip(items, world.engine.runner.run(items), strict=True):
        assert outcome.value is not None, outcome.error
        upkeep._commit(item, outcome.value)
    assert world.ledger.logs() == before


def start(folder: Path) -> RunningWorld:
    world = world_of(VIEWS, "m1", folder)
    world.capture({"r": ZSet([(row(n, "a"), 1) for n in range(10)]), "s": ZSet([((1, 1, None, "x", None), 1)])})
    world.engine.load()
    check(world.engine.push(list(world.program.tasks), world.now))
    return world


def row(number: int, name: str) -> tuple[Value, ...]:
    return (number, number % 3, 1, 1.0, None, name, None, None, True)


def change_rows(world: RunningWorld, number: int) -> None:
    """One row comes, and one that is there goes."""
    there = sorted(one for one, _ in world.history[world.now]["r"].items())
    gone = [(there[number % len(there)], -1)] if number % 3 == 0 else []
    world.capture({"r": ZSet([(row(100 + number, "b"), 1), *gone])})


def find_inodes(world: RunningWorld, log: Log, pieces: list[Piece] | tuple[Piece, ...]) -> set[int]:
    return {(world.store.root / log.site / piece.file).stat().st_ino for piece in pieces}


def held_rows(world: RunningWorld, log: Log) -> int:
    found = read_contents_at(world.store, log, world.program.logs[log.name].columns, log.t)
    return sum(found.column("__w").to_pylist())
