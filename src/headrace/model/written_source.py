"""Makes a source that has no database: its rows are written by the service itself."""

from __future__ import annotations

from headrace.model.catalogue import WRITTEN_HERE, Source, SourceColumn, SourceKind
from headrace.model.errors import Location


def make_written_source(
    name: str, site: str, columns: tuple[SourceColumn, ...], key: tuple[str, ...], declared_at: Location
) -> Source:
    """`declared_at` is the place of the feed or template that it is for."""
    return Source(
        name=name,
        kind=SourceKind.TABLE,
        site=site,
        key=key,
        columns=columns,
        rows=None,
        rate=None,
        static=False,
        parent_first=False,
        stays=None,
        time=None,
        retention_s=None,
        origin=WRITTEN_HERE,
        declared_at=declared_at,
    )
