"""Whoever asks a service for something gets an answer, also when it ends before that is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.connect.ledger.ledger import SqlLedger
from headrace.coordinate.host import Prepared, ServiceHost
from headrace.coordinate.perform import find_steps, find_unfinished
from headrace.model.catalogue import DeltaFolder
from headrace.model.errors import UsageError
from headrace.model.event_wire import EventsAsked
from headrace.model.events import ServiceSuspended
from headrace.model.log import Commit
from headrace.model.notes import DeliveredCopy, read_notes
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan, PlanOptions
from headrace.model.plan_modes import Sharing
from headrace.model.steps import SwitchPlan
from headrace.plan.make import plan_views
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.running import make_running
from headrace.site.service import Service
from tests.plan.written import catalogue, site
from tests.running.test_loading import plan_for


def test_an_apply_that_waits_is_told_when_the_service_ends(tmp_path: Path) -> None:
    service = Service(Folder(tmp_path), {}, HereRunner(perform), in_processes=False)
    service.open()
    try:
        prepared = Prepared(plan_for([], "m1", Sharing.MARGINAL), {}, None, ())
        host = ServiceHost(service, service.folder, lambda _: prepared)
        with service.turns.plan:  # somebody else goes over to a plan, and never comes to an end
            ending = threading.Timer(0.2, service.stop.set)
            ending.start()
            with pytest.raises(UsageError, match="the service ended before that was done: starting captures"):
                host.apply(ApplyWishes())
    finally:
        service.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = Service(Folder(tmp_path), {}, HereRunner(perform), in_processes=False)
    opened.open()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_for([], "m1", Sharing.MARGINAL)


def without_vertices(plan: Plan) -> Plan:
    """A plan that does not compile: nothing makes what its contracts read."""
    return replace(plan, graph=replace(plan.graph, vertices={}))


def test_a_plan_that_does_not_compile_is_refused_as_any_other_that_cannot_be_applied(
    service: Service, plan: Plan
) -> None:
    prepared = Prepared(without_vertices(plan), {}, None, ())
    host = ServiceHost(service, service.folder, lambda _: prepared)
    with pytest.raises(UsageError, match="the plan could not be applied: ") as refused:
        host.apply(ApplyWishes())
    assert refused.value.hint == "the running plan stays in place; see .headrace/service.log"


def test_a_better_plan_that_does_not_compile_is_a_move_that_failed(service: Service, plan: Plan) -> None:
    host = ServiceHost(service, service.folder, lambda _: Prepared(plan, {}, None, ()))
    assert host._try_to_go_over(make_running(plan), threading.Event(), without_vertices(plan))


def test_events_are_read_while_the_service_uses_its_own_connection(service: Service, plan: Plan) -> None:
    host = ServiceHost(service, service.folder, lambda _: Prepared(plan, {}, None, ()))
    event = ServiceSuspended(service.clock(), 3.0)
    service.ledger.commit(service.lease, Commit(events=(event,)))
    assert isinstance(service.ledger, SqlLedger)
    with service.ledger._database.read(), ThreadPoolExecutor(1) as pool:
        _, found = pool.submit(host.events, EventsAsked()).result(30)
    assert event in found


def host_that_runs_nothing(service: Service, prepared: list[Prepared]) -> ServiceHost:
    """Its plan has no contracts; it was made from the first files."""
    host = ServiceHost(service, service.folder, lambda _: prepared[-1])
    loading = host.start(prepared[0])
    assert loading.done.wait(60) and loading.error is None
    return host


@pytest.fixture(scope="module")
def nothing() -> Prepared:
    project = catalogue([site("m1")], [], [], [])
    return Prepared(plan_views(project, {}, PlanOptions()), {}, None, (SwitchPlan(),), "the first files")


def test_what_runs_is_made_from_the_files_before_if_others_could_not_be_applied(
    service: Service, nothing: Prepared, plan: Plan
) -> None:
    prepared = [nothing]
    host = host_that_runs_nothing(service, prepared)
    assert host._files == "the first files"
    steps = find_steps(service, make_running(plan))
    prepared.append(Prepared(plan, {}, None, steps, "other files"))  # there is no database to read
    with pytest.raises(UsageError, match="the plan could not be applied"):
        host.apply(ApplyWishes())
    assert host._files == "the first files"
    prepared.append(replace(nothing, files="other files"))
    host.apply(ApplyWishes())
    assert host._files == "other files"


def test_a_move_is_noted_without_files_so_that_it_is_not_continued(
    service: Service, nothing: Prepared, plan: Plan
) -> None:
    host = host_that_runs_nothing(service, [nothing])
    assert service.running is not None
    service.stop.set()  # a service that ends keeps its list
    assert host._try_to_go_over(service.running, threading.Event(), plan), "there is no database to read"
    found = find_unfinished(service.folder)
    assert found is not None and found[0].files == "" and host._files == "the first files"


def test_what_no_plan_asks_for_is_given_back_although_no_step_says_so(
    service: Service, nothing: Prepared, tmp_path: Path
) -> None:
    left = DeliveredCopy("test", "c", "v", DeltaFolder(str(tmp_path / "copy")))
    service.ledger.commit(service.lease, Commit(notes=(left,)))
    host_that_runs_nothing(service, [nothing])
    assert read_notes(service.ledger, DeliveredCopy) == {}
