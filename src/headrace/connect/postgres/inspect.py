"""Asks PostgreSQL about the tables of sources: their columns, their sizes, and whether they can be captured.

Reads only the system catalogue (and counts a table that was never analysed, if it is small). Changes nothing. Messages
contain no address, because it may contain a password.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, LiteralString

import psycopg

from headrace.connect.postgres.differences import find_differences
from headrace.connect.postgres.facts import HAS_TEXTS, ColumnFacts, TableFacts, TablePart, UniqueKey
from headrace.connect.postgres.fill import fill_source
from headrace.connect.postgres.readiness import check_table, missing_table
from headrace.connect.postgres.sessions import Connection, check_version, connect_reading, reason
from headrace.model.catalogue import PostgresTable, Source
from headrace.model.errors import ConnectError, Problem, Severity
from headrace.model.table_name import TableName, read_table_name

COUNT_UP_TO_BYTES = 100_000_000
"""A table of this size is counted in well under a second."""

NO_UTF8_NAME = "it has encoding SQL_ASCII, and the name of a table or column is not UTF-8"
SQL_ASCII_HINT = "rename it, or restore the database into one that is made with ENCODING 'UTF8'"
SQL_ASCII = "it has encoding SQL_ASCII, so its texts are read as UTF-8: one that is not UTF-8 stops its source"


def inspect_sources(
    sources: Mapping[str, Source], addresses: Mapping[str, str]
) -> tuple[dict[str, Source], tuple[Problem, ...]]:
    """The sources with what was measured filled in under what is declared, and what makes them unfit for capture.

    `addresses` maps each DSN as written to the DSN with its variables filled in. Sources without one stay as they are.
    """
    found = dict(sources)
    problems: list[Problem] = []
    for written, address in addresses.items():
        own = [s for s in sources.values() if isinstance(s.origin, PostgresTable) and s.origin.dsn == written]
        try:
            with connect_reading(address) as connection:
                check_version(connection.info.server_version)
                for source in own:
                    found[source.name], findings = _inspect_source(connection, source)
                    problems += findings
        except ConnectError as error:
            problems.append(unreachable(error.message, error.hint, own))
        except psycopg.errors.CharacterNotInRepertoire:
            problems.append(unreachable(NO_UTF8_NAME, SQL_ASCII_HINT, own))
        except psycopg.Error as error:
            problems.append(unreachable(f"the database stopped answering: {reason(error, address)}", None, own))
    return found, tuple(problems)


def inspect_differences(address: str, sources: Sequence[Source]) -> Iterator[Problem]:
    """Warnings about columns of these sources. A database that does not answer is told of by `inspect_sources`."""
    try:
        with connect_reading(address) as connection:
            if _one(connection, "SHOW server_encoding")["server_encoding"] == "SQL_ASCII":
                yield replace(unreachable(SQL_ASCII, SQL_ASCII_HINT, sources), severity=Severity.WARNING)
            for source in sources:
                assert isinstance(source.origin, PostgresTable)
                facts = ask_table(connection, source.origin.table, count=False)
                yield from () if facts is None else find_differences(source, facts)
    except (ConnectError, psycopg.Error):
        return


def unreachable(message: str, hint: str | None, sources: Sequence[Source]) -> Problem:
    names = ", ".join(f'"{source.name}"' for source in sources)
    whose = f"database of {'source' if len(sources) == 1 else 'sources'} {names}"
    return Problem(f"{whose}: {message}", sources[0].declared_at, hint)


def ask_table(connection: Connection, table: str, count: bool = True) -> TableFacts | None:
    """Facts about a table, by its name in SQL; None when there is none of that name.

    `count` is whether the rows of a small table that was never analysed are counted.
    """
    asked = read_table_name(table)
    row = _one(connection, _TABLE, {"schema": asked.schema, "name": asked.name})
    if not row:
        return None
    columns = connection.execute(_COLUMNS, {"oid": row["oid"]}).fetchall()
    facts = TableFacts(
        schema=row["schema"],
        name=row["name"],
        kind=row["kind"],
        persistence=row["persistence"],
        identity=row["identity"],
        identity_key=tuple(row["identity_key"] or ()),
        primary_key=tuple(row["primary_key"] or ()),
        unique_keys=tuple(UniqueKey(key["index"], tuple(key["columns"])) for key in row["unique_keys"]),
        may_select=row["may_select"],
        rows=row["rows"] if row["rows"] >= 0 else None,
        columns=tuple(ColumnFacts(**{**one, "labels": tuple(one["labels"] or ())}) for one in columns),
        parts=tuple(TablePart(**part) for part in row["parts"]),
    )
    if count and facts.rows is None and facts.may_select:
        return replace(facts, rows=_count_small_table(connection, facts, row["oid"]))
    return facts


def _inspect_source(connection: Connection, source: Source) -> tuple[Source, tuple[Problem, ...]]:
    assert isinstance(source.origin, PostgresTable)
    facts = ask_table(connection, source.origin.table)
    if facts is None:
        tables = [TableName(row["schema"], row["name"]) for row in connection.execute(_TABLE_NAMES)]
        return source, (missing_table(source, tables),)
    return fill_source(source, facts), tuple(check_table(source, facts))


def _count_small_table(connection: Connection, facts: TableFacts, oid: int) -> float | None:
    """The rows of a table, unless it is large or somebody has locked it: both its size and its rows wait for locks."""
    try:
        is_small = _one(connection, _SIZE, {"oid": oid})["bytes"] <= COUNT_UP_TO_BYTES
        return _count_rows(connection, facts) if is_small else None
    except psycopg.errors.LockNotAvailable:
        return None


def _count_rows(connection: Connection, facts: TableFacts) -> float | None:
    """None if row-level security lets us see only some rows: who tries to read the table says so."""
    query = psycopg.sql.SQL("SELECT count(*)::float AS rows FROM {}")
    try:
        row = connection.execute(query.format(psycopg.sql.Identifier(facts.schema, facts.name))).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return None
    assert row is not None
    return float(row["rows"])


def _one(
    connection: Connection, query: LiteralString, parameters: Mapping[str, object] | None = None
) -> dict[str, Any]:
    return connection.execute(query, parameters).fetchone() or {}


_TABLE: LiteralString = """
WITH tables AS (
    SELECT c.*, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = %(name)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND CASE WHEN %(schema)s::text IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = %(schema)s END
), keys AS (
    SELECT (SELECT relname::text FROM pg_class WHERE oid = i.indexrelid) AS index, i.indisprimary, i.indisreplident,
           array_agg(a.attname::text ORDER BY k.position) AS columns, bool_or(NOT a.attnotnull) AS nullable
    FROM tables JOIN pg_index i ON i.indrelid = tables.oid
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, position)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
      AND k.position <= i.indnkeyatts
    GROUP BY i.indexrelid, i.indisprimary, i.indisreplident
), parts AS (
    SELECT format('%%I.%%I', n.nspname, c.relname) AS name, c.relkind::text AS kind,
           c.relpersistence::text AS persistence, c.relreplident::text AS identity, c.reltuples
    FROM tables CROSS JOIN LATERAL (
        SELECT relid FROM pg_partition_tree(tables.oid) WHERE tables.relkind = 'p' AND isleaf
        UNION ALL SELECT inhrelid FROM pg_inherits WHERE tables.relkind <> 'p' AND inhparent = tables.oid
    ) AS part(oid)
    JOIN pg_class c ON c.oid = part.oid JOIN pg_namespace n ON n.oid = c.relnamespace
)
SELECT t.oid, t.nspname::text AS schema, t.relname::text AS name, t.relkind::text AS kind,
       t.relpersistence::text AS persistence, t.relreplident::text AS identity,
       CASE WHEN t.relkind <> 'p' THEN t.reltuples
            WHEN (SELECT bool_and(reltuples >= 0) FROM parts) THEN (SELECT sum(reltuples) FROM parts)
            ELSE -1 END::float AS rows,
       (SELECT coalesce(json_agg(json_build_object('name', name, 'kind', kind, 'persistence', persistence,
                                                   'identity', identity) ORDER BY name), '[]') FROM parts) AS parts,
       has_schema_privilege(t.relnamespace, 'USAGE') AND has_table_privilege(t.oid, 'SELECT') AS may_select,
       (SELECT columns FROM keys WHERE indisprimary) AS primary_key,
       (SELECT columns FROM keys
        WHERE CASE t.relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident END) AS identity_key,
       (SELECT coalesce(json_agg(json_build_object('index', index, 'columns', columns) ORDER BY index), '[]')
        FROM keys WHERE NOT nullable) AS unique_keys
FROM tables t
"""

_SIZE: LiteralString = """
SELECT coalesce(sum(pg_relation_size(part)), 0) AS bytes FROM (
    SELECT %(oid)s::regclass UNION SELECT relid FROM pg_partition_tree(%(oid)s::regclass)
) AS parts(part)
"""

_COLUMNS: LiteralString = (
    """
SELECT a.attname::text AS name,
       CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod)
            ELSE format_type(a.atttypid, a.atttypmod) END AS type_name,
       """
    + HAS_TEXTS
    + """ AS as_text,
       NOT a.attnotnull AS nullable,
       a.attgenerated <> '' AS generated,
       a.attndims::int AS depth,
       (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e
        WHERE e.enumtypid IN (t.oid, t.typbasetype)) AS labels,
       s.avg_width::float AS width,
       nullif(s.n_distinct, 0)::float AS distinct,
       CASE WHEN co.collprovider = 'b' OR co.locale ~ '^(C|POSIX)([.].*)?$' THEN NULL ELSE co.name END AS sorted_by,
       coalesce(co.collisdeterministic, true) AS deterministic
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stats s ON (s.schemaname, s.tablename, s.attname) = (n.nspname, c.relname, a.attname)
     AND s.inherited = (c.relkind = 'p')
LEFT JOIN (
    SELECT k.oid, k.collisdeterministic, coalesce(d.provider, k.collprovider::text) AS collprovider,
           coalesce(d.name, k.collname::text) AS name,
           CASE coalesce(d.provider, k.collprovider::text) WHEN 'c' THEN coalesce(d.locale, k.collcollate) END AS locale
    FROM pg_collation k LEFT JOIN (
        -- Before PostgreSQL 15 a database has no provider: the column is looked for in the row.
        SELECT 'd' AS is_default, coalesce(to_jsonb(b) ->> 'datlocprovider', 'c') AS provider, b.datcollate AS locale,
               coalesce(to_jsonb(b) ->> 'datlocale', to_jsonb(b) ->> 'daticulocale', b.datcollate) AS name
        FROM pg_database b WHERE b.datname = current_database()
    ) d ON k.collprovider::text = d.is_default
) co ON co.oid = a.attcollation
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
)

_TABLE_NAMES: LiteralString = """
SELECT n.nspname::text AS schema, c.relname::text AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
ORDER BY 1, 2 LIMIT 10000
"""
