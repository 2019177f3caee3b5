"""Statistics of sources as the planner sees them: declared (or measured) where known, estimated where not.

Bytes, rows and rows per second. Every function has an answer for every source, so that statistics stay optional.
"""

from __future__ import annotations

from headrace.model.catalogue import Source, SourceColumn, SourceKind
from headrace.model.types import default_width

ASSUMED_ROWS = 10_000.0
"""Rows of a source about which nothing is known."""

ASSUMED_RATE = 1.0
"""Changed rows per second of such a source."""


def width_of(column: SourceColumn) -> float:
    """Bytes of one value."""
    return default_width(column.type) if column.width is None else column.width


def row_width_of(source: Source) -> float:
    """Bytes of one row; 0 while the columns are not known."""
    return sum(width_of(column) for column in source.columns or ())


def rows_of(source: Source) -> float:
    """Rows of a table; of a stream, those that are still joinable: rate * retention."""
    if source.kind is SourceKind.STREAM and source.retention_s is not None:
        return rate_of(source) * source.retention_s
    return ASSUMED_ROWS if source.rows is None else source.rows


def are_rows_assumed(source: Source) -> bool:
    is_stream = source.kind is SourceKind.STREAM and source.retention_s is not None
    return is_rate_assumed(source) if is_stream else source.rows is None


def is_rate_assumed(source: Source) -> bool:
    return source.rate is None and source.measured_rate is None and not source.static


def rate_of(source: Source) -> float:
    """Changed rows per second: an update counts 2."""
    if source.static:
        return 0.0
    if source.measured_rate is not None:
        return source.measured_rate
    return ASSUMED_RATE if source.rate is None else source.rate


def distinct_of(source: Source, column: SourceColumn) -> float:
    """Distinct values of a column: as many as rows for a single-column key, else a tenth of them and 10."""
    if column.distinct is not None:
        return column.distinct
    rows = rows_of(source)
    return rows if source.key == (column.name,) else min(rows, 0.1 * rows + 10)
