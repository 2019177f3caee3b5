"""A service that ends tells why and gives the project back; old events are forgotten."""

from __future__ import annotations

import math
import threading
from pathlib import Path

from headrace.model.event_wire import EventsAsked
from headrace.model.events import ServiceStopped, ServiceSuspended
from headrace.model.log import Commit
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.service import Service
from tests.running.running_project import until


def test_a_service_that_failed_says_why_in_one_line_and_in_words_and_gives_the_project_back(tmp_path: Path) -> None:
    service = Service(Folder(tmp_path), {}, HereRunner(perform))
    service.open()

    def fail() -> None:
        raise RuntimeError("d:counts|counts@us~b600ec is not there\n  at line 7\n  at line 8")

    service.threads.start(fail, "upkeep").join(10)
    service.close()
    ledger = Folder(tmp_path).ledger()
    (stopped,) = (one.event for one in ledger.events(EventsAsked()) if isinstance(one.event, ServiceStopped))
    assert stopped.reason == "changes of counts at us is not there"
    ledger.acquire("service", "the next", 1.0)
    ledger.close()


def test_the_lease_is_given_back_whatever_keeps_the_end_from_being_told(tmp_path: Path) -> None:
    stop = threading.Event()

    def tell_time() -> int:
        if stop.is_set():
            raise OSError("there is no clock any more")
        return 1_700_000_000_000_000

    service = Service(Folder(tmp_path), {}, HereRunner(perform), clock=tell_time, stop=stop)
    service.open()
    service.close()
    ledger = Folder(tmp_path).ledger()
    ledger.acquire("service", "the next", 1.0)
    ledger.close()


def test_old_events_are_forgotten_whatever_else_upkeep_does(tmp_path: Path) -> None:
    """Nothing is kept up here: no plan runs."""
    service = Service(Folder(tmp_path), {}, HereRunner(perform))
    service.open()
    try:
        service.ledger.commit(service.lease, Commit(events=(ServiceSuspended(1, 3.0),)))
        service.housekeeping._forgot_at = -math.inf
        until(lambda: service.ledger.events(EventsAsked()) == (), "the event of 1970 is forgotten")
    finally:
        service.close()
