"""How a running project is planned: as is said now, as the project says, or as was said last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.app.versions import plan_on_what_runs
from headrace.model.catalogue import Catalogue
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan, settle_wishes
from headrace.model.plan_modes import Method, PlanWishes, Sharing, WideArea
from headrace.plan.wide_area.fluid import FlowSharing
from headrace.plan.wide_area.greedy import MODES
from headrace.site.folder import Folder
from tests.plan.share.projects import shop, wanted, with_contracts

SAID_NOTHING = PlanWishes()


def project(**planning: object) -> Catalogue:
    catalogue = with_contracts(shop(), [wanted("sales"), wanted("sales", name="again")])
    return replace(catalogue, planning=PlanWishes(**planning))  # type: ignore[arg-type]


def planned(folder: Path, running: Plan | None, declared: Catalogue, said: PlanWishes = SAID_NOTHING) -> Plan:
    return plan_on_what_runs(Folder(folder), running, declared, ApplyWishes(planning=said))[0]


def wishes_of(plan: Plan) -> PlanWishes:
    return settle_wishes(plan.options, plan.catalogue)


def test_what_is_said_counts_more_than_what_the_project_says(tmp_path: Path) -> None:
    plan = planned(tmp_path, None, project(sharing=Sharing.MERGE), PlanWishes(sharing=Sharing.NONE))
    assert wishes_of(plan) == PlanWishes(Method.CHEAPEST, Sharing.NONE)
    assert all("#" in vertex for one in plan.contracts for vertex in [one.vertex]), "nothing is shared"


def test_what_was_said_last_holds_until_the_project_says_how(tmp_path: Path) -> None:
    first = planned(tmp_path, None, project(), PlanWishes(wide_area=WideArea.SANA))
    second = planned(tmp_path, first, project())
    assert wishes_of(second).wide_area is WideArea.SANA
    third = planned(tmp_path, second, project(wide_area=WideArea.NET))
    assert wishes_of(third) == PlanWishes(Method.CHEAPEST, Sharing.NONE, WideArea.NET)
    assert third.graph != second.graph
    fourth = planned(tmp_path, third, project())
    assert wishes_of(fourth) == PlanWishes(Method.CHEAPEST, Sharing.MARGINAL), "what the project no longer says is gone"


def test_another_way_to_plan_is_another_plan_of_what_runs(tmp_path: Path) -> None:
    shared = planned(tmp_path, None, project())
    apart = planned(tmp_path, shared, project(), PlanWishes(sharing=Sharing.NONE))
    assert len({one.vertex for one in shared.contracts}) == 1
    assert len({one.vertex for one in apart.contracts}) == 2
    assert planned(tmp_path, apart, project()).graph == apart.graph


@pytest.mark.parametrize("mode", WideArea)
def test_a_mode_shares_in_the_plan_what_it_shares_in_the_model(mode: WideArea) -> None:
    assert mode.shares == (MODES[mode].sharing is not FlowSharing.NONE)
