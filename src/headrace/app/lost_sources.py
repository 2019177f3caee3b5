"""Loads a project of which some sources cannot be captured now: each is taken as it ran last, and told with its reason.

A table was dropped, renamed or altered while nobody looked. Its source stops alone, and goes on once the table is back;
contracts that read other sources have nothing to do with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.app.project import everything_read, inspector, load_beside
from headrace.declare.read import Inspect
from headrace.model.catalogue import Catalogue, Source
from headrace.model.errors import Problem, Severity


@dataclass(frozen=True, slots=True)
class LostSource:
    """A source that cannot be captured now, and the contracts that read it."""

    name: str
    problem: Problem
    contracts: tuple[str, ...]


def load_without_lost(
    directory: Path, environment: Mapping[str, str], running: Mapping[str, Source]
) -> tuple[Catalogue, tuple[LostSource, ...]]:
    """Raises InputError for mistakes of any other kind, and for sources that did not run or are declared otherwise."""
    lost: dict[str, Problem] = {}
    catalogue = load_beside(
        directory, environment, running, _ask_each(inspector(directory, environment), running, lost)
    )
    return catalogue, tuple(LostSource(name, why, _find_readers(catalogue, name)) for name, why in sorted(lost.items()))


def _ask_each(inspect: Inspect, running: Mapping[str, Source], lost: dict[str, Problem]) -> Inspect:
    """Asks about one source at a time, which tells whose a finding is. Those that are lost are put into `lost`."""

    def ask(project: str, sources: Mapping[str, Source]) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        found, findings = dict(sources), list[Problem]()
        for name, source in sources.items():
            described, problems = inspect(project, {name: source})
            wrong = next((one for one in problems if one.severity is Severity.ERROR), None)
            if wrong is None or name not in running or running[name].origin != source.origin:
                found |= described
                findings += problems
            else:
                lost[name] = wrong
                found[name] = _as_it_ran(source, running[name])
        return found, tuple(findings)

    return ask


def _as_it_ran(source: Source, ran: Source) -> Source:
    return replace(source, columns=ran.columns, key=ran.key, rows=ran.rows, found=ran.found)


def _find_readers(catalogue: Catalogue, source: str) -> tuple[str, ...]:
    contracts = catalogue.contracts.values()
    return tuple(sorted(one.name for one in contracts if source in everything_read(catalogue, one.view)))
