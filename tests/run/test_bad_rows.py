"""Rows for which a view has no answer come and go: a view equals its query, or is halted with its last good rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.meaning.zset import ZSet
from headrace.model.errors import EvaluationError
from headrace.model.log import NEVER
from headrace.model.types import Row, Value
from headrace.run.compile.columns import serving_log, view_outputs
from headrace.run.logs.upkeep import Upkeep
from headrace.run.push.engine import Engine, NoAnswer, NotThereYet
from headrace.run.push.halted import read_halted, waiting_for
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.views.view import changes_after
from headrace.testing import changes, tables
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.examples import examples
from tests.run.deaths import Killed, MortalLedger
from tests.run.test_engine import ANY_SIZE, SITES, SOURCES, world_of

VIEWS = {
    "projection": "SELECT r.id, 1 / r.k AS share FROM r",
    "plain neighbour": "SELECT r.id, r.k FROM r",
    "filter": "SELECT r.id, r.name FROM r WHERE 10 / r.k > 3",
    "cast": "SELECT r.id, CAST(r.name AS INT) AS number FROM r WHERE r.name = 'a' OR r.name = 'b'",
    "join": "SELECT r.id, s.label, r.n / s.k AS ratio FROM r JOIN s ON r.k = s.k",
    "join on what is computed": "SELECT r.id, t.name FROM r JOIN t ON 6 / r.k = t.x",
    "join with a condition": "SELECT r.id, s.n FROM r JOIN s ON r.k = s.k AND 1 / s.n < r.n",
    "aggregate": "SELECT r.name, sum(1 / r.k) AS total, count(*) AS c FROM r GROUP BY r.name",
    "having": "SELECT r.name, count(*) AS c FROM r GROUP BY r.name HAVING 1 / sum(r.k) > 0",
    "largest": "SELECT r.name, max(12 / r.k) AS most FROM r GROUP BY r.name",
    "distinct": "SELECT DISTINCT 1 / s.k AS share FROM s",
    "left join": "SELECT r.id, s.label, 1 / s.n AS share FROM r LEFT JOIN s ON r.k = s.k",
    "left join on what is computed": "SELECT r.id, s.label FROM r LEFT JOIN s ON 2 / r.k = s.k",
    "top": "SELECT id, share FROM (SELECT r.id, 1 / r.k AS share, row_number() OVER (PARTITION BY r.name "
    "ORDER BY 1 / r.k, r.id) AS place FROM r) WHERE place <= 2",
    "semi": "SELECT r.id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = 1 / r.k)",
    "union": "SELECT 1 / r.k AS x FROM r UNION ALL SELECT t.x FROM t",
    "view over a view": "SELECT v.share, count(*) AS c FROM (SELECT 1 / s.k AS share, s.label FROM s) v "
    "JOIN t ON t.name = v.label GROUP BY v.share",
}


def mend(world: RunningWorld, engine: Engine) -> None:
    """What the service does beside pushing: loads what is not there, rebuilds what is halted."""
    for planned in world.plan.contracts:
        log = serving_log(world.program, planned)
        with suppress(NoAnswer, NotThereYet):
            if log not in engine.ledger.times():
                engine.load([log])
            elif log in waiting_for(world.program, read_halted(engine.ledger)):
                engine.rebuild(log)


def answer(world: RunningWorld, contract: str, t: int) -> ZSet | None:
    try:
        return world.expected(contract, t)
    except EvaluationError:
        return None


def assert_right(world: RunningWorld) -> None:
    """Every view equals its query as of its time; one that is not up to date says why."""
    times, waiting = world.ledger.times(), waiting_for(world.program, read_halted(world.ledger))
    for planned in world.plan.contracts:
        log = serving_log(world.program, planned)
        if log in times:
            expected = answer(world, planned.contract, times[log])
            actual = ZSet.of(rows_of_arrow(world.rows(planned.contract)))
            if expected is not None:
                assert actual == expected, f"{planned.view} at {times[log]}, halted: {log in waiting}"


def assert_up_to_date(world: RunningWorld) -> None:
    """Of every view that has an answer now."""
    times = world.ledger.times()
    for planned in world.plan.contracts:
        expected = answer(world, planned.contract, world.now)
        if expected is not None:
            log = serving_log(world.program, planned)
            assert times.get(log, NEVER) == world.now, f"{planned.view}: {read_halted(world.ledger)}"
            assert ZSet.of(rows_of_arrow(world.rows(planned.contract))) == expected, planned.view


def without_bad_rows(world: RunningWorld) -> dict[str, ZSet]:
    """The change after which no query of `VIEWS` meets a bad row."""

    def is_bad(source: str, row: Row) -> bool:
        named = dict(zip([column.name for column in SOURCES[source].columns or ()], row, strict=True))
        texts = ("a", "b", "Ab")
        return named.get("k") in (0, -1) or named.get("n") == 0 or named.get("name") in texts

    return {
        source: ZSet((row, -weight) for row, weight in rows.items() if is_bad(source, row))
        for source, rows in world.history[world.now].items()
    }


def push_some(data: st.DataObject, world: RunningWorld, engine: Engine) -> None:
    there = [name for name in world.program.tasks if name in world.ledger.times()]
    if data.draw(st.booleans()):
        engine.push_chains(dict.fromkeys(there, world.now))
    else:
        engine.push(there, world.now)


def live_with_bad_rows(data: st.DataObject, texts: list[str], target: str, batches: int, mortal: bool) -> None:
    with quick_folder() as folder:
        world = world_of(texts, target, Path(folder))
        world.capture(data.draw(tables(max_rows=3)))
        for _ in range(batches):
            for _ in range(data.draw(st.integers(1, 2))):
                world.capture(data.draw(changes(world.history[world.now])))
            engine = world.engine
            if mortal:
                ledger = MortalLedger(world.ledger, data.draw(st.integers(1, 8)), data.draw(st.booleans()))
                engine = replace(engine, ledger=ledger)
            with suppress(Killed):
                push_some(data, world, engine)
                mend(world, engine)
                upkeep = Upkeep(engine, keep=data.draw(st.sampled_from([0, 10**9])), gather_files=2)
                while upkeep.step():
                    pass
                upkeep.trim(world.now)
            assert_right(world)
        world.capture(without_bad_rows(world))
        world.pass_time(10)
        for _ in range(2):  # what was rebuilt may halt others that read it
            push_some(data, world, world.engine)
            mend(world, world.engine)
        assert_right(world)
        assert_up_to_date(world)
        world.capture(data.draw(tables(max_rows=2)))
        push_some(data, world, world.engine)
        assert_right(world)


ROW = {"id": 7, "k": 1, "n": 1, "x": None, "amount": None, "name": "c", "day": None, "at": None, "ok": None}


def a_row(**values: Value) -> ZSet:
    """One row of r."""
    return ZSet.of([tuple({**ROW, **values}.values())])


def small_world(folder: str, *views: str) -> RunningWorld:
    """Sources have keys, so that rows can be named. One good row of r."""
    world = world_of([VIEWS.get(view, view) for view in views], "m1", Path(folder), keys={"r": ("id",), "s": ("n",)})
    world.capture({"r": a_row(id=1), "s": ZSet.of([(1, 5, None, "five", None)])})
    world.engine.load()
    return world


def push_all(world: RunningWorld) -> None:
    world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now))


def reasons(world: RunningWorld) -> dict[str, str]:
    waiting = world.engine.waiting()
    logs = {planned.contract: serving_log(world.program, planned) for planned in world.plan.contracts}
    return {contract: waiting[log] for contract, log in logs.items() if log in waiting}


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        ("projection", "1 / k: division by zero, in row id = 7 of r"),
        ("filter", "10 / k: division by zero, in row id = 7 of r"),
        (
            "SELECT CAST(name AS INT) AS n FROM r WHERE k = 0",
            "cast(name as int): 'c' cannot be cast to int, in row id = 7 of r",
        ),
        ("aggregate", "1 / k: division by zero, in row id = 7 of r"),
        (
            "SELECT name, 1 / (count(*) - 2) AS x FROM r GROUP BY name",
            "1 / (count - 2): division by zero, in the group with name = 'c'",
        ),
        (
            "SELECT r.name, s.n / r.k AS x FROM r JOIN s ON r.id > s.k",
            "n / k: division by zero, in row id = 7 of r and row n = 5 of s",
        ),
    ],
)
def test_the_reason_names_the_row_and_the_expression(view, reason):
    with quick_folder() as folder:
        world = small_world(folder, view)
        world.capture({"r": a_row(k=0)})
        push_all(world)
        assert list(reasons(world).values()) == [reason]


def test_a_bad_row_halts_its_view_alone_until_the_row_is_gone():
    with quick_folder() as folder:
        world = small_world(folder, "projection", "plain neighbour", "filter")
        before = {name: world.time_of(name) for name in ("c_v0", "c_v1", "c_v2")}
        world.capture({"r": a_row(id=2)})
        world.capture({"r": a_row(k=0)})
        push_all(world)
        assert reasons(world).keys() == {"c_v0", "c_v2"}
        assert world.time_of("c_v1") == world.now and world.time_of("c_v0") == before["c_v0"]
        assert world.wrong() == [], "halted views keep their last good rows"
        mend(world, world.engine)
        assert reasons(world).keys() == {"c_v0", "c_v2"}, "the row is still there"
        world.capture({"r": ZSet.of([]) - a_row(k=0)})
        push_all(world)
        assert world.time_of("c_v0") == before["c_v0"], "a push alone would meet the bad change again"
        mend(world, world.engine)
        assert reasons(world) == {} and world.wrong() == []
        assert {world.time_of(name) for name in before} == {world.now}
        world.capture({"r": a_row(id=3)})
        push_all(world)
        assert reasons(world) == {} and world.wrong() == [] and world.time_of("c_v2") == world.now


def test_changes_of_a_halted_view_go_on_with_one_change_that_leads_past_the_bad_rows():
    with quick_folder() as folder:
        world = small_world(folder, "projection")
        start = world.time_of("c_v0")
        world.capture({"r": a_row(k=0)})
        push_all(world)
        world.capture({"r": ZSet.of([]) - a_row(k=0) + a_row(id=2)})
        mend(world, world.engine)
        planned = world.plan.contracts[0]
        name, outputs = serving_log(world.program, planned), view_outputs(world.plan, world.program, planned)
        log, columns = world.ledger.logs([name])[name], world.program.logs[name].columns
        found = [
            (t, rows_of_arrow(gone), rows_of_arrow(come))
            for t, gone, come in changes_after(world.store, log, columns, outputs, start, log.t)
        ]
        assert found == [(world.now, [], [(2, 1.0)])]


@pytest.mark.parametrize("name", VIEWS)
@settings(ANY_SIZE, max_examples=examples(4))
@given(data=st.data(), target=st.sampled_from(SITES))
def test_a_view_with_bad_rows_keeps_its_last_good_rows_and_goes_on_by_itself(name, data, target):
    live_with_bad_rows(data, [VIEWS[name]], target, batches=4, mortal=False)


@settings(ANY_SIZE, max_examples=examples(12))
@given(st.data(), st.lists(st.sampled_from(list(VIEWS.values())), min_size=2, max_size=4), st.sampled_from(SITES))
def test_bad_rows_halt_nobody_for_good_whatever_dies_when(data, texts, target):
    live_with_bad_rows(data, texts, target, batches=5, mortal=True)


@pytest.mark.long
@settings(ANY_SIZE, max_examples=1_500)
@given(st.data(), st.lists(st.sampled_from(list(VIEWS.values())), min_size=1, max_size=4), st.sampled_from(SITES))
def test_bad_rows_halt_nobody_for_good_in_many_histories(data, texts, target):
    live_with_bad_rows(data, texts, target, batches=6, mortal=data.draw(st.booleans()))
