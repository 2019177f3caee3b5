"""Headrace: declare SQL views, where they are needed and how fresh; it keeps them so, at the lowest cost.

    import headrace
    project = headrace.load("city")                          # a project folder
    project = headrace.Project("city").site("us")            # or the same declarations as Python calls
    project.catalogue                                        # checked values, or InputError with all mistakes
    rows = headrace.read("nearby_tweets", "city")            # a view of a project that runs, as an Arrow table
    page = headrace.feed("home", "city").page("anna")        # a page of somebody's feed

Everything is imported when it is first used: `import headrace` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.app.feed_client import RunningFeed, feed
    from headrace.app.project import LoadedProject, Project, load
    from headrace.app.reading import ViewChange, read
    from headrace.app.reading import iterate_changes as changes
    from headrace.model.errors import ConnectError, HeadraceError, InputError, Problem, UsageError
    from headrace.model.plan import Plan, PlanOptions

    __version__: str

__all__ = [
    "ConnectError",
    "HeadraceError",
    "InputError",
    "LoadedProject",
    "Plan",
    "PlanOptions",
    "Problem",
    "Project",
    "RunningFeed",
    "UsageError",
    "ViewChange",
    "__version__",
    "changes",
    "feed",
    "load",
    "read",
]

_HOMES = {
    **dict.fromkeys(("ConnectError", "HeadraceError", "InputError", "Problem", "UsageError"), "headrace.model.errors"),
    **dict.fromkeys(("Plan", "PlanOptions"), "headrace.model.plan"),
    **dict.fromkeys(("LoadedProject", "Project", "load"), "headrace.app.project"),
    **dict.fromkeys(("ViewChange", "changes", "read"), "headrace.app.reading"),
    **dict.fromkeys(("RunningFeed", "feed"), "headrace.app.feed_client"),
}
"""The module of each name that people import from here."""
_NAMES_THERE = {"changes": "iterate_changes"}


def _find_version() -> str:
    """The package of devices is this one without all that only the cloud needs."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("headrace")
    except PackageNotFoundError:
        return version("headrace-device")


if not TYPE_CHECKING:  # a module with __getattr__ has every name, for type checkers

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            from importlib import import_module

            return getattr(import_module(_HOMES[name]), _NAMES_THERE.get(name, name))
        if name == "__version__":
            return _find_version()
        raise AttributeError(f'module "headrace" has no attribute "{name}"')


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
