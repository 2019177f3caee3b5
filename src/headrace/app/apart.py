"""A project whose sites run apart, without what runs inside one process alone.

These are feeds and templates. They are left out by name, and a contract for rows of a template is refused like any
other that cannot be kept; all others are planned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.app.project import everything_read
from headrace.model.catalogue import Catalogue, Refusal, View
from headrace.model.errors import Problem, Severity

NEEDS_INSIDE = "sites apart"
"""The operator by which contracts are refused that need all sites inside one process."""

RUN_INSIDE = "`headrace up --sites inside`, the default, runs it; a copy of the project without `.headrace` can do that"


def leave_out_what_runs_inside(declared: Catalogue) -> tuple[Catalogue, tuple[Problem, ...]]:
    """What is left of a project, and which feeds and templates are left out, with the reason."""
    refused = dict(_find_refused(declared))
    views = {name: _refuse(one, refused[name]) if name in refused else one for name, one in declared.views.items()}
    return replace(declared, views=views, feeds={}, templates={}), tuple(_find_left_out(declared))


def _find_refused(declared: Catalogue) -> Iterator[tuple[str, str]]:
    """Views that contracts are refused for, and why."""
    templates = {one.view: name for name, one in declared.templates.items()}
    for name in declared.views:
        read = sorted(templates[one] for one in everything_read(declared, name) if one in templates)
        if read:
            yield name, f'view "{name}" has rows of template "{read[0]}", and templates run with `--sites inside` alone'


def _refuse(view: View, why: str) -> View:
    refusal = Refusal(NEEDS_INSIDE, (Problem(why, hint=RUN_INSIDE),))
    return replace(view, query=refusal, recomputed=refusal)


def _find_left_out(declared: Catalogue) -> Iterator[Problem]:
    for what, names in (("feed", declared.feeds), ("template", declared.templates)):
        for name in names:
            message = f'{what} "{name}" is left out: {what}s run with `--sites inside` alone'
            yield Problem(message, names[name].declared_at, RUN_INSIDE, Severity.WARNING)
