"""Sites that run apart, each with a ledger of its own: views are right whatever is sent, lost or sent again."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from headrace.meaning.scalar_time import micros
from headrace.model.errors import Conflict, EvaluationError
from headrace.model.log import Commit, Edit, Log, Piece, PieceKind
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.logs.upkeep import Upkeep
from headrace.run.push.engine import NoAnswer, NotThereYet
from headrace.run.push.exports import SEGMENT_BYTES, ChangesGone, NotForReader, choose_end
from headrace.run.push.imports import commit_segment
from headrace.testing import SCHEMA, changes, queries, tables
from headrace.testing.worlds import START, quick_folder
from tests.examples import examples
from tests.run.sites_world import SitesWorld
from tests.run.test_crashes import VIEWS
from tests.run.test_engine import ANY_SIZE, MINUTE, SITES, TIMED, world_of


def apart(texts: list[str], target: str, folder: Path, start: int = START) -> SitesWorld:
    whole = world_of(texts, target, folder, start)
    return SitesWorld(whole.plan, whole.queries, folder, start)


def test_the_parts_of_all_sites_are_the_whole_program(tmp_path: Path):
    world = apart(VIEWS, "m2", tmp_path)
    whole = compile_plan(world.plan)
    parts = {site: one.program for site, one in world.worlds.items()}
    made = [name for part in parts.values() for name in part.tasks]
    brought = [name for part in parts.values() for name in part.imports]
    assert sorted([*made, *brought]) == sorted(whole.tasks)
    assert brought, "something crosses from one site to another"
    for site, part in parts.items():
        assert all(spec.site == site for spec in part.logs.values())
        for copy in part.imports.values():
            assert parts[copy.origin].exports[copy.name] == copy
        for task in part.tasks.values():
            assert all(read in part.logs or read.startswith("spool:") for read in task.reads)


def test_changes_are_sent_in_parts_that_end_where_a_commit_does():
    pieces = [Piece(PieceKind.CHANGE, f"{t}", t - 10, t, 1, size) for t, size in ((10, 9), (20, 5), (30, 5), (40, 1))]
    log = Log("r", "us", t=50, start=0, pieces=tuple(pieces))
    assert [choose_end([log], after, 50, 10) for after in (0, 10, 20, 30, 40)] == [10, 30, 50, 50, 50]
    assert choose_end([log], 0, 50, 1) == 10, "one piece, however large it is"
    assert choose_end([log, log], 10, 25, 10) == 20, "all that changed by one commit"


def live(data: st.DataObject, world: SitesWorld, batches: int) -> None:
    world.capture(data.draw(tables(max_rows=4)))
    world.load()
    assert world.wrong() == []
    for _ in range(batches):
        for _ in range(data.draw(st.integers(1, 3))):
            world.capture(data.draw(changes(world.history[world.now])))
        for _ in range(data.draw(st.integers(0, 6))):
            happen(data, world)
            assert world.wrong() == []
    world.start_lost_anew()
    for site, one in world.worlds.items():
        assert world.push(site, list(one.program.tasks), world.now) == []
    assert world.wrong() == []
    assert all(
        one.time_of(planned.contract) == world.now for one in world.worlds.values() for planned in one.plan.contracts
    )


def happen(data: st.DataObject, world: SitesWorld) -> None:
    site = data.draw(st.sampled_from(sorted(world.worlds)))
    one = world.worlds[site]
    match data.draw(st.sampled_from(["push", "bring", "restart", "upkeep", "start anew"])):
        case "push" if one.program.tasks:
            chosen = data.draw(st.lists(st.sampled_from(sorted(one.program.tasks)), min_size=1, max_size=3))
            times = one.ledger.times()
            t = min([one.engine.watermark(chosen), *(times[name] for name in one.program.imports_of(chosen))])
            for pushed in one.engine.push(chosen, t):
                if pushed.halted or pushed.has_no_answer:
                    reject()
                assert pushed.error is None, pushed.error
        case "bring" if one.program.imports:
            copy = data.draw(st.sampled_from(sorted(one.program.imports)))
            try:
                segment = world.read_segment(site, copy, data.draw(st.sampled_from([1, SEGMENT_BYTES])))
            except ChangesGone:
                world.start_lost_anew()
                return
            for _ in range(data.draw(st.integers(0, 2))):  # lost on its way, or sent twice
                try:
                    commit_segment(one.engine, copy, segment)
                except Conflict:
                    assert one.ledger.times()[copy] == segment.upto
        case "restart":
            world.open()
        case "upkeep":
            upkeep = Upkeep(one.engine, keep=0, gather_files=2)
            while upkeep.step():
                pass
            upkeep.trim(one.now)
            upkeep.sweep(1e9, grace=0.0)
        case "start anew" if one.program.imports:
            one.engine.forget([data.draw(st.sampled_from(sorted(one.program.imports)))])
            world.start_lost_anew()


@settings(ANY_SIZE, max_examples=examples(12))
@given(st.data())
def test_views_are_right_whatever_happens_at_sites_and_between_them(data):
    with quick_folder() as folder:
        live(data, apart(VIEWS, "m2", Path(folder)), batches=3)


@settings(ANY_SIZE, max_examples=examples(20))
@given(st.data(), st.lists(queries(SCHEMA), min_size=1, max_size=2), st.sampled_from(SITES))
def test_any_views_are_right_where_sites_run_apart(data, texts, target):
    with quick_folder() as folder:
        try:
            live(data, apart(texts, target, Path(folder)), batches=2)
        except (EvaluationError, NoAnswer):
            reject()


@pytest.mark.parametrize("target", ["m1", "m2"])
@pytest.mark.parametrize("text", TIMED)
@settings(ANY_SIZE, max_examples=examples(2))
@given(data=st.data())
def test_rows_come_and_go_as_time_passes_where_sites_run_apart(text, target, data):
    with quick_folder() as folder:
        world = apart([text], target, Path(folder), micros(dt.datetime(2024, 2, 29, 11, 50)))
        world.capture(data.draw(tables(max_rows=6)))
        world.load()
        for _ in range(4):
            world.capture(data.draw(changes(world.history[world.now])), data.draw(st.integers(1, 40)) * MINUTE)
            world.capture({}, data.draw(st.sampled_from((1, 45 * MINUTE, 300 * MINUTE, 30 * 24 * 60 * MINUTE))))
            for site, one in world.worlds.items():
                assert world.push(site, list(one.program.tasks), world.now) == []
            assert world.wrong() == []


@pytest.mark.long
@settings(ANY_SIZE, max_examples=1_000)
@given(st.data(), st.lists(queries(SCHEMA), min_size=1, max_size=3), st.sampled_from(SITES))
def test_any_views_are_right_in_many_histories(data, texts, target):
    with quick_folder() as folder:
        try:
            live(data, apart(texts, target, Path(folder)), batches=4)
        except (EvaluationError, NoAnswer):
            reject()


def test_what_waits_is_counted_for_a_copy_that_lacks_more_than_is_kept(tmp_path: Path):
    """Its contents may be those of a time before the log that it reads begins: it starts anew when it asks for more.
    Whoever counts meanwhile, for `status`, has to get by with what there is.
    """
    sites = apart(VIEWS, "m2", tmp_path)
    sites.capture({})
    sites.load()
    sender = next(site for site, world in sites.worlds.items() if world.program.exports)
    exports, engine = sites.exports(sender), sites.worlds[sender].engine
    copy = min(exports.engine.program.exports.values(), key=lambda one: one.name)
    lease, ledger = engine.lease, engine.ledger
    ledger.commit(lease, Commit(forget=(copy.name,)))
    before = ledger.logs(copy.task.reads)[copy.task.reads[0]].start - 1
    ledger.commit(lease, Commit((Edit(copy.name, None, before, start=before, site=copy.site),)))
    assert exports.count_waiting()[copy.site] >= 0
    with pytest.raises(ChangesGone):
        exports.read_changes(copy.name, before)


def test_what_a_site_captures_itself_is_given_to_nobody(tmp_path: Path):
    """A name that nobody here knows may be of a later plan, and is asked for again; that of a spool never is."""
    sites = apart(VIEWS, "m2", tmp_path)
    for site in sites.worlds:
        with pytest.raises(NotForReader):
            sites.exports(site).check_reader("spool:r", "m2")
        with pytest.raises(NotThereYet):
            sites.exports(site).check_reader("d:something|later", "m2")
