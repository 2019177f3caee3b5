"""Pushes beside others: which are set aside, and that views are right whatever happens while one is under way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.errors import Conflict
from headrace.run.logs.upkeep import Upkeep
from headrace.run.program import LookupKey
from headrace.run.push.in_work import InWork
from headrace.run.push.push import Pushed
from headrace.run.push.work import WorkItem
from headrace.run.schedule.beside import set_aside
from headrace.run.schedule.next_job import next_job
from headrace.run.schedule.next_push import Due, Paths, Promised, Scene
from headrace.run.schedule.next_round import RoundPush
from headrace.testing import changes, tables
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.examples import examples
from tests.run.push.test_evaluate_here import world_in_full
from tests.run.test_crashes import VIEWS
from tests.run.test_engine import ANY_SIZE, check, world_of

PATHS = Paths(
    {"a": (), "b": (), "slow": ("a", "b"), "copy": ("slow",), "quick": ("a",)},
    (Promised("slowly", "copy", 60), Promised("there", "slow", 60), Promised("quickly", "quick", 5)),
)


def scene(**times: int) -> Scene:
    return Scene(
        1000, {"a": 10, "b": 10, "slow": 10, "copy": 10, "quick": 10, **times}, {"a": 90, "b": 90}, lambda *_: 1
    )


def due(contract: str, target: int) -> Due:
    vertex = next(one.vertex for one in PATHS.contracts if one.contract == contract)
    return Due(contract, vertex, target, deadline=2000, late=False)


def test_rounds_bring_up_what_a_slow_vertex_reads_before_it_begins():
    aside = set_aside(PATHS, scene(a=50), [due("slowly", 50), due("quickly", 50)], {"slow"}, ())
    assert aside.begin == ()
    assert {one.contract for one in aside.due} == {"slowly", "quickly"}
    assert set(aside.paths.upstream["slowly"]) == {"a", "b"}
    assert aside.paths.upstream["quickly"] == ("a", "quick")


def test_a_round_hands_a_slow_vertex_on_as_far_as_that_is_although_more_is_captured():
    there = scene(a=50, b=50, slow=50)
    aside = set_aside(PATHS, there, [replace(due("slowly", 50), late=True)], {"slow"}, ())
    assert aside.begin == ()
    job = next_job(aside.paths, there, aside.due, 0.2)
    assert job is not None and job.targets == {"copy": 50}


def test_it_begins_once_its_inputs_are_there_and_rounds_go_on_without_it():
    dues = [due("slowly", 50), due("quickly", 50), due("there", 40)]
    aside = set_aside(PATHS, scene(a=70, b=60), dues, {"slow"}, ())
    assert aside.begin == (RoundPush("slow", 50, "slowly"),), "at the largest time that somebody asks for, not further"
    assert [one.contract for one in aside.due] == ["quickly"]
    running = set_aside(PATHS, scene(a=70, b=60), dues, {"slow"}, {"slow"})
    assert running.begin == ()
    assert [one.contract for one in running.due] == ["quickly"]


def test_what_is_made_of_it_is_pushed_by_rounds_once_it_is_there():
    aside = set_aside(PATHS, scene(a=90, b=90, slow=50), [due("slowly", 50)], {"slow"}, {"slow"})
    assert [one.contract for one in aside.due] == ["slowly"], "although it is pushed further meanwhile"
    assert set(aside.paths.upstream["slowly"]) == {"a", "b", "slow", "copy"}


def test_rounds_bring_up_what_one_transfer_reads_while_another_is_on_its_way():
    paths = Paths(
        {"a": (), "b": (), "from_a": ("a",), "from_b": ("b",), "both": ("from_a", "from_b")},
        (Promised("joined", "both", 60),),
    )
    times = {"a": 50, "b": 10, "from_a": 10, "from_b": 10, "both": 10}
    there = Scene(1000, times, {"a": 90, "b": 90}, lambda *_: 1)
    wanted = [Due("joined", "both", 50, deadline=2000, late=False)]
    first = set_aside(paths, there, wanted, {"from_a", "from_b"}, ())
    assert first.begin == (RoundPush("from_a", 50, "joined"),)
    assert set(first.paths.upstream["joined"]) == {"a", "b"}, "rounds bring up b"
    second = set_aside(paths, replace(there, times={**times, "b": 50}), wanted, {"from_a", "from_b"}, {"from_a"})
    assert second.begin == (RoundPush("from_b", 50, "joined"),)
    assert second.due == (), "there is nothing for rounds until both are there"


def begin_any(world: RunningWorld, t: int) -> WorkItem | None:
    """The push of a vertex that goes beside the others, prepared; what it reads is there."""
    for name in sorted(world.engine.apart()):
        check(world.engine.push(list(world.program.tasks[name].reads), t))
        item = world.engine.begin(name, t)
        if not isinstance(item, Pushed):
            return item
    return None


@settings(ANY_SIZE, max_examples=examples(8))
@given(st.data())
def test_views_are_right_whatever_is_done_while_one_is_computed(data):
    with quick_folder() as folder:
        do_something_meanwhile(data, world_in_full(VIEWS[:2], ["m2", "m3"], Path(folder)))


@settings(ANY_SIZE, max_examples=examples(8))
@given(st.data())
def test_views_are_right_whatever_is_done_while_changes_are_on_their_way(data):
    with quick_folder() as folder:
        world = world_of(VIEWS[:2], "m2", Path(folder))
        world.engine.links_take_time = True
        assert world.engine.apart(), "something comes from another site"
        do_something_meanwhile(data, world)


def do_something_meanwhile(data: st.DataObject, world: RunningWorld) -> None:
    world.capture(data.draw(tables(max_rows=4)))
    world.engine.load()
    in_work = InWork()
    for _ in range(3):
        world.capture(data.draw(changes(world.history[world.now])))
        item = begin_any(world, world.now)
        if item is None:
            continue
        world.engine.in_work = in_work
        with in_work.holding(item):
            do_something(data, world)
            outcome = in_work.run(world.engine.runner, item)
            assert outcome.error is None, outcome.error
            do_something(data, world)
            if world.engine.wants(item):
                try:
                    world.engine.finish(item, outcome)
                except Conflict:
                    assert world.ledger.times()[item.name] != item.after
        assert world.wrong() == []
    check(world.engine.push(list(world.program.tasks), world.now))
    assert world.wrong() == []


def do_something(data: st.DataObject, world: RunningWorld) -> None:
    """What others do meanwhile: capture, push, forget and load anew, merge, trim, delete what nobody names."""
    for _ in range(data.draw(st.integers(0, 2))):
        world.capture(data.draw(changes(world.history[world.now])))
    if data.draw(st.booleans()):
        check(
            world.engine.push(data.draw(st.lists(st.sampled_from(sorted(world.program.tasks)), max_size=3)), world.now)
        )
    if data.draw(st.integers(0, 4)) == 0:
        world.engine.forget(world.engine.apart())
        world.engine.load()
    upkeep = Upkeep(world.engine, keep=0, gather_files=2)
    while upkeep.step():
        pass
    upkeep.trim(world.now)
    upkeep.sweep(1e9, grace=0.0)


def test_what_is_made_for_other_keys_than_are_looked_up_now_is_not_wanted(tmp_path: Path):
    world = world_in_full(VIEWS[:1], ["m2"], tmp_path)
    world.capture({})
    world.engine.load()
    world.capture({"r": world.history[world.now]["r"]})
    check(world.engine.push([name for name in world.program.tasks if name not in world.engine.apart()], world.now))
    (name,) = world.engine.apart()
    item = world.engine._work(name, world.now, world.ledger.logs(world.engine._find_involved([name])))
    assert world.engine.wants(item)
    spec = world.program.logs[name]
    keyed = replace(spec, keys=(LookupKey((spec.columns[0].name,)),))
    world.engine.program = replace(world.program, logs={**world.program.logs, name: keyed})
    assert not world.engine.wants(item)
