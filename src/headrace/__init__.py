"""Headrace: declare SQL views, where they are needed and how fresh; it keeps them so, at the lowest cost.

    import headrace
    project = headrace.load("city")                          # a project folder
    project = headrace.Project("city").site("us")            # or the same declarations as Python calls
    project.catalogue                                        # checked values, or InputError with all mistakes
    rows = headrace.read("nearby_tweets", "city")            # a view of a project that runs, as an Arrow table

Everything is imported when it is first used: `import headrace` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.app.project import Project, load
    from headrace.app.reading import read
    from headrace.model.errors import HeadraceError, InputError, UsageError

__all__ = ["HeadraceError", "InputError", "Project", "UsageError", "load", "read"]


def __getattr__(name: str) -> object:
    if name in ("HeadraceError", "InputError", "UsageError"):
        from headrace.model import errors

        return getattr(errors, name)
    if name in ("Project", "load"):
        from headrace.app import project

        return getattr(project, name)
    if name == "read":
        from headrace.app import reading

        return reading.read
    if name == "__version__":
        from importlib.metadata import version

        return version("headrace")
    raise AttributeError(f'module "headrace" has no attribute "{name}"')
