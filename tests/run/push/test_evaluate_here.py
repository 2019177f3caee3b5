"""Views that are recomputed: whatever is captured and pushed, in whatever batches, each equals its query."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.zset import EMPTY, ZSet
from headrace.model.catalogue import Refresh
from headrace.model.errors import EvaluationError, UnsupportedSql
from headrace.model.full_query import FullQuery
from headrace.model.plan import PlanOptions
from headrace.model.relation import fields_of, scans_of
from headrace.plan.make import plan_views
from headrace.plan.recompute import make_recomputed_block
from headrace.run.load.load_work import LoadItem
from headrace.run.logs.upkeep import Upkeep
from headrace.run.program import RecomputeStep, Task
from headrace.run.push.engine import Engine, NoAnswer
from headrace.run.push.evaluate_here import evaluate_here
from headrace.run.push.perform import needs_session
from headrace.run.push.work import Files
from headrace.testing import SCHEMA, changes, queries, tables
from headrace.testing.worlds import START, RunningWorld, quick_folder
from tests.examples import examples
from tests.plan.written import catalogue, contract, mesh, site
from tests.run.deaths import live_through_deaths
from tests.run.test_crashes import VIEWS
from tests.run.test_engine import ANY_SIZE, MINUTE, SITES, SOURCES, TIMED, check


def world_in_full(texts: list[str], targets: list[str], folder: Path, start: int = START) -> RunningWorld:
    """Each view recomputed for a contract at each target."""
    meanings = {f"v{number}": read_query(text, SOURCES) for number, text in enumerate(texts)}
    contracts = [
        replace(contract(f"c_{name}_{target}", name, target, 60), refresh=Refresh.FULL)
        for name in meanings
        for target in targets
    ]
    project = catalogue([site(name) for name in SITES], mesh(SITES), SOURCES.values(), contracts)
    views = {name: (make_recomputed_block(name, in_full(query), project),) for name, query in meanings.items()}
    plan = plan_views(project, views, PlanOptions())
    assert not plan.rejected
    return RunningWorld(plan, meanings, folder, start=start)


def in_full(query):
    reads = tuple(sorted({scan.source for scan in scans_of(query)}))
    return FullQuery(f"SELECT {hash(query)}", reads, fields_of(query), query)


def run(data: st.DataObject, world: RunningWorld, batches: int, step: st.SearchStrategy[int]) -> None:
    world.capture(data.draw(tables(max_rows=4)))
    world.engine.load()
    assert world.wrong() == []
    vertices = sorted(world.program.tasks)
    for _ in range(batches):
        for _ in range(data.draw(st.integers(1, 3))):
            world.capture(data.draw(changes(world.history[world.now])), data.draw(step))
        chosen = data.draw(st.lists(st.sampled_from(vertices), max_size=4))
        upto = min(data.draw(st.sampled_from(sorted(world.history))), world.engine.watermark(chosen))
        if data.draw(st.booleans()):
            check(world.engine.push(chosen, upto))
        else:
            check(world.engine.push_chains(dict.fromkeys(world.engine.upstream(chosen), upto)))
        assert world.wrong() == []
        upkeep = Upkeep(world.engine, keep=0)
        while upkeep.step():
            pass
        upkeep.trim(world.now)
        assert world.wrong() == []
    check(world.engine.push_chains(dict.fromkeys(vertices, world.now)))
    assert world.wrong() == []


@settings(ANY_SIZE, max_examples=examples(20))
@given(st.data(), queries(SCHEMA), st.lists(st.sampled_from(SITES), min_size=1, max_size=2, unique=True))
def test_views_equal_their_queries_whatever_is_pushed_when(data, text, targets):
    try:
        with quick_folder() as folder:
            run(data, world_in_full([text], targets, Path(folder)), 3, st.just(10))
    except (EvaluationError, UnsupportedSql, NoAnswer):
        reject()


@pytest.mark.parametrize("text", TIMED)
@settings(ANY_SIZE, max_examples=2)
@given(data=st.data())
def test_rows_come_and_go_as_time_passes_also_without_a_change(text, data):
    with quick_folder() as folder:
        world = world_in_full([text], ["m2"], Path(folder))
        run(data, world, 2, st.sampled_from((1, MINUTE, 300 * MINUTE)))
        world.pass_time(400 * 24 * 60 * MINUTE)
        check(world.engine.push(list(world.program.tasks), world.now))
        assert world.wrong() == []


@settings(ANY_SIZE, max_examples=8)
@given(data=st.data())
def test_a_death_between_evaluation_and_commit_leaves_nothing_half(data):
    with quick_folder() as folder:
        live_through_deaths(data, world_in_full(VIEWS, ["m2", "m3"], Path(folder)))


def test_a_push_without_a_change_evaluates_nothing(tmp_path: Path):
    world = world_in_full(VIEWS[:1], ["m2"], tmp_path)
    world.capture({"r": EMPTY})
    world.engine.load()
    world.capture({})
    recomputed = {name for name, task in world.program.tasks.items() if isinstance(task.step, RecomputeStep)}
    pushed = {one.vertex: one for one in world.engine.push(list(world.program.tasks), world.now)}
    assert {(pushed[name].t, pushed[name].rows_in) for name in recomputed} == {(world.now, 0)}


def test_a_row_without_an_answer_is_named_with_the_expression_until_it_is_gone(tmp_path: Path):
    world = world_in_full(["SELECT label, 100 / (k - 25) AS ratio FROM s"], ["m2"], tmp_path)
    good, bad = (((k, None, None, "a", None),) for k in (1, 25))
    world.capture({"s": ZSet.of(good)})
    world.engine.load()
    world.capture({"s": ZSet.of(bad)})
    failed = [one for one in world.engine.push(list(world.program.tasks), world.now) if one.error and one.t]
    assert str(failed[0].error).startswith("100 / (k - 25): division by zero, in a row of s with k = 25")
    assert not any(one.halted for one in failed), "the next push reads what is there then"
    world.capture({"s": -ZSet.of(bad)})
    check(world.engine.push(list(world.program.tasks), world.now))
    assert world.wrong() == []


def test_what_hands_a_recomputed_view_on_never_stops_between_its_pushes(tmp_path: Path):
    """In between it would claim to be as of then, and hold what the view held before."""
    world = world_in_full(VIEWS[:1], ["m2", "m3"], tmp_path)
    world.capture({})
    world.engine.load()
    early = world.capture({})
    late = world.capture({})
    made = next(name for name, task in world.program.tasks.items() if isinstance(task.step, RecomputeStep))
    check(world.engine.push([made], late))
    for view in (one.vertex for one in world.plan.contracts):
        check(world.engine.push([view], early))
        assert world.engine.ledger.times()[view] == late


def test_without_spark_only_what_needs_it_is_not_pushed(tmp_path: Path):
    world = world_in_full(VIEWS[:1], ["m2"], tmp_path)
    world.capture({})
    world.engine.load()
    world.capture({"r": ZSet([((1, 1, 1, 1.0, None, "a", None, None, True), 1)])})
    tasks = {name: as_text(task) for name, task in world.program.tasks.items()}
    engine = Engine(replace(world.program, tasks=tasks), world.ledger, world.store, world.engine.runner, world.lease)
    pushed = {one.vertex: one for one in engine.push_chains(dict.fromkeys(tasks, world.now))}
    failed = {name for name, one in pushed.items() if one.error is not None}
    assert failed == {name for name, task in tasks.items() if isinstance(task.step, RecomputeStep) or task.follows}
    assert "only Spark can evaluate this query" in str([pushed[name].error for name in sorted(failed)])
    check(world.engine.push_chains(dict.fromkeys(tasks, world.now)))
    assert world.wrong() == []


def test_a_copy_of_a_view_that_runs_is_loaded_where_the_view_can_be_evaluated(tmp_path: Path):
    """The changes that it is a copy of keep no contents: these are evaluated once more."""
    world = world_in_full(VIEWS[:1], ["m2", "m3"], tmp_path)
    program = replace(world.program, tasks={name: as_text(task) for name, task in world.program.tasks.items()})
    made = next(name for name, task in program.tasks.items() if isinstance(task.step, RecomputeStep))
    copied = tuple(
        name for name, task in program.tasks.items() if task.follows and task.site != program.tasks[made].site
    )
    relations = {name: Files("m1") for name, spec in program.logs.items() if spec.has_contents and name not in copied}
    assert copied
    assert needs_session(LoadItem(program, copied, world.now, world.store, relations))
    sources = tuple(name for name in program.tasks if made not in world.engine.upstream([name]))
    assert not needs_session(LoadItem(program, sources, world.now, world.store, relations))


def as_text(task: Task) -> Task:
    """As if nobody understood its query."""
    if not isinstance(task.step, RecomputeStep):
        return task
    return replace(task, step=replace(task.step, recomputed=replace(task.step.recomputed, query=None)))


def test_a_query_that_only_spark_can_evaluate_fails_in_words_without_it():
    with pytest.raises(RuntimeError, match="only Spark"):
        evaluate_here(FullQuery("SELECT 1", (), ()), {}, 0, ())
