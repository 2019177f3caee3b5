"""A push in parts makes what it makes at once, and rows that only go on are not written again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.meaning.zset import ZSet
from headrace.model.log import PieceKind
from headrace.run.operators.reading import schema_of
from headrace.run.program import JoinStep, Pass
from headrace.run.push.items import HereRunner, ItemOutcome
from headrace.run.push.push_items import has_work, make_item
from headrace.run.push.slices import run_sliced, slice_item, whole
from headrace.run.push.work import Produced, WorkItem, is_free, perform_push
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.changes import WEIGHT
from headrace.testing import changes, tables
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.examples import examples
from tests.run.test_engine import ANY_SIZE, check, world_of

JOIN = "SELECT r.n, s.label, r.k FROM r JOIN s ON r.k = s.k WHERE r.n > 0"


def items_of(world: RunningWorld) -> list[WorkItem]:
    """All pushes of joins and filters that are due, everything before them done."""
    found = []
    for level in world.engine.levels(list(world.program.tasks)):
        logs = world.ledger.logs(world.engine._find_involved(level))
        for name in level:
            task = world.program.tasks[name]
            if isinstance(task.step, JoinStep | Pass) and has_work(task, logs[name], world.now, logs):
                found.append(make_item(world.program, world.store, name, world.now, logs))
        check(world.engine.push_round(dict.fromkeys(level, world.now)))
    return found


def rows_made(world: RunningWorld, item: WorkItem, produced: Produced) -> ZSet:
    names = schema_of(item.log.columns).names
    files = [piece.stored for log, piece in produced.pieces if piece.kind is PieceKind.CHANGE and log == item.name]
    tables_ = [world.store.read(item.log.site, file, names) for file in files]
    table = pa.concat_tables([schema_of(item.log.columns).empty_table(), *tables_])
    return ZSet(zip(rows_of_arrow(table.drop_columns([WEIGHT])), table.column(WEIGHT).to_pylist(), strict=True))


@settings(ANY_SIZE, max_examples=examples(15))
@given(st.data(), st.integers(1, 3))
def test_parts_of_a_push_make_what_the_push_makes(data, rows):
    with quick_folder() as folder:
        world = world_of([JOIN], "m2", Path(folder))
        world.capture(data.draw(tables(max_rows=4)))
        world.engine.load()
        world.capture(data.draw(changes(world.history[world.now])))
        for item in items_of(world):
            parts = list(slice_item(item, rows))
            made = whole([ItemOutcome(part.name, perform_push(part), None, 0.0) for part in parts]).value
            assert made is not None
            assert rows_made(world, item, made) == rows_made(world, item, perform_push(item))


def world_with_changes(folder: Path) -> RunningWorld:
    world = world_of([JOIN], "m2", folder)
    row = (1, 1, 2, 1.0, None, "a", None, None, True)
    world.capture({"r": ZSet([(row, 1)])})
    world.engine.load()
    world.capture({"r": ZSet([(row, 1)])})
    return world


def test_a_log_names_the_files_of_an_input_whose_rows_only_go_on(tmp_path):
    world = world_with_changes(tmp_path)
    check(world.engine.push(list(world.program.tasks), world.now))
    logs = world.ledger.logs()
    shared = [
        (name, task.reads[0])
        for name, task in world.program.tasks.items()
        if isinstance(task.step, Pass)
        for piece in logs[name].of_kind(PieceKind.CHANGE)
        if piece.file in {other.file for other in logs[task.reads[0]].pieces}
    ]
    assert shared
    assert all(logs[name].site == logs[read].site for name, read in shared), "files stay at their site"
    assert world.wrong() == []


def test_one_part_that_fails_is_a_failure_of_the_push():
    made = Produced("v", 0, 1, (), 1, 1, 0)
    parts = [ItemOutcome("v", made, None, 1.0), ItemOutcome("v", None, "broken", 2.0)]
    assert whole(parts) == ItemOutcome("v", None, "broken", 3.0)


def test_what_only_names_files_needs_no_job(tmp_path):
    class NoJobs:
        def run(self, items):
            pytest.fail(f"a job of {[item.name for item in items]}")

    world = world_with_changes(tmp_path)
    free = [item for item in items_of(world) if is_free(item)]
    assert free
    assert [outcome.value for outcome in run_sliced(NoJobs(), free)] == [perform_push(item) for item in free]
    assert run_sliced(HereRunner(perform_push), []) == []
