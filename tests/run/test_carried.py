"""What leaves a site is judged by the steps that make it: rows of a source that stays do not."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.app.planning import plan_project
from headrace.model.catalogue import Stays
from headrace.model.plan import Plan, PlanOptions
from headrace.run.capture.spool import spool_log
from headrace.run.compile.carried import CarriedSources, find_bound
from headrace.run.compile.compile_plan import compile_plan

ROOT = Path(__file__).parents[2]
HOSPITAL = ROOT / "tests" / "golden" / "plans" / "rows-stay-at-a-site"


def refused(plan: Plan, stays: dict[str, Stays]) -> set[tuple[str, str]]:
    """Sources whose rows a plan would have leave their site, and where to, as the sites themselves find."""
    found = set()
    for site in plan.catalogue.sites:
        program = compile_plan(plan.at_site(site))
        carried = CarriedSources(program)
        for copy in program.exports.values():
            bound = find_bound(carried.find(copy), {spool_log(name): one for name, one in stays.items()}, copy.site)
            if bound is not None:
                found.add((bound.removeprefix(spool_log("")), copy.site))
    return found


def planned_stays(plan: Plan) -> dict[str, Stays]:
    return {name: one.stays for name, one in plan.catalogue.sources.items() if one.stays is not None}


def test_aggregates_leave_where_they_may_and_rows_do_not() -> None:
    plan = plan_project(HOSPITAL, {}, PlanOptions())
    assert planned_stays(plan) == {"patients": Stays(("eu",), aggregates_anywhere=True)}
    assert refused(plan, planned_stays(plan)) == set()
    assert refused(plan, {"patients": Stays(("eu",))}) == {("patients", "us")}


def test_what_a_site_remembers_counts_whatever_the_plan_says(tmp_path: Path) -> None:
    for name in ("headrace.yml", "views/visits_by_age.sql"):
        copied = tmp_path / name
        copied.parent.mkdir(exist_ok=True)
        copied.write_text((HOSPITAL / name).read_text())
    project = tmp_path / "headrace.yml"
    project.write_text(project.read_text().replace("    stays: {sites: [eu], aggregates: anywhere}\n", ""))
    (tmp_path / "views" / "visits_by_age.sql").write_text(
        "SELECT p.id, p.born, v.minutes FROM visits v JOIN patients p ON v.patient = p.id"
    )
    plan = plan_project(tmp_path, {}, PlanOptions())
    assert planned_stays(plan) == {}
    aggregates = {"patients": Stays(("eu",), aggregates_anywhere=True)}
    assert refused(plan, aggregates) == {("patients", "us")}, "rows are no aggregates"
    assert refused(plan, {"patients": Stays(("eu", "us"))}) == set()
    assert refused(plan, {"visits": Stays(("us",))}) == set(), "visits stay where they are"


def test_what_is_carried_is_never_taken_for_nothing_while_another_thread_looks() -> None:
    plan = plan_project(HOSPITAL, {}, PlanOptions())
    program = compile_plan(plan.at_site("eu"))
    (copy,) = program.exports.values()
    expected = CarriedSources(program).find(copy)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for _ in range(100):
                carried = CarriedSources(program)
                assert expected and {*threads.map(carried.find, [copy] * 4)} == {expected}
    finally:
        sys.setswitchinterval(before)
