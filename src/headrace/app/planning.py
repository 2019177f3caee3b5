"""Plans a project's files from scratch, and compares the plan with the running one if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.app.project import planned_catalogue
from headrace.app.template_rows import place_templates_of
from headrace.model.difference import Difference
from headrace.model.plan import Plan, PlanOptions
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from headrace.site.folder import Folder

if TYPE_CHECKING:
    from headrace.model.steps import Steps

__all__ = ["Difference", "Planned", "plan_and_compare", "plan_document", "plan_on_top", "plan_project"]


def plan_project(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Plan:
    """The plan of a project's files. Databases are asked only when the files do not say what planning needs."""
    plan = make_plan(planned_catalogue(directory, environment), options)
    return place_templates_of(plan, directory, environment)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, what applying it changes against what runs (None if nothing runs), and the steps that takes."""

    plan: Plan
    change: Difference | None
    steps: Steps = ()


def plan_and_compare(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Planned:
    """The plan of a project's files, and what applying them would change."""
    catalogue = planned_catalogue(directory, environment)
    plan = place_templates_of(make_plan(catalogue, options), directory, environment)
    if not Folder(directory).root.exists():
        return Planned(plan, None)
    # Imported only if the project has run: what compares plans takes as long to import as a small plan to make.
    from headrace.app.comparing import compare_with_running

    return Planned(plan, *compare_with_running(directory, catalogue))


def plan_on_top(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Plan:
    """The plan of a project's files on what runs: running contracts keep their vertices."""
    from headrace.app.comparing import plan_on_running

    catalogue = planned_catalogue(directory, environment)
    plan = plan_on_running(directory, catalogue) or make_plan(catalogue, options)
    return place_templates_of(plan, directory, environment)
