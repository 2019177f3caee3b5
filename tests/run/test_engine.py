"""Whatever is declared, captured and pushed, and in whatever batches: each view equals its query."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.scalar_time import micros
from headrace.meaning.zset import EMPTY, ZSet
from headrace.model.errors import EvaluationError, UnsupportedSql
from headrace.model.plan import PlanOptions
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import plan_views
from headrace.run.program import JoinStep
from headrace.run.push.engine import NoAnswer
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.testing import SCHEMA, changes, queries, tables
from headrace.testing.worlds import START, RunningWorld, quick_folder
from tests.examples import examples
from tests.plan.written import catalogue, contract, mesh, site

SITES = ("m1", "m2", "m3")
SOURCES = {
    name: replace(source, site=SITES[number % len(SITES)], rows=20.0, rate=0.1)
    for number, (name, source) in enumerate(SCHEMA.items())
}


def world_of(
    texts: list[str],
    target: str,
    folder: Path,
    start: int = START,
    keys: Mapping[str, tuple[str, ...]] | None = None,
    options: PlanOptions | None = None,
) -> RunningWorld:
    views, meanings = {}, {}
    sources = {name: replace(source, key=(keys or {}).get(name, ())) for name, source in SOURCES.items()}
    for number, sql in enumerate(texts):
        try:
            meanings[f"v{number}"] = read_query(sql, sources)
            views[f"v{number}"] = blocks_of(f"v{number}", meanings[f"v{number}"])
        except UnsupportedSql:
            continue
    contracts = [contract(f"c_{name}", name, target, 60) for name in views]
    project = catalogue([site(name) for name in SITES], mesh(SITES), sources.values(), contracts)
    plan = plan_views(project, views, options or PlanOptions())
    return RunningWorld(plan, meanings, folder, start=start)


def run(data: st.DataObject, texts: list[str], target: str, batches: int) -> None:
    with quick_folder() as folder:
        world = world_of(texts, target, Path(folder))
        world.capture(data.draw(tables(max_rows=4)))
        world.engine.load()
        assert world.wrong() == []
        vertices = sorted(world.program.tasks)
        for _ in range(batches):
            for _ in range(data.draw(st.integers(1, 3))):
                world.capture(data.draw(changes(world.history[world.now])))
            chosen = data.draw(st.lists(st.sampled_from(vertices), max_size=4)) if vertices else []
            cut = data.draw(st.sampled_from(sorted(world.history)))
            upto = min(cut, world.engine.watermark(chosen))
            if data.draw(st.booleans()):
                check(world.engine.push(chosen, upto))
            else:
                check(world.engine.push_chains(dict.fromkeys(world.engine.upstream(chosen), upto)))
            assert world.wrong() == []
            if data.draw(st.booleans()):
                world.engine.move_idle(world.engine.apart())
                assert world.wrong() == []
        check(world.engine.push_chains(dict.fromkeys(vertices, world.now)))
        assert world.wrong() == []


def run_unless_it_fails(data: st.DataObject, texts: list[str], target: str, batches: int) -> None:
    """A query that fails on its data has no answer to keep."""
    try:
        run(data, texts, target, batches)
    except (EvaluationError, NoAnswer):
        reject()


def check(pushed):
    """Queries that fail on their data have no answer."""
    for one in pushed:
        if one.halted or one.has_no_answer:
            reject()
        assert one.error is None, one.error


ANY_SIZE = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink a whole engine takes too long
)


@settings(ANY_SIZE, max_examples=examples(25))
@given(st.data(), st.lists(queries(SCHEMA), min_size=1, max_size=2), st.sampled_from(SITES))
def test_views_equal_their_queries_whatever_is_pushed_when(data, texts, target):
    run_unless_it_fails(data, texts, target, batches=2)


WRITTEN = ("SELECT t1.s, t2.i FROM t1 JOIN t2 ON t1.i = t2.i",)


@pytest.mark.long
@settings(ANY_SIZE, max_examples=2_000)
@given(st.data(), st.lists(queries(SCHEMA), min_size=1, max_size=3), st.sampled_from(SITES))
def test_views_equal_their_queries_in_many_histories(data, texts, target):
    run_unless_it_fails(data, texts, target, batches=4)


TIMED = [
    "SELECT r.id, r.at FROM r WHERE r.at > now() - INTERVAL '2' HOURS",
    "SELECT r.k, count(*) AS c FROM r WHERE r.at >= now() - INTERVAL '90' MINUTES AND r.at < now() GROUP BY r.k",
    "SELECT r.id, s.label FROM r JOIN s ON r.k = s.k WHERE r.at > now() - INTERVAL '1' DAY AND s.at <= now()",
    "SELECT s.k, max(s.at) AS m FROM s GROUP BY s.k HAVING max(s.at) > now() - INTERVAL '3' HOURS",
    "SELECT r.id FROM r WHERE r.day >= current_date() - INTERVAL '1' DAY",
    "SELECT r.id, t.name FROM r LEFT JOIN t ON r.k = t.k WHERE r.at > now() - INTERVAL '1' MONTH",
    "SELECT id FROM r WHERE at > now() - INTERVAL '2' HOURS OR day = current_date OR ok",
    "SELECT id, CASE WHEN at > now() - INTERVAL '1' HOUR THEN 'fresh' ELSE 'old' END AS age FROM r",
    "SELECT k, datediff(current_date, day) AS age, count(*) AS n FROM r GROUP BY k, datediff(current_date, day)",
    "SELECT id, date_trunc('hour', now()) AS h FROM r WHERE month(day) = month(now())",
]
MINUTE = 60_000_000


@pytest.mark.parametrize("text", TIMED)
@settings(ANY_SIZE, max_examples=4)
@given(data=st.data())
def test_rows_come_and_go_as_time_passes(text, data):
    with quick_folder() as folder:
        world = world_of([text], "m1", Path(folder), micros(dt.datetime(2024, 2, 29, 11, 50)))
        assert world.plan.contracts, world.plan.rejected
        world.capture(data.draw(tables(max_rows=6)))
        world.engine.load()
        assert world.wrong() == []
        for _ in range(6):
            world.capture(data.draw(changes(world.history[world.now])), data.draw(st.integers(1, 40)) * MINUTE)
            world.pass_time(data.draw(st.sampled_from((1, MINUTE, 45 * MINUTE, 300 * MINUTE, 30 * 24 * 60 * MINUTE))))
            target = data.draw(st.sampled_from([t for t in world.history if t > world.start]))
            if data.draw(st.booleans()):
                check(world.engine.push(list(world.program.tasks), target))
            else:
                check(world.engine.push_chains(dict.fromkeys(world.program.tasks, target)))
            assert world.wrong() == []
            world.engine.move_idle(())
            assert world.wrong() == []


AGGREGATED = [
    "SELECT k, array_agg(id ORDER BY at DESC, id) AS ids, collect_set(name) AS names FROM r GROUP BY k",
    "SELECT k, string_agg(name, '/' ORDER BY at) AS names, median(n) AS middle, max_by(id, amount) AS latest,"
    " mode(day) AS day, stddev(n) AS spread, corr(n, id) AS together, bool_and(ok) AS all_ok FROM r GROUP BY k",
    "SELECT k, name, count(*) AS n, sum(amount) AS amount, grouping_id() AS level FROM r GROUP BY CUBE (k, name)",
    "SELECT k, array_agg(id ORDER BY n DESC, id) FILTER (WHERE ok) AS ids FROM r GROUP BY k",
    "SELECT count(DISTINCT k, name) AS pairs, array_agg(day) RESPECT NULLS AS days, bit_xor(n) AS bits FROM r",
]


@pytest.mark.parametrize("text", AGGREGATED)
@settings(ANY_SIZE, max_examples=5)
@given(data=st.data())
def test_aggregates_of_every_kind_equal_their_queries(text, data):
    run_unless_it_fails(data, [text], "m2", batches=3)


WINDOWED = [
    "SELECT k, session_window.start AS a, session_window.end AS b, count(*) AS c, max(id) AS d FROM r"
    " GROUP BY k, session_window(at, '2 hours')",
    "SELECT session_window.start AS a, count(*) AS c FROM s GROUP BY session_window(at, '1 day')",
    "SELECT id, window_start, window_end FROM SESSION(TABLE r PARTITION BY k, DESCRIPTOR(at), INTERVAL '12' HOURS)",
    "SELECT id, k, window_start, window_end, window_time FROM TUMBLE(TABLE r, DESCRIPTOR(at), INTERVAL '20' MINUTES)",
    "SELECT w.id, s.label, w.window_end FROM HOP(r, at, INTERVAL '1 hour', INTERVAL '3 hours') AS w"
    " LEFT JOIN s ON s.k = w.k AND s.at >= w.window_start",
    "SELECT a.id, b.label FROM TUMBLE(r, at, INTERVAL '6 hours') AS a"
    " JOIN TUMBLE(s, at, INTERVAL '6 hours') AS b ON a.k = b.k AND a.window_start = b.window_start",
    "SELECT count(*) AS n, max(window_start) AS last FROM HOP(r, at, INTERVAL '1 hour', INTERVAL '2 hours')",
]


@pytest.mark.parametrize("text", WINDOWED)
@settings(ANY_SIZE, max_examples=5)
@given(data=st.data())
def test_windows_in_time_equal_their_queries(text, data):
    run_unless_it_fails(data, [text], "m2", batches=3)


NEAR = [
    "SELECT r.id, s.label FROM r JOIN s ON r.at BETWEEN s.at - INTERVAL 1 HOUR AND s.at + INTERVAL 30 MINUTES",
    "SELECT r.id, s.label FROM r JOIN s ON s.at - r.at < INTERVAL 1 DAY AND s.at >= r.at",
    "SELECT r.id, t.x FROM r JOIN t ON t.day BETWEEN r.day - 1 AND r.day",
    "SELECT r.id, s.label FROM r JOIN s ON r.at = s.at + INTERVAL 0 HOURS",
    "SELECT r.id, s.label FROM r JOIN s ON date_trunc('hour', r.at) = date_trunc('hour', s.at)"
    " AND lower(r.name) = s.label",
    "SELECT a.id, b.id AS other, t.x FROM r a JOIN r b ON a.at > b.at - INTERVAL 3 HOURS AND a.at <= b.at"
    " JOIN t ON upper(t.name) = upper(a.name)",
    "SELECT r.id, s.label FROM r JOIN s ON r.n BETWEEN s.k AND s.n",
]
"""All but the last have a key by which a change finds what it meets."""


@pytest.mark.parametrize("text", NEAR)
@settings(ANY_SIZE, max_examples=6)
@given(data=st.data())
def test_joins_without_equal_columns_equal_their_queries(text, data):
    run_unless_it_fails(data, [text], "m2", batches=3)


@pytest.mark.parametrize("text", NEAR)
def test_rows_are_looked_up_by_computed_values_and_by_stretches_of_time(text: str, tmp_path: Path):
    steps = [task.step for task in world_of([text], "m2", tmp_path).program.tasks.values()]
    found = [bool(step.on or step.equal or step.near) for step in steps if isinstance(step, JoinStep)]
    assert found and set(found) == {text != NEAR[-1]}


@dataclass
class CountingRunner:
    """Runs items here, and counts them."""

    items: int = 0

    def run(self, items):
        self.items += len(items)
        return HereRunner(perform).run(items)


def load_two_views(folder: Path) -> RunningWorld:
    """Each reads a table that the other does not."""
    first, second = list(SCHEMA)[:2]
    world = world_of([f"SELECT * FROM {first}", f"SELECT * FROM {second}"], "m3", folder)
    assert len(world.plan.contracts) == 2
    world.capture({})
    world.engine.load()
    return world


def count_items(world: RunningWorld) -> CountingRunner:
    """Counts items from now on."""
    world.runner = counting = CountingRunner()
    world.open()
    return counting


def test_where_nothing_happened_a_push_moves_times_and_runs_nothing(tmp_path: Path):
    world = load_two_views(tmp_path)
    counting = count_items(world)
    world.capture({})
    pushed = world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now))
    assert counting.items == 0
    assert {one.vertex for one in pushed} == set(world.program.tasks)
    assert {world.time_of(one.contract) for one in world.plan.contracts} == {world.now}


@settings(ANY_SIZE, max_examples=10)
@given(data=st.data())
def test_a_push_runs_only_what_changes_come_to(data):
    with quick_folder() as folder:
        world, first = load_two_views(Path(folder)), next(iter(SCHEMA))
        changed = {first: data.draw(changes(world.history[world.now])).get(first, EMPTY)}
        world.capture(changed)
        fed = set(world.engine.upstream([one.vertex for one in world.plan.contracts if one.view == "v0"]))
        pushed = world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now))
        check(pushed)
        assert {one.vertex for one in pushed if one.seconds} == (fed if changed[first] else set())
        assert world.wrong() == []


def test_what_has_nothing_to_do_goes_as_far_as_is_captured_and_all_else_stays(tmp_path: Path):
    world, first = load_two_views(tmp_path), next(iter(SCHEMA))
    counting, before = count_items(world), world.now
    world.capture({first: ZSet([(tuple(None for _ in SOURCES[first].columns or ()), 1)])})
    world.engine.move_idle(())
    assert counting.items == 0
    assert [world.time_of(one.contract) for one in world.plan.contracts] == [before, world.now]
    assert world.wrong() == []


def test_a_chain_that_lacks_an_input_is_refused_instead_of_going_past_it(tmp_path: Path):
    world = world_of([f"SELECT * FROM {next(iter(SCHEMA))}"], "m3", tmp_path)
    world.capture({})
    world.engine.load()
    world.capture({})
    vertex = next(name for name, task in world.program.tasks.items() if set(task.reads) & set(world.program.tasks))
    pushed = {one.vertex: one for one in world.engine.push_chains({vertex: world.now})}
    assert "is not there yet" in (pushed[vertex].error or "")
    assert world.engine.ledger.times()[vertex] < world.now
    check(world.engine.push_chains(dict.fromkeys(world.engine.upstream([vertex]), world.now)))
    assert world.wrong() == []
