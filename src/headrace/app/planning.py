"""Plans a project's files from scratch, compares the plan with the running one, or plans on top of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.app.project import planned_catalogue
from headrace.app.versions import plan_on_what_runs
from headrace.coordinate.existing import existing_in
from headrace.coordinate.measured import running_to_plan_on
from headrace.coordinate.steps import compile_with, steps_between
from headrace.model.difference import Difference
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan, PlanOptions
from headrace.model.steps import Steps
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from headrace.plan.share.difference import difference
from headrace.site.folder import Folder
from headrace.site.forced import forced_promises

__all__ = ["Difference", "Planned", "plan_and_compare", "plan_document", "plan_on_top", "plan_project"]


def plan_project(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Plan:
    """The plan of a project's files. Databases are asked only when the files do not say what planning needs."""
    return make_plan(planned_catalogue(directory, environment), options)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, what applying it changes against what runs (None if nothing runs), and the steps that takes."""

    plan: Plan
    change: Difference | None
    steps: Steps = ()


def plan_and_compare(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Planned:
    """The plan of a project's files, and what applying them would change."""
    catalogue = planned_catalogue(directory, environment)
    plan, running = make_plan(catalogue, options), running_to_plan_on(Folder(directory))
    if running is None:
        return Planned(plan, None)
    folder = Folder(directory)
    applied, promised = plan_on_what_runs(folder, running, catalogue, ApplyWishes())
    ways = compile_with(running, forced_promises(folder)), compile_with(applied, promised)
    return Planned(plan, difference(running, applied), steps_between(*ways, existing_in(folder)))


def plan_on_top(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Plan:
    """The plan of a project's files on what runs: running contracts keep their vertices."""
    catalogue = planned_catalogue(directory, environment)
    running = running_to_plan_on(Folder(directory))
    if running is None:
        return make_plan(catalogue, options)
    return plan_on_what_runs(Folder(directory), running, catalogue, ApplyWishes())[0]
