"""Plans a project's files on the running plan, in one way for `apply`, `apply --dry-run`, `plan` and `up`."""

from __future__ import annotations

from headrace.model.catalogue import Catalogue
from headrace.model.left_out import leave_feeds
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan
from headrace.plan.versions import Asked, plan_versions
from headrace.site.folder import Folder
from headrace.site.forced import read_forced, read_forced_promises


def plan_on_what_runs(
    folder: Folder, running: Plan | None, declared: Catalogue, wishes: ApplyWishes
) -> tuple[Plan, dict[str, float]]:
    """The plan, and what forced contracts are promised, in seconds. They stay forced while they ask for the same."""
    declared = leave_feeds(declared)
    forced = _still_forced(folder, declared)
    if wishes.replan or running is None:
        forced = {name: declared.contracts[name].freshness_s for name in forced}
    return plan_versions(running, Asked(declared, forced, wishes.force, wishes.replan), read_forced_promises(folder))


def _still_forced(folder: Folder, declared: Catalogue) -> dict[str, float]:
    """Those that run, while they ask for the same as when they were forced: how fresh they are planned to be."""
    return {
        name: terms.kept_s
        for name, terms in read_forced(folder).items()
        if name in declared.contracts and declared.contracts[name].freshness_s == terms.declared_s
    }
