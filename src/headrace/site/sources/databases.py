"""Groups the sources of a project by the clock that their changes come by: a database, or a source of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from headrace.declare.variables import fill, project_environment
from headrace.model.catalogue import Catalogue, Source
from headrace.model.errors import UsageError
from headrace.model.source_clock import clock_of
from headrace.run.source_port import LONGEST_STEP_S, ProjectPlace, SourceDatabase

STEP_SHARE, SHORTEST_STEP_S = 0.15, 0.1
"""Of the shortest promise, what changes may wait for others in a capture; and seconds that they may always wait."""


def databases_of(catalogue: Catalogue, used: frozenset[str]) -> tuple[SourceDatabase, ...]:
    """The databases of the sources that a plan uses."""
    found: dict[str, list[Source]] = {}
    for name in sorted(used):
        source = catalogue.sources[name]
        if source.origin is None:
            raise UsageError(
                f'source "{name}" cannot run: the project does not say where its rows are',
                f"give it `postgres: {{dsn: ..., table: ...}}` at {source.declared_at}",
            )
        found.setdefault(clock_of(source), []).append(source)
    step_s = find_step_s(contract.freshness_s for contract in catalogue.contracts.values())
    return tuple(_database(name, sources, step_s) for name, sources in found.items())


def find_step_s(promises_s: Iterable[float]) -> float:
    """How often captures commit: the longer changes wait there, the more often views have to be pushed."""
    shortest_s = min(promises_s, default=LONGEST_STEP_S / STEP_SHARE)
    return min(LONGEST_STEP_S, max(SHORTEST_STEP_S, STEP_SHARE * shortest_s))


def _database(name: str, sources: list[Source], step_s: float) -> SourceDatabase:
    origin = sources[0].origin
    assert origin is not None
    return SourceDatabase(origin.kind, name, origin.address, tuple(source.name for source in sources), step_s)


def by_contract(
    databases: tuple[SourceDatabase, ...], sources_of: Mapping[str, frozenset[str]]
) -> dict[str, tuple[str, ...]]:
    """The databases whose changes a contract's view reflects."""
    return {
        contract: tuple(database.name for database in databases if sources & set(database.sources))
        for contract, sources in sources_of.items()
    }


def place_of(project: str, folder: Path, environment: Mapping[str, str]) -> ProjectPlace:
    """What kinds of sources are told about a project."""
    known = project_environment(environment, folder)
    return ProjectPlace(project, folder, lambda text, where: fill(text, known, where))
