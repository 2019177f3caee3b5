"""A service that has nothing to say writes its status less often, and at once again when it has."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.app import running
from headrace.coordinate.host import ServiceHost
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.last_status import State
from headrace.site.service import Service
from headrace.site.troubles import DISK


def test_a_status_is_quiet_if_nothing_had_rows_and_nothing_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(Folder(tmp_path), {}, HereRunner(perform))
    service.open()
    try:
        host, quiet = ServiceHost(service, service.folder, lambda _: pytest.fail("nobody plans")), running._Quiet()
        host.become(State.RUNNING)
        assert not quiet.is_quiet(host), "nothing was written yet"
        quiet.note(host)
        assert quiet.is_quiet(host)
        host.become(State.LOADING)
        assert not quiet.is_quiet(host)
        host.become(State.RUNNING)
        service.troubles.report(f"{DISK}status", "it is full", since=time.time())
        assert not quiet.is_quiet(host), "it is to be told"
        quiet.note(host)
        assert not quiet.is_quiet(host), "what it says about it changes"
        service.troubles.clear(f"{DISK}status")
        quiet.note(host)
        service.rounds.counts = replace(service.rounds.counts, rows=service.rounds.counts.rows + 1)
        assert not quiet.is_quiet(host), "rows were pushed"
        quiet.note(host)
        monkeypatch.setattr(type(service.auditor), "is_any_late", True)
        assert not quiet.is_quiet(host), "somebody waits for it"
    finally:
        service.close()
