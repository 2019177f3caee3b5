"""Writes rows to sources that have no database. They are captured like any other change, and may be written by any
process of this machine, whether the service runs or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.connect.written.inbox import put_rows
from headrace.model.catalogue import Source
from headrace.model.source_clock import clock_of
from headrace.model.types import Row
from headrace.site.folder import Folder


def write_rows(folder: Folder, source: Source, upserts: Sequence[Row], deletes: Sequence[Row] = ()) -> None:
    """Rows have the source's columns in their order; of one to delete only the key counts. They are there once this
    returns. Writing the same again changes nothing. Raises ConnectError if the disk does not take them.
    """
    if upserts or deletes:
        columns = tuple((column.name, column.type) for column in source.columns or ())
        put_rows(folder.capture(clock_of(source)), columns, upserts, deletes)
