"""Fills in the facts of its table where the declaration of a source says nothing: declared values take precedence."""

from __future__ import annotations

from dataclasses import replace

from headrace.connect.postgres.facts import ColumnFacts, TableFacts
from headrace.model.catalogue import Source, SourceColumn


def fill_source(source: Source, facts: TableFacts) -> Source:
    """Columns of types that we do not handle, and generated ones, are left out unless they are declared."""
    rows = facts.rows if source.rows is None else source.rows
    measured = {column.name: column for column in facts.columns}
    if source.columns is None:
        columns = tuple(
            SourceColumn(column.name, column.type, origin_type=column.origin_type)
            for column in facts.columns
            if column.type is not None and column.why_left_out is None
        )
    else:
        columns = source.columns
    undeclared = {f"{c.name}.width" for c in columns if c.width is None}
    undeclared |= {f"{c.name}.distinct" for c in columns if c.distinct is None}
    return replace(
        source,
        columns=tuple(_fill_column(column, measured.get(column.name), rows) for column in columns),
        key=source.key or facts.primary_key,
        rows=rows,
        found=tuple(sorted({*undeclared, *(("rows",) if source.rows is None else ())})),
        left_out=tuple((one.name, why) for one in facts.columns if (why := one.why_left_out) is not None),
    )


def _fill_column(column: SourceColumn, facts: ColumnFacts | None, rows: float | None) -> SourceColumn:
    if facts is None:
        return column
    return replace(
        column,
        width=facts.width if column.width is None else column.width,
        origin_type=facts.origin_type or column.origin_type,
        distinct=_estimate_distinct(facts, rows) if column.distinct is None else column.distinct,
    )


def _estimate_distinct(facts: ColumnFacts, rows: float | None) -> float | None:
    """PostgreSQL writes a number of values that grows with the table as a negative share of its rows."""
    if facts.distinct is None or facts.distinct > 0:
        return facts.distinct
    return None if rows is None else max(1.0, -facts.distinct * rows)
