"""Plans a project's files from scratch, compares the plan with the running one, or plans on top of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.app.project import planned_catalogue
from headrace.app.versions import plan_on_what_runs
from headrace.coordinate.measured import running_to_plan_on
from headrace.model.catalogue import Catalogue
from headrace.model.difference import Difference
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan, PlanOptions
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from headrace.plan.share.difference import difference
from headrace.site.folder import Folder

__all__ = ["Difference", "Planned", "plan_and_compare", "plan_document", "plan_on_top", "plan_project"]


def plan_project(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Plan:
    """The plan of a project's files. Databases are asked only when the files do not say what planning needs."""
    return make_plan(planned_catalogue(directory, environment), options)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what it changes against what runs; None if nothing runs."""

    plan: Plan
    change: Difference | None


def plan_and_compare(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Planned:
    """The plan of a project's files, and what applying them would change."""
    catalogue = planned_catalogue(directory, environment)
    plan, running = make_plan(catalogue, options), running_to_plan_on(Folder(directory))
    if running is None:
        return Planned(plan, None)
    return Planned(plan, difference(running, _on_running(running, directory, catalogue)))


def plan_on_top(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Plan:
    """The plan of a project's files on what runs: running contracts keep their vertices."""
    catalogue = planned_catalogue(directory, environment)
    running = running_to_plan_on(Folder(directory))
    return make_plan(catalogue, options) if running is None else _on_running(running, directory, catalogue)


def _on_running(running: Plan, directory: Path, declared: Catalogue) -> Plan:
    return plan_on_what_runs(Folder(directory), running, declared, ApplyWishes())[0]
