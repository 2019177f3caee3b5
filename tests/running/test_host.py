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
from headrace.model.errors import UsageError
from headrace.model.event_wire import EventsAsked
from headrace.model.events import ServiceSuspended
from headrace.model.log import Commit
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan, Sharing
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.running import make_running
from headrace.site.service import Service
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
