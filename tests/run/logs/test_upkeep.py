"""Upkeep keeps what logs hold: views stay right while indexes are merged, bases are made, and old changes go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.meaning.zset import ZSet
from headrace.model.log import Commit, PieceKind
from headrace.model.notes import SourceLoading
from headrace.run.logs.key_index import HASH
from headrace.run.logs.upkeep import Upkeep
from headrace.run.rows.changes import TIME
from headrace.testing import changes, tables
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.run.test_engine import check, world_of

VIEWS = [
    "SELECT r.name, s.label FROM r JOIN s ON r.k = s.k",
    "SELECT r.k, count(*) AS c, min(r.n) AS n FROM r GROUP BY r.k",
    "SELECT r.id, t.name FROM r LEFT JOIN t ON r.k = t.k",
]


@settings(deadline=None, max_examples=6, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_views_stay_right_while_logs_are_kept_up(data):
    with quick_folder() as folder:
        world = world_of(VIEWS, "m1", Path(folder))
        upkeep = Upkeep(world.engine, keep=0)
        world.capture(data.draw(tables(max_rows=4)))
        world.engine.load()
        for _ in range(12):
            world.capture(data.draw(changes(world.history[world.now])))
            chosen = data.draw(st.lists(st.sampled_from(sorted(world.program.tasks)), min_size=1, max_size=5))
            check(world.engine.push(chosen, world.engine.watermark(chosen)))
            while data.draw(st.booleans()) and upkeep.step():
                pass
            upkeep.trim(world.now)
            upkeep.sweep(1e12, grace=0.0)
            assert world.wrong() == []
        check(world.engine.push(list(world.program.tasks), world.now))
        assert world.wrong() == []


@settings(deadline=None, max_examples=6, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_gathered_history_is_what_it_was(data):
    """Whoever asks for the changes of any time gets the same rows."""
    with quick_folder() as folder:
        world = world_of(VIEWS, "m1", Path(folder))
        upkeep = Upkeep(world.engine, gather_files=data.draw(st.integers(2, 4)))
        world.capture(data.draw(tables(max_rows=4)))
        world.engine.load()
        for _ in range(10):
            world.capture(data.draw(changes(world.history[world.now])))
            chosen = data.draw(st.lists(st.sampled_from(sorted(world.program.tasks)), min_size=1, max_size=8))
            check(world.engine.push(chosen, world.engine.watermark(chosen)))
            before = history_of(world)
            while data.draw(st.booleans()) and upkeep.step():
                pass
            upkeep.trim(world.now)
            upkeep.sweep(1e12, grace=0.0)
            assert history_of(world) == before
            assert world.wrong() == []
        check(world.engine.push(list(world.program.tasks), world.now))
        assert world.wrong() == []


def history_of(world: RunningWorld) -> dict[str, list[str]]:
    """All changes that logs have since they start."""
    return {
        name: sorted(
            repr(row)
            for piece in log.changes(log.start, log.t)
            for row in _rows_of(world.store.read(log.site, piece.stored))
            if row[TIME] > log.start
        )
        for name, log in world.ledger.logs().items()
    }


def _rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Without the hash that a file has which is an index, too."""
    found: list[dict[str, Any]] = table.select([name for name in table.column_names if name != HASH]).to_pylist()
    return found


def test_history_is_kept_in_few_files_that_logs_share(tmp_path):
    world = world_of(VIEWS, "m1", tmp_path)
    upkeep = Upkeep(world.engine, gather_files=4)
    world.capture({"r": ZSet([((0, 1, 1, 1.0, None, "a", None, None, True), 1)])})
    world.engine.load()
    for number in range(1, 120):
        world.capture({"r": ZSet([((number, 1, 1, 1.0, None, "a", None, None, True), 1)])})
        check(world.engine.push(list(world.program.tasks), world.now))
        while upkeep.step():
            pass
        upkeep.trim(world.now)
        upkeep.sweep(number, grace=0.0)
    logs = world.ledger.logs()
    most = max(len(log.of_kind(PieceKind.CHANGE)) for log in logs.values())
    assert most < 80, {name: len(log.of_kind(PieceKind.CHANGE)) for name, log in logs.items()}
    assert sum(piece.rows for piece in logs["spool:r"].of_kind(PieceKind.CHANGE)) == 120
    assert len(logs["spool:r"].of_kind(PieceKind.CHANGE)) < 8


def test_files_stay_few_however_often_the_same_rows_change(tmp_path):
    world = world_of(VIEWS, "m1", tmp_path)
    upkeep = Upkeep(world.engine, keep=0)
    row = (1, 1, 1, 1.0, None, "a", None, None, True)
    other = (1, 1, 2, 1.0, None, "b", None, None, True)
    world.capture({"r": ZSet([(row, 1)])})
    world.engine.load()
    counts = []
    for number in range(60):
        old, new = (row, other) if number % 2 == 0 else (other, row)
        world.capture({"r": ZSet([(old, -1), (new, 1)])})
        check(world.engine.push(list(world.program.tasks), world.now))
        while upkeep.step():
            pass
        upkeep.trim(world.now)
        upkeep.sweep(number, grace=0.0)
        counts.append(len(list(world.store.list())))
    assert max(counts[30:]) <= max(counts[:30]) + 5, counts
    assert world.wrong() == []


def test_the_spool_of_a_table_that_is_being_read_is_kept(tmp_path):
    world = world_of(VIEWS, "m1", tmp_path)
    row = (1, 1, 1, 1.0, None, "a", None, None, True)
    world.capture({"r": ZSet([(row, 1)])})
    world.engine.load()
    check(world.engine.push(list(world.program.tasks), world.now))
    upkeep = Upkeep(world.engine, keep=0)
    world.ledger.commit(world.lease, Commit(notes=(SourceLoading("r"),)))
    upkeep.trim(world.now)
    assert world.ledger.logs(["spool:r"])["spool:r"].of_kind(PieceKind.CHANGE)
    world.ledger.commit(world.lease, Commit(notes=(SourceLoading.remove("r"),)))
    upkeep.trim(world.now)
    assert not world.ledger.logs(["spool:r"])["spool:r"].of_kind(PieceKind.CHANGE)


def test_a_spool_that_nothing_was_made_from_yet_is_kept_whole(tmp_path):
    """A source may be read long before the view that reads it: the view waits for another source."""
    world = world_of(VIEWS, "m1", tmp_path)
    world.capture({"r": ZSet([((1, 1, 1, 1.0, None, "a", None, None, True), 1)])})
    Upkeep(world.engine, keep=0, budgets={"m1": 1}).trim(world.now)
    world.engine.load()
    check(world.engine.push(list(world.program.tasks), world.now))
    assert world.wrong() == []


def test_changes_are_kept_for_a_day_and_what_was_captured_while_it_is_read(tmp_path):
    world = world_of(VIEWS, "m1", tmp_path)
    world.capture({"r": ZSet([((n, n, n, 1.0, None, "a", None, None, True), 1) for n in range(20)])})
    world.engine.load()
    world.capture({"r": ZSet([((20, 20, 20, 1.0, None, "a", None, None, True), 1)])})
    check(world.engine.push(list(world.program.tasks), world.now))
    upkeep, hour, before = Upkeep(world.engine), 3600 * 1_000_000, history_of(world)
    upkeep.trim(world.now + 23 * hour)
    after = history_of(world)
    assert after.pop("spool:r") == [] != before.pop("spool:r")
    assert after == before
    upkeep.trim(world.now + 25 * hour)
    changes_alone = [name for name, spec in world.program.logs.items() if not spec.has_contents]
    assert changes_alone and [name for name in changes_alone if history_of(world)[name]] == []
    assert world.wrong() == []


def test_a_reader_that_a_budget_cuts_off_is_named_and_loaded_anew(tmp_path):
    world = world_of(VIEWS, "m1", tmp_path)
    world.capture({"r": ZSet([((n, n, n, 1.0, None, "a", None, None, True), 1) for n in range(20)])})
    world.engine.load()
    slow = world.plan.contracts[0].vertex
    for number in range(8):
        world.capture({"s": ZSet([((number, 1, None, "x", None), 1)])})
        ahead = [name for name in world.program.tasks if name != slow and slow not in world.engine.upstream([name])]
        check(world.engine.push(ahead, world.now))
    upkeep = Upkeep(world.engine, keep=0, budgets=dict.fromkeys(("m1", "m2", "m3"), 1))
    cut_off = upkeep.trim(world.now)
    assert slow in cut_off
    assert slow in world.engine.forget(cut_off)
    world.engine.load()
    check(world.engine.push(list(world.program.tasks), world.now))
    assert world.wrong() == []


def test_no_change_is_dropped_before_the_readers_that_need_it_are_forgotten(tmp_path):
    """A service that is killed between the two would leave a view behind that can never go on."""
    world = world_of(VIEWS, "m1", tmp_path)
    world.capture({"r": ZSet([((n, n, n, 1.0, None, "a", None, None, True), 1) for n in range(20)])})
    world.engine.load()
    slow = world.plan.contracts[0].vertex
    for number in range(8):
        world.capture({"s": ZSet([((number, 1, None, "x", None), 1)])})
        ahead = [name for name in world.program.tasks if name != slow and slow not in world.engine.upstream([name])]
        check(world.engine.push(ahead, world.now))
    assert slow in Upkeep(world.engine, keep=0, budgets=dict.fromkeys(("m1", "m2", "m3"), 1)).trim(world.now)
    world.open()
    assert world.engine.find_cut_off() == []
    check(world.engine.push(list(world.program.tasks), world.now))
    assert world.wrong() == []


def test_changes_that_are_all_a_source_holds_are_not_forgotten(tmp_path):
    """A source without a key that was never compacted: what is loaded from it later lacks no row."""
    world = world_of(["SELECT r.k, count(*) AS c FROM r GROUP BY r.k"], "m1", tmp_path)
    world.capture({"r": ZSet([((1, 1, 1, 1.0, None, "a", None, None, True), 2)])})
    world.engine.load()
    check(world.engine.push(list(world.program.tasks), world.now))
    Upkeep(world.engine, keep=0).trim(world.now)
    world.engine.forget([one.vertex for one in world.plan.contracts])
    world.engine.load()
    assert world.wrong() == []
