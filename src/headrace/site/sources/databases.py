"""Names the databases of a project, and says which sources are in each. Names contain no secrets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace.connect.tables.folder import FOLDER
from headrace.model.catalogue import Catalogue, FileFolder, PostgresTable
from headrace.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class SourceDatabase:
    """`dsn` is as written in the project, variables unfilled."""

    name: str
    dsn: str
    sources: tuple[str, ...]


def database_name(dsn: str) -> str:
    """After the variable that holds the address; an address in clear is only hashed."""
    variable = re.fullmatch(r"\$\{(\w+)\}", dsn.strip())
    return variable[1].lower() if variable else "db_" + hashlib.sha256(dsn.encode()).hexdigest()[:8]


def databases_of(catalogue: Catalogue, used: frozenset[str]) -> tuple[SourceDatabase, ...]:
    """The databases of the sources that a plan uses."""
    found: dict[str, list[str]] = {}
    for name in sorted(used):
        origin = catalogue.sources[name].origin
        if isinstance(origin, PostgresTable):
            found.setdefault(origin.dsn, []).append(name)
        elif origin is None:
            raise UsageError(
                f'source "{name}" cannot run: the project does not say where its rows are',
                f"give it `postgres: {{dsn: ..., table: ...}}` at {catalogue.sources[name].declared_at}",
            )
    return tuple(SourceDatabase(database_name(dsn), dsn, tuple(sources)) for dsn, sources in found.items())


def folder_databases(catalogue: Catalogue, used: Collection[str]) -> dict[str, str]:
    """Sources that are folders of files, by the name of their commit marks: each is a database of its own."""
    return {FOLDER + name: name for name in sorted(used) if isinstance(catalogue.sources[name].origin, FileFolder)}


def by_contract(
    databases: tuple[SourceDatabase, ...], sources_of: Mapping[str, frozenset[str]]
) -> dict[str, tuple[str, ...]]:
    """The databases whose changes a contract's view reflects."""
    return {
        contract: tuple(database.name for database in databases if sources & set(database.sources))
        for contract, sources in sources_of.items()
    }
