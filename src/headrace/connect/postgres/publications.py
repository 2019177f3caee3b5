"""Makes the publications of a capture hold its tables; says why a table cannot be published, and how to fix it.

Two publications, because a table without a key could not be updated any more if its updates were published: tables are
published with all changes, streams with insertions only.

A partitioned table is published as a whole: changes of all its partitions come under its own name, so a partition of
it cannot be a source beside it.

A table that cannot be added stops nobody but its own source. Publications may also be made by somebody else, for whom
we then have no right to change them: that is fine as long as they hold what we need. A publication that somebody gave a
row filter, too few columns or too few operations is put right; what it left out meanwhile has to be read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from headrace.connect.postgres.facts import Hindrance
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import SqlTable
from headrace.connect.postgres.waits import say_locked
from headrace.model.errors import ConnectError
from headrace.model.table_name import quote_name

ALL_CHANGES = "insert, update, delete, truncate"
INSERTIONS = "insert"
ONE_OF_TWO = "declare one of the two; a view can choose the rows of a partition"
_ROOTS = ", publish_via_partition_root = true"


@dataclass(frozen=True, slots=True)
class Published:
    """The tables that were added to a publication, or put right in it, and those that could not be.

    `created` is whether there was no such publication.
    """

    added: tuple[SqlTable, ...]
    refused: Mapping[SqlTable, Hindrance]
    created: bool = False


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """How a publication publishes a table: `columns` is None for all of them.

    `listed` is False where it publishes all tables, or all of a schema: such a table cannot be taken out. A partitioned
    table is not `whole` where changes come under the names of its partitions.
    """

    listed: bool
    filtered: bool
    columns: frozenset[str] | None
    whole: bool

    def lacks(self, columns: frozenset[str]) -> bool:
        return self.filtered or not self.whole or (self.columns is not None and not columns <= self.columns)


WantedTables = Mapping[SqlTable, frozenset[str]]
"""Tables to publish, each with the columns that have to be among those that are published."""


def publish(session: Connection, publication: str, tables: WantedTables, operations: str) -> Published:
    """Make the publication hold these tables and no others. Raises ConnectError if there can be no publication at all.

    May be called within a transaction.
    """
    present = _tables_in(session, publication)
    created = not _exists(session, publication)
    if created:
        _create(session, publication, tuple(tables), operations)
    elif not _publishes(session, publication, operations):
        refused = _set_operations(session, publication, operations)
        if refused is not None:
            return Published((), dict.fromkeys(tables, refused))
        present = {table: one for table, one in present.items() if table not in tables}
    _publish_as_roots(session, publication)
    for table in sorted((one for one in present if present[one].listed and one not in tables), key=str):
        try:
            with session.transaction():
                session.execute(_alter(publication, "DROP", table))
        except psycopg.errors.LockNotAvailable:
            continue  # the next capture tries again
        except psycopg.errors.InsufficientPrivilege:
            continue  # somebody made the publication for us: changes of a table that nobody asks for are passed over
    wrong = [table for table, columns in tables.items() if table not in present or present[table].lacks(columns)]
    refused_tables = {table: why for table in wrong if (why := _add(session, publication, table)) is not None}
    return Published(tuple(table for table in wrong if table not in refused_tables), refused_tables, created)


def find_unpublishable(
    session: Connection, publication: str, table: SqlTable, columns: frozenset[str], operations: str
) -> Hindrance | None:
    """Why a table could not be added to a publication now; None if it could, or is in it."""
    with session.transaction(force_rollback=True):
        if not _publishes(session, publication, operations):
            return _set_operations(session, publication, operations)
        present = _tables_in(session, publication).get(table)
        return _add(session, publication, table) if present is None or present.lacks(columns) else None


def _tables_in(session: Connection, publication: str) -> dict[SqlTable, PublishedTable]:
    return {
        SqlTable(row["schema"], row["name"]): PublishedTable(
            row["listed"],
            row["filtered"],
            None if row["columns"] is None else frozenset(row["columns"]),
            row["whole"],
        )
        for row in session.execute(_TABLES_IN, [publication])
    }


def find_covered(session: Connection, tables: Sequence[SqlTable]) -> dict[SqlTable, SqlTable]:
    """Finds tables that are partitions of others of these: their changes come under the names of those."""
    rows = session.execute(_ANCESTORS, {"schemas": [t.schema for t in tables], "names": [t.name for t in tables]})
    pairs = [(SqlTable(row["schema"], row["name"]), SqlTable(row["root_schema"], row["root"])) for row in rows]
    return {table: root for table, root in pairs if root in tables}


def say_covered(table: SqlTable, root: SqlTable) -> Hindrance:
    name, of = table.sql_name, root.sql_name
    what = f"{name} is a partition of {of}, which is a source as well: its changes come under the name of {of}"
    return Hindrance(what, ONE_OF_TWO)


_ANCESTORS: LiteralString = """
SELECT n.nspname::text AS schema, c.relname::text AS name, m.nspname::text AS root_schema, r.relname::text AS root
FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS asked(schema, name)
JOIN pg_namespace n ON n.nspname = asked.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = asked.name
CROSS JOIN LATERAL pg_partition_ancestors(c.oid) AS ancestor(oid)
JOIN pg_class r ON r.oid = ancestor.oid AND r.oid <> c.oid JOIN pg_namespace m ON m.oid = r.relnamespace
"""


def _publish_as_roots(session: Connection, publication: str) -> None:
    """Publications that earlier versions made, or somebody else, may name partitions instead of their tables."""
    query = "SELECT pubviaroot AS whole FROM pg_publication WHERE pubname = %s"
    if not _one(session, query, [publication])["whole"]:
        alter = sql.SQL("ALTER PUBLICATION {} SET (publish_via_partition_root = true)")
        try:
            with session.transaction():
                session.execute(alter.format(sql.Identifier(publication)))
        except psycopg.errors.InsufficientPrivilege:
            return  # it is not ours, and has no partitioned table: one that it is to have is then said to be missing


def _exists(session: Connection, publication: str) -> bool:
    return session.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", [publication]).fetchone() is not None


def _publishes(session: Connection, publication: str, operations: str) -> bool:
    """Whether the publication publishes these operations, or does not exist."""
    row = _one(session, _OPERATIONS, {"publication": publication})
    return not row or all(row[operation] for operation in operations.split(", "))


def _set_operations(session: Connection, publication: str, operations: str) -> Hindrance | None:
    statement = sql.SQL("ALTER PUBLICATION {} SET (publish = {})")
    try:
        with session.transaction():
            session.execute(statement.format(sql.Identifier(publication), sql.Literal(operations)))
    except psycopg.errors.InsufficientPrivilege:
        alter = f"ALTER PUBLICATION {quote_name(publication)} SET (publish = '{operations}');"
        return Hindrance(f'publication "{publication}" does not publish {operations}', alter)
    return None


def _create(session: Connection, publication: str, tables: Sequence[SqlTable], operations: str) -> None:
    create_it = sql.SQL("CREATE PUBLICATION {} WITH (publish = {}, publish_via_partition_root = true)")
    try:
        with session.transaction():
            session.execute(create_it.format(sql.Identifier(publication), sql.Literal(operations)))
    except psycopg.errors.InsufficientPrivilege:
        about = _one(session, "SELECT current_user AS role, current_database()::text AS database")
        role, database = quote_name(about["role"]), quote_name(about["database"])
        what = f'role "{about["role"]}" may not create publications in database "{about["database"]}"'
        listed = ", ".join(table.sql_name for table in tables)
        for_tables = f" FOR TABLE {listed}" if tables else ""
        create = f"CREATE PUBLICATION {quote_name(publication)}{for_tables} WITH (publish = '{operations}'{_ROOTS});"
        hint = f"GRANT CREATE ON DATABASE {database} TO {role};   or, as a superuser: {create}"
        raise ConnectError(what, hint) from None
    except psycopg.errors.ReadOnlySqlTransaction:
        raise ConnectError(
            "the server is a standby, or lets nobody write: publications cannot be created there",
            "use the address of the primary server",
        ) from None


def _add(session: Connection, publication: str, table: SqlTable) -> Hindrance | None:
    """Adds a table with all its rows and columns; one that is listed with fewer is taken out first."""
    present = _tables_in(session, publication).get(table)
    try:
        with session.transaction():
            if present is not None and present.listed:
                session.execute(_alter(publication, "DROP", table))
            session.execute(_alter(publication, "ADD", table))
    except psycopg.errors.InsufficientPrivilege as error:
        return _explain_refusal(session, publication, table, error, present)
    except psycopg.errors.LockNotAvailable:
        return explain_lock(session, table)
    except (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
        add = f"ALTER PUBLICATION {quote_name(publication)} ADD TABLE {table.sql_name};   says more"
        return Hindrance(f"{table.sql_name} cannot be published: {error.diag.message_primary}", add)
    return None


def explain_lock(session: Connection, table: SqlTable) -> Hindrance:
    """Who has locked a table that we could not wait for."""
    found = say_locked(session, table.schema, table.name)
    return Hindrance(found.message, found.hint or "")


def _alter(publication: str, verb: LiteralString, table: SqlTable) -> sql.Composed:
    statement = sql.SQL("ALTER PUBLICATION {} {} TABLE ONLY {}")
    return statement.format(sql.Identifier(publication), sql.SQL(verb), table.identifier)


def _explain_refusal(
    session: Connection,
    publication: str,
    table: SqlTable,
    error: psycopg.errors.InsufficientPrivilege,
    present: PublishedTable | None,
) -> Hindrance:
    about = _one(session, _ABOUT_TABLE, {"schema": table.schema, "name": table.name, "publication": publication})
    name, role, owner = table.sql_name, quote_name(about["role"]), quote_name(about["owner"] or "")
    add = f"ALTER PUBLICATION {quote_name(publication)} ADD TABLE {name};"
    if not about["may_enter"]:
        return Hindrance(
            f'role "{about["role"]}" may not use schema "{table.schema}"',
            f"GRANT USAGE ON SCHEMA {quote_name(table.schema)} TO {role}; GRANT SELECT ON {name} TO {role};",
        )
    if not about["owns_publication"]:
        lacks = "lacks" if present is None else "has a row filter or a list of columns for"
        what = f'publication "{publication}" belongs to role "{about["publisher"]}" and {lacks} {name}'
        drop = "" if present is None else f"ALTER PUBLICATION {quote_name(publication)} DROP TABLE {name}; "
        if about["is_partitioned"]:
            add = f"{add} ALTER PUBLICATION {quote_name(publication)} SET ({_ROOTS.removeprefix(', ')});"
        return Hindrance(what, f"{drop}{add}   as {about['publisher']}")
    if about["owns_table"]:
        return Hindrance(f"{name} cannot be published: {error.diag.message_primary}", add)
    what = f'{name} belongs to role "{about["owner"]}": role "{about["role"]}" may not publish its changes'
    if about["owner_is_superuser"]:
        return Hindrance(what, f"ALTER TABLE {name} OWNER TO {role};   or, once we run, as a superuser: {add}")
    return Hindrance(what, f"GRANT {owner} TO {role};   or ALTER TABLE {name} OWNER TO {role};")


def _one(
    session: Connection, query: LiteralString, parameters: Mapping[str, object] | Sequence[object] | None = None
) -> dict[str, Any]:
    return session.execute(query, parameters).fetchone() or {}


_OPERATIONS: LiteralString = """
SELECT pubinsert AS insert, pubupdate AS update, pubdelete AS delete, pubtruncate AS truncate
FROM pg_publication WHERE pubname = %(publication)s
"""

# Not the view pg_publication_tables: it opens each table, and waits for whoever has locked one.
_TABLES_IN: LiteralString = """
SELECT n.nspname::text AS schema, c.relname::text AS name, r.oid IS NOT NULL AS listed,
       r.prqual IS NOT NULL AS filtered, p.pubviaroot OR c.relkind <> 'p' AS whole,
       (SELECT array_agg(a.attname::text) FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum = ANY(r.prattrs::int2[])) AS columns
FROM pg_publication p JOIN pg_class c ON c.relkind IN ('r', 'p') JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
WHERE p.pubname = %s AND (r.oid IS NOT NULL OR p.puballtables OR EXISTS (
    SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace))
"""

_ABOUT_TABLE: LiteralString = """
SELECT current_user::text AS role, pg_get_userbyid(c.relowner)::text AS owner,
       (SELECT rolsuper FROM pg_roles WHERE oid = c.relowner) AS owner_is_superuser,
       pg_has_role(c.relowner, 'USAGE') AS owns_table,
       has_schema_privilege(n.oid, 'USAGE') AS may_enter,
       coalesce(pg_has_role(p.pubowner, 'USAGE'), true) AS owns_publication,
       pg_get_userbyid(p.pubowner)::text AS publisher, c.relkind = 'p' AS is_partitioned
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_publication p ON p.pubname = %(publication)s
WHERE n.nspname = %(schema)s AND c.relname = %(name)s
"""
