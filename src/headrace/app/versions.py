"""Plans a project's files on the running plan, in one way for `apply`, `apply --dry-run`, `plan` and `up`."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.catalogue import Catalogue
from headrace.model.feed_names import name_stored
from headrace.model.feed_plan import FeedPlan
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan, PlanOptions, settle_wishes
from headrace.model.plan_modes import PlanWishes
from headrace.plan.make import expand_declared, plan_declared
from headrace.plan.versions import Asked, plan_versions, say_what_replanning_would_keep
from headrace.site.folder import Folder
from headrace.site.forced import read_forced, read_forced_promises


def plan_on_what_runs(
    folder: Folder, running: Plan | None, declared: Catalogue, wishes: ApplyWishes
) -> tuple[Plan, dict[str, float]]:
    """The plan, and what forced contracts are promised, in seconds. They stay forced while they ask for the same."""
    settled, refused = _settle_feeds(_follow_rows(expand_declared(declared)), running)
    forced = _still_forced(folder, settled)
    options = _choose_options(running, declared, wishes)
    anew = wishes.replan or running is None or _is_planned_otherwise(running, declared, options)
    if anew:
        forced = {name: settled.contracts[name].freshness_s for name in forced}
    asked = Asked(settled, forced, wishes.force, anew, options)
    before = read_forced_promises(folder)
    plan, promised = plan_versions(running, asked, before)
    if running is not None and not anew:
        plan = say_what_replanning_would_keep(plan, running, asked, before)
    plan = replace(plan, feeds=(*_describe_feeds(plan), *refused)) if declared.feeds else plan
    return _with_templates(plan), promised


def _choose_options(running: Plan | None, declared: Catalogue, wishes: ApplyWishes) -> PlanOptions:
    """What is said now, else what the project says, else what was said when it was planned last."""
    before = PlanOptions() if running is None else running.options
    project, last = declared.planning, before.wishes
    said = PlanWishes(
        wishes.planning.method or (None if project.method else last.method),
        wishes.planning.sharing or (None if project.sharing else last.sharing),
        wishes.planning.wide_area or (None if project.wide_area else last.wide_area),
    )
    return before.with_wishes(said)


def _is_planned_otherwise(running: Plan, declared: Catalogue, options: PlanOptions) -> bool:
    return settle_wishes(options, declared) != settle_wishes(running.options, running.catalogue)


def _follow_rows(expanded: Catalogue) -> Catalogue:
    """Adds views of the rows that decide where pairs of templates run: only who runs them has to know."""
    if not expanded.templates:
        return expanded
    from headrace.plan.place.followed import follow_rows

    return follow_rows(expanded)


def _with_templates(plan: Plan) -> Plan:
    if not plan.catalogue.templates:
        return plan
    from headrace.plan.place.family import with_templates

    return with_templates(plan)


def _settle_feeds(declared: Catalogue, running: Plan | None) -> tuple[Catalogue, tuple[FeedPlan, ...]]:
    """The catalogue with the feeds that can be kept, and those that cannot as they are declared.

    One that runs goes on as it runs if that can be kept: what people have posted to it is nowhere else.
    """
    if not declared.feeds:
        return declared, ()
    from headrace.plan.feeds.family import settle_feeds

    settled, refused = settle_feeds(declared, plan_declared)
    ran = {} if running is None else running.catalogue.feeds
    promises = () if running is None else running.catalogue.contracts
    go_on = {one.feed: ran[one.feed] for one in refused if one.feed in ran and name_stored(one.feed) in promises}
    if not go_on:
        return settled, refused
    settled, again = settle_feeds(replace(declared, feeds={**declared.feeds, **go_on}), plan_declared)
    kept = go_on.keys() - {one.feed for one in again}
    return settled, tuple(replace(one, goes_on=one.feed in kept) for one in refused)


def _describe_feeds(plan: Plan) -> tuple[FeedPlan, ...]:
    from headrace.plan.feeds.family import describe_feeds

    return describe_feeds(plan)


def _still_forced(folder: Folder, declared: Catalogue) -> dict[str, float]:
    """Those that run, while they ask for the same as when they were forced: how fresh they are planned to be."""
    return {
        name: terms.kept_s
        for name, terms in read_forced(folder).items()
        if name in declared.contracts and declared.contracts[name].freshness_s == terms.declared_s
    }
