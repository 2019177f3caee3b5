"""Finds the folders on this machine from which sources are read, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from headrace.connect.tables.folder import FolderStream, find_unreadable_file
from headrace.declare.variables import fill
from headrace.model.catalogue import Catalogue, FileFolder
from headrace.model.errors import ConnectError, InputError, Problem, Severity

MEND_FILE = "make the file match the declaration, or remove it; the service reads it as soon as it can"


def folder_streams(
    catalogue: Catalogue, sources: Collection[str], project: Path, environment: Mapping[str, str]
) -> dict[str, FolderStream]:
    """Those of the sources that are folders of files, by the name of their commit marks.

    Raises InputError if a path has a variable that is not set.
    """
    found = {}
    for name in sorted(sources):
        source = catalogue.sources[name]
        if isinstance(source.origin, FileFolder) and source.columns is not None:
            columns = tuple((column.name, column.type) for column in source.columns)
            path = project / fill(source.origin.path, environment, source.declared_at)
            stream = FolderStream(name, source.site, path, source.origin.format, columns, source.time)
            found[stream.database] = stream
    return found


def folder_problems(catalogue: Catalogue, project: Path, environment: Mapping[str, str]) -> Iterator[Problem]:
    """Warnings, since a folder may come later. Paths with variables that are not set are left out."""
    for name, source in catalogue.sources.items():
        try:
            for stream in folder_streams(catalogue, [name], project, environment).values():
                wrong = find_unreadable_file(stream)
                if wrong is not None:
                    what = f'source "{name}" cannot read "{wrong.where.file if wrong.where else ""}": {wrong.message}'
                    yield Problem(what, source.declared_at, MEND_FILE, Severity.WARNING)
        except ConnectError as error:
            what = f'source "{name}" cannot be read: {error.message}'
            yield Problem(what, source.declared_at, error.hint, Severity.WARNING)
        except InputError:
            continue
