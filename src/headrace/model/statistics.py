"""Statistics of sources as the planner sees them: declared (or measured) where known, estimated where not.

Bytes, rows and rows per second. Every function has an answer for every source, so that statistics stay optional; and it
is a number that one can plan with, whatever a file, a database or a measurement says.
"""

from __future__ import annotations

from headrace.model.catalogue import Source, SourceColumn, SourceKind
from headrace.model.types import default_width

ASSUMED_ROWS = 10_000.0
"""Rows of a source about which nothing is known."""

FEWEST_ROWS = 1.0
"""Rows of a table that is empty. It will not stay so if anything is to come of it; and two empty tables that are joined
by several columns would have any number of rows, since a join has as many as its sides divided by values that there are
none of."""

ASSUMED_RATE = 1.0
"""Changed rows per second of such a source."""


LARGEST = 1e15
"""The largest number of rows, bytes or rows per second that is believed: products of a few of them stay numbers."""


def believe(number: float | None, otherwise: float) -> float:
    """A statistic as planning may use it: `otherwise` if it is not known, not a number or negative; never above
    `LARGEST`.
    """
    return otherwise if number is None or not number >= 0.0 else min(number, LARGEST)


def width_of(column: SourceColumn) -> float:
    """Bytes of one value."""
    return believe(column.width, default_width(column.type))


def row_width_of(source: Source) -> float:
    """Bytes of one row; 0 while the columns are not known."""
    return sum(width_of(column) for column in source.columns or ())


def rows_of(source: Source) -> float:
    """Rows of a table; of a stream, those that are still joinable: rate * retention."""
    if source.kind is SourceKind.STREAM and source.retention_s is not None:
        return believe(rate_of(source) * source.retention_s, ASSUMED_ROWS)
    return max(FEWEST_ROWS, believe(source.rows, ASSUMED_ROWS))


def are_rows_assumed(source: Source) -> bool:
    is_stream = source.kind is SourceKind.STREAM and source.retention_s is not None
    return is_rate_assumed(source) if is_stream else source.rows is None


def is_rate_assumed(source: Source) -> bool:
    return source.rate is None and source.measured_rate is None and not source.static


def rate_of(source: Source) -> float:
    """Changed rows per second: an update counts 2."""
    if source.static:
        return 0.0
    return believe(source.measured_rate, believe(source.rate, ASSUMED_RATE))


def distinct_of(source: Source, column: SourceColumn) -> float:
    """Distinct values of a column, at least one: as many as rows for a single-column key, else a tenth of them and
    10.
    """
    rows = rows_of(source)
    assumed = rows if source.key == (column.name,) else min(rows, 0.1 * rows + 10)
    return max(1.0, believe(column.distinct, assumed))
