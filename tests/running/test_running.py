"""What runs is one value for each plan: made once, swapped whole, and taken once by whoever looks at it."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

import headrace
from bench.workloads.live_table1 import Live, live_catalogue
from headrace.app.planning import plan_project
from headrace.app.preparing import prepare
from headrace.coordinate.host import ServiceHost
from headrace.coordinate.perform import apply_plan
from headrace.coordinate.status import status_document
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan, PlanOptions
from headrace.plan.make import make_plan
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.program import Ingest
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.last_status import State
from headrace.site.running import CHANGES_BYTES, Running, make_running
from headrace.site.service import Service, clock_now
from headrace.site.snapshot import take_snapshot
from headrace.site.unloaded import Unloaded

PROJECT = """
project: clicks
sites: {us: {}}
sources:
  clicks:
    kind: stream
    at: us
    time: at
    retention: 1 h
    rate: 1 /s
    columns: {id: bigint, at: timestamp, n: int}
    files: {path: "in", format: csv}
contracts:
  totals: {view: totals, at: us, freshness: 5 s}
"""
ANOTHER = "  many: {view: many, at: us, freshness: 5 s}\n"
VIEWS = {
    "totals": "SELECT n, count(*) AS c FROM clicks GROUP BY n",
    "many": "SELECT n, max(id) AS id FROM clicks GROUP BY n",
}


class Clicks:
    """A service over a folder of files. Whoever reads its clock does `meanwhile` first, once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.meanwhile = folder, dict[int, Callable[[], None]]()
        (folder / "views").mkdir()
        (folder / "in").mkdir()
        (folder / "in" / "a.csv").write_text("id,at,n\n1,2026-02-28T01:02:03Z,1\n")
        for name, sql in VIEWS.items():
            (folder / "views" / f"{name}.sql").write_text(sql)
        self.service = Service(Folder(folder), {}, HereRunner(perform), clock=self._clock, in_processes=False)

    def _clock(self) -> int:
        act = self.meanwhile.pop(threading.get_ident(), None)
        if act is not None:
            act()
        return clock_now()

    def plan(self, project: str) -> Plan:
        (self.folder / "headrace.yml").write_text(project)
        return plan_project(self.folder, {}, PlanOptions())

    def go_over(self, plan: Plan) -> None:
        loading = apply_plan(self.service, plan)
        assert loading.done.wait(60)
        assert loading.error is None


@pytest.fixture
def clicks(tmp_path: Path) -> Iterator[Clicks]:
    found = Clicks(tmp_path)
    found.service.open()
    try:
        yield found
    finally:
        found.service.close()


@contextmanager
def compiled_plans() -> Iterator[list[Plan]]:
    """What is compiled by this thread, and by threads that start meanwhile."""
    found = list[Plan]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is compile_plan.__code__:
            found.append(frame.f_locals["plan"])

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_changes_may_take_what_a_site_declares_or_a_few_gigabytes():
    plan = make_plan(live_catalogue(Live(contracts=3, tweets=1000)))
    first, *others = sorted(plan.catalogue.sites)
    sites = {**plan.catalogue.sites, first: replace(plan.catalogue.sites[first], disk_capacity=5e9)}
    limited = replace(plan, catalogue=replace(plan.catalogue, sites=sites))
    assert make_running(limited).budgets == {first: 5_000_000_000, **dict.fromkeys(others, CHANGES_BYTES)}


def test_what_is_watched_is_promised_what_is_forced():
    plan = make_plan(live_catalogue(Live(contracts=3, tweets=1000)))
    forced, *others = plan.contracts
    found = make_running(plan, {forced.contract: 7.0})
    promised = {one.contract: one.freshness_s for one in found.watched}
    assert promised == {forced.contract: 7.0, **{one.contract: one.freshness_s for one in others}}
    assert set().union(*(one.sources for one in found.watched)) == found.sources


def test_contracts_that_need_what_is_gone_are_left_out_until_they_are_loaded():
    running = make_running(make_plan(live_catalogue(Live(contracts=3, tweets=1000))))
    first = running.plan.contracts[0]
    unloaded = Unloaded()
    unloaded.leave_out(running.plan, running.program, [first.vertex], "it was cut off")
    before = unloaded.why
    assert first.contract in before
    for one in running.plan.contracts:
        unloaded.forget(one.contract)
    assert unloaded.why == {}
    assert first.contract in before, "whoever looked has what there was"
    source = next(name for name, task in running.program.tasks.items() if isinstance(task.step, Ingest))
    unloaded.leave_out(running.plan, running.program, [source], "it is read again")
    read = {one.contract for one in running.watched if source_of(running, source) in one.sources}
    assert unloaded.why == dict.fromkeys(read, "it is read again")


def source_of(running: Running, vertex: str) -> str:
    return running.plan.graph.vertices[vertex].scope[0]


def test_a_plan_is_compiled_once_when_it_is_applied_and_not_again_when_another_one_is(clicks: Clicks) -> None:
    both, alone = clicks.plan(PROJECT + ANOTHER), clicks.plan(PROJECT)
    for plan in (both, alone, both):
        with compiled_plans() as compiled:
            clicks.go_over(plan)
        assert compiled == [plan]


def test_an_apply_by_a_person_compiles_neither_what_runs_nor_what_is_wanted_twice(clicks: Clicks) -> None:
    both, alone = clicks.plan(PROJECT + ANOTHER), clicks.plan(PROJECT)
    clicks.go_over(both)
    host = ServiceHost(clicks.service, clicks.service.folder, lambda wishes: prepare(clicks.folder, {}, wishes))
    with compiled_plans() as compiled:
        applied = host.apply(ApplyWishes())
    assert applied.done and [one.contract for one in applied.prepared.plan.contracts] == [alone.contracts[0].contract]
    assert len(compiled) == 2 and both in compiled and applied.prepared.plan in compiled


def test_plans_are_compiled_by_what_makes_a_running_value_shows_steps_cuts_a_part_or_serves_feeds_elsewhere():
    source = Path(headrace.__file__).parent
    compiling = {
        str(file.relative_to(source))
        for area in ("site", "coordinate", "app", "doors")
        for file in (source / area).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "compile_plan"
    }
    here = {"site/running.py", "coordinate/steps.py", "coordinate/compile_part.py"}
    assert compiling == {*here, "site/feeds/served.py"}


def test_status_shows_one_plan_though_the_service_goes_over_to_another_one_meanwhile(clicks: Clicks) -> None:
    both, alone = clicks.plan(PROJECT + ANOTHER), clicks.plan(PROJECT)
    clicks.go_over(both)
    clicks.meanwhile[threading.get_ident()] = lambda: clicks.go_over(alone)
    found = status_document(take_snapshot(clicks.service), State.RUNNING, pid=1)
    assert clicks.meanwhile == {}, "status reads the clock after it has looked at what runs"
    assert {one["id"] for one in found["contracts"]} == {"totals", "many"}
    assert {one["id"] for one in status_document(take_snapshot(clicks.service), State.RUNNING, pid=1)["contracts"]} == {
        "totals"
    }
