"""What aggregates, DISTINCT and top-k hold and emit is measured while a plan runs, and corrects the next plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace import Project
from headrace.coordinate.measured import running_to_plan_on, write_measured
from headrace.coordinate.replanning import take_measured
from headrace.doors.cli.why_text import grounds_lines
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Catalogue, MeasuredSize
from headrace.model.explanation import ImaginedChange
from headrace.model.plan import Operator, Plan
from headrace.observe.sizes import find_held_results
from headrace.plan.document import plan_document
from headrace.plan.explain import change_catalogue, grounds, results_of, sources_of
from headrace.plan.make import make_plan, plan_on_running
from headrace.plan.share.adapt import adapt, look, plan_as_measured
from headrace.plan.share.revalue import Measured
from headrace.plan.share.watch import ConditionWatch
from headrace.plan.versions import Asked, plan_versions
from headrace.run.logs.upkeep import Upkeep
from headrace.site.folder import Folder
from headrace.site.learning import Learning
from headrace.testing.worlds import RunningWorld

SECOND = 1_000_000
KINDS = ("click", "view", "sale")
QUERIES = {
    "latest": "SELECT kind, max(day) AS day FROM events GROUP BY kind",
    "different": "SELECT DISTINCT kind, day FROM events",
    "first": "SELECT kind, day FROM (SELECT kind, day, row_number() OVER (PARTITION BY kind ORDER BY day, id) AS i "
    "FROM events) AS ranked WHERE i <= 2",
}


def project(view: str, distinct: float | None = None, rows: float = 1e5) -> Catalogue:
    """Events happen in the us; the view is wanted in the eu. Unless told, nobody knows how few kinds there are."""
    made = Project("sizes", headroom={"cpu": 0, "link": 0, "blocking": 0})
    for name in ("us", "eu"):
        made.site(name, cpu="0.01 $/core-hour", disk="0.01 $/GB-month")
    made.link(between=("us", "eu"), bandwidth="10 MB/s", latency="10 ms", price="1 $/GB")
    kind: str | dict[str, str | float] = "string" if distinct is None else {"type": "string", "distinct": distinct}
    columns: dict[str, str | dict[str, str | float]] = {"id": "bigint", "kind": kind, "day": "bigint"}
    made.source("events", at="us", key="id", rows=rows, rate=50, columns=columns)
    made.view(view, QUERIES[view])
    made.contract(view, view=view, at="eu", freshness="30 s")
    return made.catalogue


def shipped(plan: Plan) -> list[str]:
    """What is copied from site to site: the view, or rows of the source."""
    graph = plan.graph
    copies = [name for name, edge in graph.edges.items() if edge.op is Operator.COPY]
    return sorted(graph.vertices[name].stands_for or graph.vertices[name].scope[0] for name in copies)


def running(plan: Plan, measured: Measured, folder: Path) -> Plan:
    """The plan that runs as commands find it, after a service has measured."""
    found = Folder(folder)
    found.prepare()
    found.save_running(plan, plan_document(plan))
    write_measured(found, measured)
    valued = running_to_plan_on(found)
    assert valued is not None
    return valued


def plan_from_nothing(before: Plan, catalogue: Catalogue) -> Plan:
    """As `apply --replan` does."""
    return plan_versions(before, Asked(catalogue, from_nothing=True))[0]


def measured_as(plan: Plan, rows: float | None, rate: float | None, clock_s: float = 0.0) -> Measured:
    """While fifty events came in a second."""
    (fingerprint,) = (entry.block.fingerprint for entry in plan.blocks)
    return Measured(clock_s, sizes={fingerprint: MeasuredSize(rows, rate, {"events": 50.0})})


def size_in(plan: Plan) -> tuple[float, float]:
    """Rows and changes per second of the view, as planned for a batch of ten seconds."""
    (facts,) = (entry.facts for entry in plan.blocks)
    return facts.rows, facts.rate.at(10.0)


# In the engine


def events(first: int, count: int) -> ZSet:
    """Of three kinds, each of an earlier day than the one before: the latest of each kind is there from the start."""
    return ZSet.of((number, KINDS[number % len(KINDS)], -number) for number in range(first, first + count))


def run(plan: Plan, folder: Path) -> tuple[Measured, RunningWorld, int]:
    """A hundred seconds of fifty events a second; with the bytes that went from site to site."""
    folder.mkdir(parents=True, exist_ok=True)
    meanings = {name: view.query for name, view in plan.catalogue.views.items()}
    world, learning = RunningWorld(plan, meanings, folder), Learning(plan)  # type: ignore[arg-type]
    world.capture({"events": events(0, 1000)}, SECOND)
    world.engine.load()
    sent, everything = 0, sorted(world.program.tasks)
    for number in range(1000, 6000, 500):
        world.capture({"events": events(number, 500)}, 10 * SECOND)
        before = dict(world.ledger.times())
        done = world.engine.push(everything, world.engine.watermark(everything))
        learning.learn(done, before)
        sent += sum(one.sent for one in done)
    assert world.wrong() == []
    while Upkeep(world.engine).step():
        pass
    return take_measured(learning, world.ledger.logs(find_held_results(plan)), world.now / 1e6), world, sent


def test_rows_are_shipped_until_the_aggregate_is_known_to_be_small_and_then_fewer_bytes(tmp_path: Path):
    catalogue = project("latest")
    guessed = make_plan(catalogue)
    measured, _, bytes_of_rows = run(guessed, tmp_path / "guessed")
    learnt = plan_from_nothing(running(guessed, measured, tmp_path), catalogue)
    assert (shipped(guessed), shipped(learnt)) == (["events"], ["latest"])
    *_, bytes_of_groups = run(learnt, tmp_path / "learnt")
    assert bytes_of_groups * 10 < bytes_of_rows


@pytest.mark.parametrize(("view", "changes_s"), [("different", 50.0), ("first", 1.2)])
def test_what_is_measured_of_a_view_is_what_its_query_gives(view: str, changes_s: float, tmp_path: Path):
    """Every kind and day is new. Every ten seconds the first two days of each of three kinds are replaced."""
    measured, world, _ = run(make_plan(project(view)), tmp_path)
    (size,) = measured.sizes.values()
    assert size.rows == len(dict(world.expected(view, world.now).items()))
    assert size.rate == pytest.approx(changes_s)
    assert size.sources == {"events": pytest.approx(50.0)}


# Planning


def test_an_aggregate_that_changes_more_than_was_guessed_is_made_where_it_is_wanted(tmp_path: Path):
    small = project("latest", rows=100)
    guessed = make_plan(small)
    learnt = plan_from_nothing(running(guessed, measured_as(guessed, 20.0, 100.0), tmp_path), small)
    assert (shipped(guessed), shipped(learnt)) == (["latest"], ["events"])


@pytest.mark.parametrize("view", QUERIES)
def test_planning_takes_what_was_measured_for_what_it_would_guess(view: str, tmp_path: Path):
    catalogue = project(view)
    guessed = make_plan(catalogue)
    before = running(guessed, measured_as(guessed, 12.0, 4.0), tmp_path)
    for plan in (before, plan_on_running(before, catalogue), plan_from_nothing(before, catalogue)):
        assert size_in(plan) == (12.0, 4.0) != size_in(guessed)
    assert make_plan(catalogue) == guessed, "files alone know nothing of it"


def test_changes_are_in_proportion_to_those_of_the_sources(tmp_path: Path):
    guessed = make_plan(project("latest"))
    before = running(guessed, measured_as(guessed, 12.0, 4.0), tmp_path)
    twice = change_catalogue(before.catalogue, "latest", ImaginedChange(rate={"events": 100.0}))
    assert size_in(plan_on_running(before, twice)) == (12.0, 8.0)


def test_a_declared_number_of_groups_counts_and_not_the_measured_one(tmp_path: Path):
    declared = project("latest", distinct=40.0)
    plan = make_plan(declared)
    measured = measured_as(plan, 12.0, 4.0)
    before = running(plan, measured, tmp_path)
    assert size_in(before)[0] == size_in(plan_from_nothing(before, declared))[0] == 40.0
    assert size_in(plan_as_measured(plan, measured))[0] == 12.0, "the service goes by what it sees"


def test_what_was_measured_stands_until_another_number_is_declared(tmp_path: Path):
    plan = make_plan(project("latest"))
    before = running(plan, measured_as(plan, 12.0, 4.0), tmp_path)
    assert size_in(plan_on_running(before, project("latest")))[0] == 12.0
    assert size_in(plan_on_running(before, project("latest", distinct=40.0)))[0] == 40.0


def test_a_service_moves_to_a_better_plan_when_a_result_is_not_as_planned():
    plan = make_plan(project("latest"))
    watched = look(ConditionWatch(), plan, measured_as(plan, 3.0, 0.5))
    proposal = adapt(plan, measured_as(plan, 3.0, 0.5, clock_s=100.0), watched)
    assert proposal is not None and proposal.saving > 0.0
    assert (shipped(plan), shipped(proposal.plan)) == (["events"], ["latest"])
    (reason,) = proposal.reasons
    assert re.fullmatch(r"latest holds 3 rows instead of \S+ and changes 0.5 rows/s instead of \S+", reason)
    assert not look(ConditionWatch(), proposal.plan, measured_as(plan, 3.0, 0.5)).since, (
        "it is planned for what was measured"
    )


def test_why_says_which_sizes_are_measured():
    plan = make_plan(project("latest"))
    measured = measured_as(plan, 3.0, 0.5)
    valued = plan_as_measured(plan, measured)
    found = grounds(valued.catalogue, sources_of(valued, "latest"), measured, results_of(valued, "latest"))
    assert "  latest holds 3 rows and changes 0.5 rows/s, as measured" in list(grounds_lines(found))
    assert grounds(plan.catalogue, sources_of(plan, "latest"), None, results_of(plan, "latest")).sizes == ()
