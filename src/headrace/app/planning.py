"""Planning a project's files: from nothing, compared with what runs, or on top of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.app.forcing import plan_with_forced, still_forced
from headrace.app.project import planned_catalogue
from headrace.model.catalogue import Catalogue
from headrace.model.difference import Difference
from headrace.model.errors import UsageError
from headrace.model.plan import Plan, PlanOptions
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from headrace.plan.share.difference import difference_of
from headrace.plan.share.outline import outline_of_document
from headrace.service.folder import Folder
from headrace.service.measured import running_to_plan_on

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
    plan, document = make_plan(catalogue, options), _running_document(directory)
    if document is None:
        return Planned(plan, None)
    running = _running_plan(directory)
    target = plan if running is None else _on_running(running, directory, catalogue)
    return Planned(plan, difference_of(outline_of_document(document), outline_of_document(plan_document(target))))


def plan_on_top(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Plan:
    """The plan of a project's files on what runs: running contracts keep their vertices."""
    catalogue = planned_catalogue(directory, environment)
    if _running_document(directory) is None:
        return make_plan(catalogue, options)
    running = _running_plan(directory)
    if running is None:
        hint = "`headrace apply --replan` goes over to the plan from nothing"
        raise UsageError("what runs was planned by another version of Headrace", hint)
    return _on_running(running, directory, catalogue)


def _on_running(running: Plan, directory: Path, declared: Catalogue) -> Plan:
    return plan_with_forced(running, declared, still_forced(Folder(directory), declared))[0]


def _running_document(directory: Path) -> object | None:
    """The plan document of what runs."""
    try:
        found: object = json.loads((directory / ".headrace" / "plan.json").read_text())
        return found
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f'"{directory / ".headrace" / "plan.json"}" cannot be read: {error}') from error


def _running_plan(directory: Path) -> Plan | None:
    return running_to_plan_on(Folder(directory))
