"""Reads a project folder into a value, and writes starter folders.

Databases are read only on request. Their driver is imported only then, so reading a folder does not need it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.declare.api import Project
from headrace.declare.project_text import PROJECT_FILE
from headrace.declare.read import Inspect, read_project
from headrace.declare.variables import variables_of
from headrace.declare.write import Started, write_starter
from headrace.model.catalogue import Catalogue, Source
from headrace.model.errors import InputError, Problem, Severity
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan, PlanOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.app.reading import ViewChange

__all__ = [
    "LoadedProject",
    "Project",
    "Started",
    "everything_read",
    "init_project",
    "inspector",
    "load",
    "load_beside",
    "load_project",
    "planned_catalogue",
    "sample_project",
    "trial",
]


@dataclass(frozen=True, slots=True)
class LoadedProject:
    """A project folder as a value: what it declares, and what can be done with it.

    Documents (`apply`, `status`) are as the commands of the same name print them with `--json`.
    """

    directory: Path
    catalogue: Catalogue

    def plan(self, options: PlanOptions | None = None) -> Plan:
        """What would be kept, where, for whom, and what it costs. Needs neither Spark nor a database.

        Raises UsageError if the project does not say what planning needs; `load(..., connect=True)` asks the databases.
        """
        from headrace.plan.make import make_plan

        return make_plan(self.catalogue, options or PlanOptions())

    def apply(self, *, dry_run: bool = False, replan: bool = False, force: Sequence[str] = ()) -> dict[str, Any]:
        """Has the service go over to what the folder says by now. Raises UsageError if it does not run."""
        from headrace.app.asking import apply_project

        return apply_project(self.directory, ApplyWishes(replan, tuple(force), dry_run), lambda _: None)

    def status(self) -> dict[str, Any]:
        """The status as the service wrote it within the last second, or before it ended. Raises UsageError if it never
        ran.
        """
        from headrace.app.reading import project_status

        return project_status(self.directory)

    def read(self, view: str, *, limit: int | None = None) -> pa.Table:
        """The rows of a view as they are now."""
        from headrace.app import reading

        return reading.read(view, self.directory, limit=limit)

    def changes(self, view: str, *, after: int | None = None, follow: bool = False) -> Iterator[ViewChange]:
        """The changes of a view, oldest first; see `headrace.changes`."""
        from headrace.app import reading

        return reading.iterate_changes(view, self.directory, after=after, follow=follow)


def load(directory: str | Path, *, connect: bool = False) -> LoadedProject:
    """Read a project folder. Raises InputError with all its mistakes.

    With `connect`, databases are asked for columns and statistics that the files do not declare.
    """
    inspect = inspector(Path(directory), os.environ) if connect else None
    return LoadedProject(Path(directory), load_project(Path(directory), os.environ, inspect))


def load_project(directory: Path, environment: Mapping[str, str], inspect: Inspect | None = None) -> Catalogue:
    """The catalogue of a project. With `inspect`, databases are asked for what is not declared: columns, statistics."""
    return read_project(directory, environment, inspect)


def load_beside(
    directory: Path, environment: Mapping[str, str], running: Mapping[str, Source], ask: Inspect | None = None
) -> Catalogue:
    """Loads a project with the columns that sources have in what runs, where these are enough: a column more is no
    other source. `ask` asks databases otherwise than `inspector` does.
    """
    inspect = _once(ask or inspector(directory, environment))

    def read(narrow: Mapping[str, Source]) -> Catalogue | None:
        """None if one of the columns that are left out is used."""
        try:
            return read_project(directory, environment, _as_in(narrow, inspect))
        except InputError:
            return None

    found = read(running)
    if found is not None:
        return found
    complete = read_project(directory, environment, inspect)
    wider = [
        name for name, source in complete.sources.items() if len(source.columns or ()) > _known_position(running, name)
    ]
    unused = {name: running[name] for name in wider if name in running and read({name: running[name]}) is not None}
    return read(unused) or complete


def _known_position(running: Mapping[str, Source], name: str) -> int:
    return len(running[name].columns or ()) if name in running else 0


def _once(inspect: Inspect) -> Inspect:
    """Asks each database once, even if the same project is read again."""
    answers: list[tuple[Mapping[str, Source], tuple[Problem, ...]]] = []

    def cached(project: str, sources: Mapping[str, Source]) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        if not answers:
            answers.append(inspect(project, sources))
        return answers[0]

    return cached


def _as_in(running: Mapping[str, Source], inspect: Inspect) -> Inspect:
    """Chooses, of columns that are not declared, those that run, if all of these are still there."""

    def narrowed(project: str, sources: Mapping[str, Source]) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        found, findings = inspect(project, sources)
        undeclared = {name for name, source in sources.items() if not source.columns}
        return {
            name: _as_before(source, running.get(name)) if name in undeclared else source
            for name, source in found.items()
        }, findings

    return narrowed


def _as_before(source: Source, before: Source | None) -> Source:
    if before is None or not before.columns:
        return source
    found = {column.name: column for column in source.columns or ()}
    kept = [found.get(column.name) for column in before.columns]
    same = all(one is not None and one.type == was.type for one, was in zip(kept, before.columns, strict=True))
    return replace(source, columns=tuple(one for one in kept if one is not None)) if same else source


def planned_catalogue(
    directory: Path, environment: Mapping[str, str], running: Mapping[str, Source] | None = None
) -> Catalogue:
    """What a plan is made of: databases are asked only if the files do not say all that it takes."""
    catalogue = read_project(directory, environment, None, unknown_columns=Severity.WARNING)
    if any(_needs_asking(source) for source in catalogue.sources.values()):
        return load_beside(directory, environment, running or {})
    return catalogue


def _needs_asking(source: Source) -> bool:
    if source.origin is None or (source.columns is not None and source.rows is not None):
        return False
    from headrace.connect.sources import is_asked

    return is_asked(source)


def init_project(directory: Path) -> Started:
    return write_starter(directory)


def sample_project(name: str) -> Path | None:
    """The folder of a sample project: beside the sources in a checkout, within the package when installed."""
    package = Path(__file__).parents[1]
    places = (package.parents[1] / "examples" / name, package / "examples" / name)
    return next((place for place in places if (place / PROJECT_FILE).is_file()), None)


def everything_read(catalogue: Catalogue, view: str) -> frozenset[str]:
    """A view and everything it reads, through views."""
    found = {view}
    if view in catalogue.views:
        for read in catalogue.views[view].reads:
            found |= everything_read(catalogue, read)
    return frozenset(found)


def inspector(directory: Path, environment: Mapping[str, str], elsewhere: bool = False) -> Inspect:
    """Asks where sources are about them. Addresses are filled in here, and forgotten afterwards.

    With `elsewhere`, other machines read the sources: one whose columns are declared, and whose address needs a
    variable that is not set on this machine, is asked there alone.
    """
    from headrace.connect.sources import connector_of, sources_by_kind
    from headrace.site.sources.databases import place_of

    def inspect(project: str, sources: Mapping[str, Source]) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        place, found, findings = place_of(project, directory, environment), dict(sources), list[Problem]()
        asked = (one for one in sources.values() if not (elsewhere and _is_out_of_reach(one, environment)))
        for kind, own in sources_by_kind(asked).items():
            described, problems = connector_of(kind).describe({one.name: one for one in own}, place)
            found |= described
            findings += problems
        return found, tuple(findings)

    return inspect


def _is_out_of_reach(source: Source, environment: Mapping[str, str]) -> bool:
    if source.columns is None or source.origin is None:
        return False
    return any(name not in environment for name in variables_of(source.origin.place))


def trial(directory: Path, environment: Mapping[str, str], differences: bool = False) -> Inspect:
    """Asks as well, then tries all that a capture of these sources would do.

    With `differences`, warns of columns for which their databases answer queries otherwise than we do.
    """
    from headrace.connect.sources import connector_of, sources_by_kind
    from headrace.site.sources.databases import place_of

    ask = inspector(directory, environment)

    def inspect(project: str, sources: Mapping[str, Source]) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        found, findings = ask(project, sources)
        place, tried = place_of(project, directory, environment), list[Problem]()
        for kind, own in sources_by_kind(found.values()).items():
            tried += connector_of(kind).try_capture(own, place)
            tried += connector_of(kind).find_differences(own, place) if differences else ()
        return found, (*findings, *tried)

    return inspect
