"""A project whose links are simulated: what crosses them takes as long as they are declared to."""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.app.preparing import prepare
from headrace.coordinate.perform import apply_plan
from headrace.model.options import ApplyWishes
from headrace.run.push.items import HereRunner, Item, ItemOutcome
from headrace.run.push.perform import perform
from headrace.run.push.push import Pushed
from headrace.run.push.simulated_links import SimulatedLinksRunner
from headrace.site.folder import Folder
from headrace.site.service import Service
from tests.running.running_project import PROJECT, RunningProject, until

LATENCY_S = 0.8
BANDWIDTH = 20_000.0
CONTRACT = "  named: {view: named, at: eu, freshness: 12 s}\n"


@pytest.fixture
def project(project: RunningProject) -> RunningProject:
    slow = PROJECT.replace("10 ms", f"{LATENCY_S} s").replace("100 Mbps", f"{BANDWIDTH} B/s")
    (project.folder / "headrace.yml").write_text(slow + CONTRACT)
    return project


@dataclass
class Stopwatch:
    """Seconds of each job."""

    runner: SimulatedLinksRunner
    took: list[float] = field(default_factory=list)

    def run(self, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        started = time.monotonic()
        found = self.runner.run(items)
        self.took.append(time.monotonic() - started)
        return found


@pytest.mark.long
def test_a_load_or_push_over_a_simulated_link_takes_as_long_as_declared(project: RunningProject) -> None:
    plan = prepare(project.folder, os.environ, ApplyWishes()).plan
    watch = Stopwatch(SimulatedLinksRunner(HereRunner(perform), lambda: plan.catalogue.links))
    crossed: list[Pushed] = []
    service = Service(
        Folder(project.folder),
        os.environ,
        watch,
        in_processes=False,
        on_push=lambda pushed: crossed.extend(one for one in pushed if one.sent),
    )
    service.open()
    try:
        loading = apply_plan(service, plan)
        until(loading.done.is_set, "it runs")
        assert loading.error is None
        sent = service.accounts.sent["us", "eu"]
        assert sent > 20 * 16, "the users that are there"
        assert max(watch.took) >= LATENCY_S + sent / BANDWIDTH
        watch.took.clear()
        project.us.execute("UPDATE users SET name = name || ' moved'")
        until(lambda: bool(crossed), "something has crossed a link")
        (first, *_) = crossed
        least_s = LATENCY_S + first.sent / BANDWIDTH
        assert first.origin == "us"
        assert first.waited_s == pytest.approx(least_s)
        assert first.seconds >= least_s
        assert max(watch.took) >= least_s
        assert service.accounts.sent["us", "eu"] == sent + sum(one.sent for one in crossed)
    finally:
        service.close()


def links(project: RunningProject) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = project.document("status")["links"]
    return found


@pytest.mark.long
def test_status_and_metrics_tell_what_went_over_simulated_links(project: RunningProject) -> None:
    project.document("up", "--detach", "--engine=local", "--shape-links")
    (loaded,) = links(project)
    assert loaded["sent_bytes"], "what the view was loaded with"
    project.us.execute("UPDATE users SET name = name || ' moved'")
    until(lambda: links(project)[0]["sent_bytes"] > loaded["sent_bytes"], "changes have crossed a link")
    (link,) = links(project)
    assert (link["from"], link["to"], link["simulated"]) == ("us", "eu", True)
    assert "us to eu: " in project.headrace("status")
    process = project.process()
    address, token = f"http://127.0.0.1:{process['port']}/metrics", f"Bearer {process['token']}"
    with urllib.request.urlopen(urllib.request.Request(address, headers={"Authorization": token})) as answer:
        assert 'headrace_link_bytes_total{from="us",to="eu"}' in answer.read().decode()
    project.until_equal("named")
