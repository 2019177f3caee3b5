"""A kind of source that Headrace does not have: its own module and two registrations are enough to run a project."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.app.planning import plan_project
from headrace.connect.sources import SOURCE_MODULES, SourceModule
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.perform import apply_plan
from headrace.declare import entries
from headrace.declare.project_file import OriginEntry, SourceEntry
from headrace.model.catalogue import OtherOrigin
from headrace.model.plan import PlanOptions
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.reading import ViewReader
from headrace.site.service import Service
from tests.connect.simulated_source import LISTS, SimulatedList
from tests.running.running_project import until
from tests.running.test_folder_sources import PROJECT

FILES = 'files: {path: "${CLICKS}/in", format: csv}'
NOON = dt.datetime(2026, 2, 28, 12, tzinfo=dt.UTC)


class SimulatedEntry(OriginEntry):
    list: str

    def to_origin(self) -> OtherOrigin:
        return OtherOrigin("simulated", None, (("list", self.list),))


class WithSimulated(SourceEntry):
    simulated: SimulatedEntry | None = None


@pytest.fixture
def clicks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedList]:
    """The two registrations, a project over the new kind, and its rows."""
    monkeypatch.setattr(entries, "SourceEntry", WithSimulated)
    monkeypatch.setitem(SOURCE_MODULES, "simulated", SourceModule("tests.connect.simulated_source", asked=False))
    (tmp_path / "views").mkdir()
    (tmp_path / "headrace.yml").write_text(PROJECT.replace(FILES, "simulated: {list: clicks}"))
    (tmp_path / "views" / "totals.sql").write_text("SELECT n, count(*) AS c FROM clicks GROUP BY n")
    LISTS["clicks"] = SimulatedList([(1, NOON, 7), (2, NOON, 7)])
    yield LISTS["clicks"]
    del LISTS["clicks"]


def run_service(folder: Path) -> Service:
    service = Service(Folder(folder), {}, HereRunner(perform), in_processes=False)
    service.open()
    loading = apply_plan(service, plan_project(folder, {}, PlanOptions()))
    assert loading.done.wait(60)
    assert loading.error is None
    return service


def reader_of(service: Service) -> ViewReader:
    running = service.running
    assert running is not None
    return ViewReader(running.plan, running.program, service.ledger, service.store)


def totals(service: Service) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in reader_of(service).rows("totals").rows.to_pylist())


def test_a_source_of_a_new_kind_is_captured_audited_and_goes_on_after_a_restart(
    clicks: SimulatedList, tmp_path: Path
) -> None:
    service = run_service(tmp_path)
    try:
        until(lambda: totals(service) == [(7, 2)], "the rows that there were are in the view")
        clicks.rows.append((3, NOON, 8))
        until(lambda: totals(service) == [(7, 2), (8, 1)], "so is one that came")
        assert clicks.confirmed == 3
        found = compare_views(reader_of(service), service.folder, {}, service.rounds.push_to)
        assert found.equal and len(found.views) == 1
    finally:
        service.close()
    clicks.rows.append((4, NOON, 8))
    service = run_service(tmp_path)
    try:
        until(lambda: totals(service) == [(7, 2), (8, 2)], "it goes on where it was, and takes each row once")
    finally:
        service.close()


def test_whatever_a_capture_raises_is_a_trouble_of_its_source_and_it_is_tried_again(
    clicks: SimulatedList, tmp_path: Path
) -> None:
    service = run_service(tmp_path)
    try:
        rows, clicks.rows = clicks.rows, None  # type: ignore[assignment]
        told = "source \"clicks\" cannot be read: TypeError: 'NoneType' object is not subscriptable"
        until(lambda: [one.what for one in service.troubles.all().values()] == [told], "status says it")
        clicks.rows = [*rows, (3, NOON, 8)]
        until(lambda: totals(service) == [(7, 2), (8, 1)], "it goes on")
        until(lambda: not service.troubles.all(), "the trouble is over")
    finally:
        service.close()
