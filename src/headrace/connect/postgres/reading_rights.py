"""Whether our role may read all rows of a table; if not, why, with the SQL that fixes it.

Row-level security counts as well: what is read would lack rows that the log has. Sessions of captures are opened with
`row_security=off`, which makes such a query fail instead of leaving rows out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from headrace.connect.postgres.facts import Hindrance
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import SqlTable
from headrace.model.table_name import quote_name


@dataclass(frozen=True, slots=True)
class ReadingRights:
    """What a role may read of a table: `hides_rows` is whether row-level security binds it."""

    role: str
    may_enter: bool
    may_select: bool
    hides_rows: bool


def find_unreadable(session: Connection, columns: Sequence[str], table: SqlTable) -> Hindrance | None:
    """Tries to read no rows. May be called within a transaction."""
    listed = sql.SQL(", ").join(map(sql.Identifier, columns)) if columns else sql.SQL("*")
    try:
        with session.transaction():
            session.execute(sql.SQL("SELECT {} FROM {} LIMIT 0").format(listed, table.identifier))
    except psycopg.errors.InsufficientPrivilege as error:
        return explain_unreadable(session, table, error)
    return None


def explain_unreadable(session: Connection, table: SqlTable, error: psycopg.errors.InsufficientPrivilege) -> Hindrance:
    about = session.execute(_RIGHTS, {"schema": table.schema, "name": table.name}).fetchone()
    found = None if about is None else say_unreadable(table, ReadingRights(**about))
    if found is not None:
        return found
    select = f"GRANT SELECT ON {table.sql_name} TO {quote_name(session.info.user)};"
    return Hindrance(f"{table.sql_name} cannot be read: {error.diag.message_primary}", select)


def say_unreadable(table: SqlTable, rights: ReadingRights) -> Hindrance | None:
    """Why not all rows can be read, and the SQL that fixes it; None if they can."""
    role, name, to = rights.role, table.sql_name, quote_name(rights.role)
    select = f"GRANT SELECT ON {name} TO {to};"
    if not rights.may_enter:
        return Hindrance(
            f'role "{role}" may not read {name}', f"GRANT USAGE ON SCHEMA {quote_name(table.schema)} TO {to}; {select}"
        )
    if not rights.may_select:
        return Hindrance(f'role "{role}" may not read {name}', select)
    if rights.hides_rows:
        return Hindrance(f'row-level security hides rows of {name} from role "{role}"', f"ALTER ROLE {to} BYPASSRLS;")
    return None


_RIGHTS: LiteralString = """
SELECT current_user::text AS role, has_schema_privilege(n.oid, 'USAGE') AS may_enter,
       has_table_privilege(c.oid, 'SELECT') AS may_select, row_security_active(c.oid) AS hides_rows
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %(schema)s AND c.relname = %(name)s
"""
