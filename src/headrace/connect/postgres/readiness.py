"""What makes a table unfit for capture: its kind, its columns, its key; each with the SQL that fixes it.

What our role may do is not looked at here: `trial` tries it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.connect.postgres.facts import ColumnFacts, Hindrance, TableFacts, TableForm, TablePart
from headrace.model.catalogue import PostgresTable, Source, SourceColumn, SourceKind
from headrace.model.errors import Problem, Severity, nearest_name
from headrace.model.origin_types import OriginType
from headrace.model.table_name import TableName, quote_name, read_table_name, show_table
from headrace.model.types import FRACTIONS, INTEGERS, Array, Decimal, Type

_KINDS = {"v": "a view", "m": "a materialised view", "f": "a foreign table"}


def missing_table(source: Source, tables: Sequence[TableName]) -> Problem:
    """`tables` are those there are."""
    assert isinstance(source.origin, PostgresTable)
    table = source.origin.table
    asked = read_table_name(table)
    known = [one if asked.schema is not None else TableName(None, one.name) for one in tables]
    other_case = next((one for one in known if str(one).casefold().replace('"', "") == table.casefold()), None)
    if other_case is not None:
        hint = f"write '{other_case}': PostgreSQL keeps capitals in double quotes only"
    else:
        hint = nearest_name(table, map(str, known)) or "is it in another schema, or another database?"
    return Problem(f'table {show_table(table)} of source "{source.name}" does not exist', source.declared_at, hint)


def check_table(source: Source, facts: TableFacts) -> Iterator[Problem]:
    """All findings about one table."""
    yield from _check_columns(source, facts)
    if source.static:
        return
    unfit = find_unfit(facts.form)
    if unfit is not None:
        yield _finding(source, unfit.what, unfit.hint)
    elif source.kind is SourceKind.TABLE:
        yield from _check_key(source, facts)


def find_unfit(table: TableForm) -> Hindrance | None:
    """Why changes of a table's rows are not all in the log, whatever its columns are; None if they are."""
    if table.kind in _KINDS:
        return Hindrance(f"{table.sql_name} is {_KINDS[table.kind]}: its changes are not in the log", _instead(table))
    if table.persistence == "u":
        hint = f"ALTER TABLE {table.sql_name} SET LOGGED;"
        return Hindrance(f"{table.sql_name} is unlogged: its changes are not in the log", hint)
    if table.persistence == "t":
        return Hindrance(f"{table.sql_name} is temporary: nobody else can read it", "use a permanent table")
    if table.kind != "p" and table.parts:
        return _refuse_heirs(table)
    return next((why for part in table.parts if (why := _find_unfit_partition(table, part)) is not None), None)


def _refuse_heirs(table: TableForm) -> Hindrance:
    names = ", ".join(part.name for part in table.parts[:3]) + (", ..." if len(table.parts) > 3 else "")
    what = f"{table.sql_name} has tables that inherit from it ({names}): changes of their rows are not in its log"
    hint = f"ALTER TABLE {table.parts[0].name} NO INHERIT {table.sql_name};   or make it a partitioned table"
    return Hindrance(what, hint)


def _find_unfit_partition(table: TableForm, part: TablePart) -> Hindrance | None:
    of = f"{part.name}, a partition of {table.sql_name},"
    if part.kind != "r":
        hint = f"ALTER TABLE {table.sql_name} DETACH PARTITION {part.name};"
        return Hindrance(f"{of} is {_KINDS.get(part.kind, 'no table')}: its changes are not in the log", hint)
    if part.persistence != "p":
        hint = f"ALTER TABLE {part.name} SET LOGGED;"
        return Hindrance(f"{of} is unlogged: its changes are not in the log", hint)
    if part.identity not in "df":
        hint = f"ALTER TABLE {part.name} REPLICA IDENTITY DEFAULT;"
        return Hindrance(f"{of} has a replica identity of its own: its changes may not say which row changed", hint)
    return None


def _instead(table: TableForm) -> str:
    if table.kind == "f":
        return "declare the table in the database where it is"
    return "declare the tables that it reads, and write the query as a view of the project"


def _check_columns(source: Source, facts: TableFacts) -> Iterator[Problem]:
    table = {column.name: column for column in facts.columns}
    if source.columns is None:
        for present in facts.columns:
            yield from _find_left_out(source, present, facts)
        return
    for declared in source.columns:
        column = table.get(declared.name)
        if column is None:
            what = f'column "{declared.name}" of source "{source.name}" is not in {facts.sql_name}'
            yield _finding(source, what, nearest_name(declared.name, table) or "remove it from `columns`")
        else:
            yield from _check_column(source, declared, column, facts)


def _find_left_out(source: Source, column: ColumnFacts, facts: TableFacts) -> Iterator[Problem]:
    if column.generated:
        what = f'column "{column.name}" of {facts.sql_name} is generated and left out'
        yield _finding(source, what, "write its expression in the view", Severity.WARNING)
    elif column.type is None:
        what = f'column "{column.name}" of {facts.sql_name} has type {column.type_name} and is left out'
        yield _finding(source, what, "keep a copy as text in another column if a view needs it", Severity.WARNING)


def _check_column(source: Source, declared: SourceColumn, column: ColumnFacts, facts: TableFacts) -> Iterator[Problem]:
    what = f'column "{declared.name}" of source "{source.name}"'
    if column.generated:
        hint = (
            f"ALTER TABLE {facts.sql_name} ALTER COLUMN {quote_name(column.name)} DROP EXPRESSION;   or do without it"
        )
        yield _finding(source, f"{what} {column.why_left_out}", hint)
    elif column.type is None:
        hint = "remove it from `columns`, or keep a copy as text in another column"
        yield _finding(source, f"{what} {column.why_left_out}", hint)
    elif not holds(declared.type, column.type):
        yield _finding(source, f"{what} is declared {declared.type}, and is {column.type_name}", f"write {column.type}")
    elif declared.origin_type not in (None, OriginType.TEXT, column.origin_type):
        what = f"{what} is declared {declared.origin_type}, and is {column.type_name}: it is read as that"
        yield _finding(source, what, f"write {column.type_name}", Severity.WARNING)


def holds(declared: Type, actual: Type) -> bool:
    """Whether every value of the column's type is one of the declared type."""
    if declared == actual:
        return True
    if isinstance(declared, Array) and isinstance(actual, Array):
        # An array of PostgreSQL may have values of any depth, whatever it is declared with.
        return _find_innermost(declared) == _find_innermost(actual)
    if isinstance(declared, Decimal) and isinstance(actual, Decimal):
        whole = declared.precision - declared.scale >= actual.precision - actual.scale
        return whole and declared.scale >= actual.scale
    return any(
        declared in family and actual in family and family.index(declared) > family.index(actual)
        for family in (INTEGERS, FRACTIONS)
    )


def _check_key(source: Source, facts: TableFacts) -> Iterator[Problem]:
    key = source.key or facts.primary_key
    if facts.kind == "p" and not key:
        what = f"{facts.sql_name} is partitioned and has no primary key: its changes do not say which row changed"
        yield _finding(source, what, _add_key(facts))
    elif facts.identity == "f":
        if source.key and not _is_unique(source.key, facts):
            yield _not_unique(source, facts)
    elif not key:
        hint = f"{_add_key(facts)}, or ALTER TABLE {facts.sql_name} REPLICA IDENTITY FULL;"
        yield _finding(source, f"{facts.sql_name} has no primary key: its changes do not say which row changed", hint)
    elif not _is_unique(key, facts):
        yield _not_unique(source, facts)
    elif not set(key) <= set(facts.identity_key):
        yield _finding(
            source, f"changes of {facts.sql_name} do not name rows by {', '.join(key)}", _name_rows(key, facts)
        )


def _add_key(facts: TableFacts) -> str:
    first = ", ".join(quote_name(column.name) for column in facts.columns[:1])
    return f"ALTER TABLE {facts.sql_name} ADD PRIMARY KEY ({first});   with the columns that name a row"


def _is_unique(key: tuple[str, ...], facts: TableFacts) -> bool:
    return any(set(unique.columns) <= set(key) for unique in facts.unique_keys)


def _not_unique(source: Source, facts: TableFacts) -> Problem:
    columns = ", ".join(map(quote_name, source.key))
    what = f'key {", ".join(source.key)} of source "{source.name}" is not kept unique by {facts.sql_name}'
    hint = f"ALTER TABLE {facts.sql_name} ADD PRIMARY KEY ({columns});"
    if facts.primary_key:
        hint = f"its primary key is {', '.join(facts.primary_key)}"
    return _finding(source, what, hint)


def _name_rows(key: tuple[str, ...], facts: TableFacts) -> str:
    if set(key) == set(facts.primary_key):
        return f"ALTER TABLE {facts.sql_name} REPLICA IDENTITY DEFAULT;"
    index = next((unique.index for unique in facts.unique_keys if set(unique.columns) == set(key)), None)
    identity = f"USING INDEX {quote_name(index)}" if index else "FULL"
    return f"ALTER TABLE {facts.sql_name} REPLICA IDENTITY {identity};"


def _finding(source: Source, what: str, hint: str, severity: Severity = Severity.ERROR) -> Problem:
    return Problem(what, source.declared_at, hint, severity)


def _find_innermost(type_: Type) -> Type:
    while isinstance(type_, Array):
        type_ = type_.element
    return type_
