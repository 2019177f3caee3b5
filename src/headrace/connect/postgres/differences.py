"""Finds columns for which PostgreSQL answers otherwise than we do: a view over them is right by our rules, not by its.

Texts are compared and sorted by their bytes here, and a number has at most 18 digits after the point unless the column
says how many it has (`docs/project-file.md`, "Where PostgreSQL answers otherwise").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.connect.postgres.facts import ColumnFacts, TableFacts
from headrace.model.catalogue import Source
from headrace.model.errors import Problem, Severity
from headrace.model.origin_types import OriginType
from headrace.model.table_name import quote_name


def find_differences(source: Source, facts: TableFacts) -> Iterator[Problem]:
    """Warnings about the columns that the source has."""
    used = {column.name for column in source.columns or ()}
    columns = [column for column in facts.columns if column.name in used and column.type is not None]
    for column in columns:
        for what, hint in _find_in_column(column, facts):
            yield Problem(what, source.declared_at, hint, Severity.WARNING)
    yield from (Problem(what, source.declared_at, hint, Severity.WARNING) for what, hint in _find_order(columns, facts))


def _find_in_column(column: ColumnFacts, facts: TableFacts) -> Iterator[tuple[str, str]]:
    name = f'column "{column.name}" of {facts.sql_name}'
    if column.is_padded:
        what = f"{name} has type {column.type_name}, and is read without the spaces that fill it up"
        yield (
            f"{what}: LIKE, octet_length and comparisons with texts that end in spaces may differ from PostgreSQL",
            f"ALTER TABLE {facts.sql_name} ALTER COLUMN {quote_name(column.name)} TYPE text;   or trim texts",
        )
    if column.type_name.removesuffix("[]") == "numeric":
        what = f"{name} is numeric without a number of digits: it is rounded to 18 digits after the point here"
        hint = f"ALTER COLUMN {quote_name(column.name)} TYPE numeric(38,10);   with the digits that it needs"
        yield f"{what}, and 20 digits before it are the most", f"ALTER TABLE {facts.sql_name} {hint}"
    if column.is_written:
        what = f"{name} has type {column.type_name}, and is read as text: = and < compare texts"
        hint = "keep numbers of seconds, or another type that we have, in a column of its own where that matters"
        if column.origin_type in (OriginType.INTERVAL, OriginType.TIME):
            what = f"{what} in Spark's dialect"
            hint = "write views that compare it in PostgreSQL's dialect"
        yield what, hint
    if not column.deterministic:
        what = f'{name} has collation "{column.sorted_by}", which takes different texts for equal'
        yield (
            f"{what}: here they stay different in =, IN, joins, GROUP BY and DISTINCT",
            ("compare lower(...) or another form that both sides have"),
        )


def _find_order(columns: Sequence[ColumnFacts], facts: TableFacts) -> Iterator[tuple[str, str]]:
    """One warning for all columns of a collation: most databases have one for all texts."""
    for collation in dict.fromkeys(column.sorted_by for column in columns):
        if collation is not None:
            names = ", ".join(f'"{column.name}"' for column in columns if column.sorted_by == collation)
            yield (
                f'{facts.sql_name} sorts {names} by collation "{collation}", and we sort by bytes: '
                "<, >, ORDER BY, min and max may differ from PostgreSQL",
                'PostgreSQL sorts as we do with COLLATE "C"',
            )
