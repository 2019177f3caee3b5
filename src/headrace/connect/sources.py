"""The table of source kinds: the one place that maps where rows of a source are to the module that reads them.

A module is imported when a source of its kind is used, so that nobody needs the libraries of other kinds.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.model.catalogue import Source
from headrace.model.errors import UsageError

if TYPE_CHECKING:
    from headrace.run.source_port import SourceConnector


@dataclass(frozen=True, slots=True)
class SourceModule:
    """`module` has the kind's `CONNECTOR`. `asked` is whether it asks another machine for columns and rows."""

    module: str
    asked: bool


SOURCE_MODULES: dict[str, SourceModule] = {
    "files": SourceModule("headrace.connect.folders.source", asked=False),
    "postgres": SourceModule("headrace.connect.postgres.source", asked=True),
    "written": SourceModule("headrace.connect.written.source", asked=False),
}
"""By the name of the kind, which is the field of a source in the project file; nobody declares what is written."""


def connector_of(kind: str) -> SourceConnector:
    if kind not in SOURCE_MODULES:
        raise UsageError(f'this version of Headrace reads no sources of the kind "{kind}"')
    connector: SourceConnector = importlib.import_module(SOURCE_MODULES[kind].module).CONNECTOR
    return connector


def sources_by_kind(sources: Iterable[Source]) -> dict[str, list[Source]]:
    """Groups sources by kind, in the order of the table; without sources of which nobody knows where their rows are."""
    found: dict[str, list[Source]] = {kind: [] for kind in SOURCE_MODULES}
    for source in sources:
        if source.origin is not None:
            found.setdefault(source.origin.kind, []).append(source)
    return {kind: own for kind, own in found.items() if own}


def is_asked(source: Source) -> bool:
    """Whether another machine can be asked for what is not declared."""
    kind = None if source.origin is None else SOURCE_MODULES.get(source.origin.kind)
    return kind is not None and kind.asked
