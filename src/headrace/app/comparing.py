"""Plans a project's files on top of the running plan, and says what going over to that would change."""

from __future__ import annotations

from pathlib import Path

from headrace.app.versions import plan_on_what_runs
from headrace.coordinate.existing import existing_in
from headrace.coordinate.measured import running_to_plan_on
from headrace.coordinate.steps import compile_with, steps_between
from headrace.model.catalogue import Catalogue
from headrace.model.difference import Difference
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan
from headrace.model.steps import Steps
from headrace.plan.share.difference import difference
from headrace.site.folder import Folder
from headrace.site.forced import read_forced_promises


def compare_with_running(directory: Path, declared: Catalogue) -> tuple[Difference | None, Steps]:
    """What applying the files would change, and the steps that takes; None if nothing runs."""
    folder = Folder(directory)
    running = running_to_plan_on(folder)
    if running is None:
        return None, ()
    applied, promised = plan_on_what_runs(folder, running, declared, ApplyWishes())
    ways = compile_with(running, read_forced_promises(folder)), compile_with(applied, promised)
    return difference(running, applied), steps_between(*ways, existing_in(folder))


def plan_on_running(directory: Path, declared: Catalogue) -> Plan | None:
    """Running contracts keep their vertices; None if nothing runs."""
    folder = Folder(directory)
    running = running_to_plan_on(folder)
    return None if running is None else plan_on_what_runs(folder, running, declared, ApplyWishes())[0]
