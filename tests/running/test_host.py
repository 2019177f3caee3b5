"""Whoever asks a service for something gets an answer, also when it ends before that is done."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.coordinate.host import Prepared, ServiceHost
from headrace.model.errors import UsageError
from headrace.model.options import ApplyWishes
from headrace.model.plan import Sharing
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
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
