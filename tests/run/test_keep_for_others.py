"""What sites keep for others that still run an earlier plan: those go on, and are right."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.run.compile.compile_plan import compile_plan
from headrace.run.compile.keep_for_others import find_needed_copies, keep_for_others
from headrace.testing import changes, tables
from headrace.testing.worlds import quick_folder
from tests.examples import examples
from tests.run.sites_world import SitesWorld
from tests.run.test_crashes import VIEWS
from tests.run.test_engine import ANY_SIZE, world_of
from tests.run.test_sites import apart


def go_over(world: SitesWorld, behind: str, texts: list[str], target: str, folder: Path) -> None:
    """All sites but one run another plan from now on, and keep what that one reads."""
    (folder / "later").mkdir()
    later, whole = world_of(texts, target, folder / "later").plan, compile_plan(world.plan)
    copies = find_needed_copies(whole, [behind])
    for site, one in world.worlds.items():
        if site != behind:
            program = keep_for_others(compile_plan(later.at_site(site)), one.program, copies)
            gone = [name for name in one.program.logs if name not in program.logs]
            one.engine.push_program(program)
            one.engine.forget([name for name in gone if name in one.program.tasks])


@settings(ANY_SIZE, max_examples=examples(8))
@given(st.data(), st.sampled_from([(VIEWS[:1], "m1"), ([], "m1"), (VIEWS, "m3")]))
def test_a_site_that_runs_an_earlier_plan_goes_on_while_others_run_another(data, later):
    with quick_folder() as folder:
        world = apart(VIEWS, "m2", Path(folder))
        world.capture(data.draw(tables(max_rows=4)))
        world.load()
        go_over(world, "m2", later[0], later[1], Path(folder))
        for _ in range(3):
            world.capture(data.draw(changes(world.history[world.now])))
            assert world.push("m2", list(world.worlds["m2"].program.tasks), world.now) == []
            assert world.worlds["m2"].wrong() == []


def test_what_is_kept_is_only_what_the_site_behind_needs(tmp_path: Path):
    world = apart(VIEWS, "m2", tmp_path)
    whole = compile_plan(world.plan)
    copies = find_needed_copies(whole, ["m2"])
    assert copies >= world.worlds["m2"].program.imports.keys()
    for site, one in world.worlds.items():
        if site != "m2":
            nothing = compile_plan(world.plan.at_site("elsewhere"))
            kept = keep_for_others(nothing, one.program, copies)
            assert kept.exports.keys() == one.program.exports.keys() & copies
            read = {name for copy in kept.exports.values() for name in copy.task.reads}
            assert kept.tasks.keys() == set(one.program.upstream(read))
            assert kept.kept == kept.logs.keys()
