"""Commands that plan or explain read what a service measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.coordinate.measured import read_measured, running_to_plan_on, write_measured
from headrace.model.catalogue import MeasuredSize, OperatorTime
from headrace.model.plan import Plan
from headrace.model.statistics import rate_of
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan, plan_on_running
from headrace.plan.share.difference import difference
from headrace.plan.share.revalue import Measured
from headrace.site.folder import Folder
from tests.plan.share.projects import shop, wanted, with_contracts

MEASURED = Measured(
    12.5,
    rates={"orders": 400.0, "customers": 30.0},
    slowness={"r:orders@us": 0.5},
    load={("us", "eu"): 0.25},
    selectivities={"d:orders|orders@eu": 0.1},
    sizes={"fe7cf4873f128fc9": MeasuredSize(12.0, 4.0, {"orders": 400.0})},
    times={"join": OperatorTime(0.002, 1e-6, 2e-6)},
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    found.prepare()
    return found


def plan_without_a_rate_of_orders() -> Plan:
    sources = {**shop().sources, "orders": replace(shop().sources["orders"], rate=None)}
    return make_plan(with_contracts(replace(shop(), sources=sources), [wanted("sales"), wanted("by_country")]))


def test_what_is_written_is_read(folder: Folder) -> None:
    assert read_measured(folder) is None
    write_measured(folder, MEASURED)
    assert read_measured(folder) == MEASURED


def test_a_file_of_another_version_is_as_if_nothing_was_measured(folder: Folder) -> None:
    for written in ({"clock": 1}, {"clock_s": 1.0, "version": 2}, {"clock_s": 1.0, "sizes": {"a": 3}}):
        folder.write_json("measured.json", written)
        assert read_measured(folder) is None


def test_projects_are_planned_at_measured_rates_where_none_is_declared(folder: Folder) -> None:
    made = plan_without_a_rate_of_orders()
    plan = replace(made, catalogue=replace(made.catalogue, directory=str(folder.project)))
    assert running_to_plan_on(folder) is None
    folder.save_running(plan, plan_document(plan))
    assert running_to_plan_on(folder) == plan
    write_measured(folder, MEASURED)
    running = running_to_plan_on(folder)
    assert running is not None and running.graph.edges == plan.graph.edges
    again = plan_on_running(running, plan.catalogue)
    assert difference(running, again).is_nothing
    assert {name: rate_of(again.catalogue.sources[name]) for name in ("orders", "customers")} == {
        "orders": 400.0,
        "customers": 2.0,
    }
