"""A project whose sites run apart, without what runs inside one process alone.

These are templates. They and the feeds that have their rows are left out by name, and a contract for rows of a template
is refused like any other that cannot be kept; all others are planned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.app.project import everything_read
from headrace.model.catalogue import Catalogue, Feed, Refusal, View
from headrace.model.errors import Problem, Severity, UsageError
from headrace.model.plan import Plan

NEEDS_INSIDE = "sites apart"
"""The operator by which contracts are refused that need all sites inside one process."""

RUN_INSIDE = "`headrace up --sites inside`, the default, runs it; a copy of the project without `.headrace` can do that"


def leave_out_what_runs_inside(declared: Catalogue) -> tuple[Catalogue, tuple[Problem, ...]]:
    """What is left of a project, and which templates and feeds are left out, with the reason."""
    refused = dict(_find_refused(declared))
    views = {name: _refuse(one, refused[name]) if name in refused else one for name, one in declared.views.items()}
    feeds = {name: one for name, one in declared.feeds.items() if not _find_templates(declared, one)}
    return replace(declared, views=views, feeds=feeds, templates={}), tuple(_find_left_out(declared))


def refuse_moved_posts(before: Plan | None, plan: Plan) -> None:
    """Raises UsageError if a feed is to be kept at another site than the one that has what people posted to it: nobody
    else has these rows, and they do not go there.
    """
    for name, feed in plan.catalogue.feeds.items():
        was = None if before is None else before.catalogue.feeds.get(name)
        if was is None or was.site == feed.site:
            continue
        stays = {
            "events": was.events.is_api and feed.events.is_api,
            "follows": was.follows.is_api and feed.follows.is_api,
        }
        for what in (one for one, are_there in stays.items() if are_there):
            message = f'feed "{name}" cannot be moved to site "{feed.site}": its {what} are at site "{was.site}" alone'
            raise UsageError(message, f"leave it `at: {was.site}`, or give it another name and import its {what}")


def _find_refused(declared: Catalogue) -> Iterator[tuple[str, str]]:
    """Views that contracts are refused for, and why."""
    for name in declared.views:
        read = _find_templates_of(declared, name)
        if read:
            yield name, f'view "{name}" has rows of template "{read[0]}", and templates run with `--sites inside` alone'


def _find_templates(declared: Catalogue, feed: Feed) -> list[str]:
    """Templates whose rows a feed has."""
    return [name for read in (feed.events.source, feed.follows.source) for name in _find_templates_of(declared, read)]


def _find_templates_of(declared: Catalogue, view: str) -> list[str]:
    templates = {one.view: name for name, one in declared.templates.items()}
    return sorted(templates[one] for one in everything_read(declared, view) if one in templates)


def _refuse(view: View, why: str) -> View:
    refusal = Refusal(NEEDS_INSIDE, (Problem(why, hint=RUN_INSIDE),))
    return replace(view, query=refusal, recomputed=refusal)


def _find_left_out(declared: Catalogue) -> Iterator[Problem]:
    for name, template in declared.templates.items():
        message = f'template "{name}" is left out: templates run with `--sites inside` alone'
        yield Problem(message, template.declared_at, RUN_INSIDE, Severity.WARNING)
    for name, feed in declared.feeds.items():
        for read in _find_templates(declared, feed)[:1]:
            message = f'feed "{name}" is left out: it has rows of template "{read}"'
            yield Problem(message, feed.declared_at, RUN_INSIDE, Severity.WARNING)
