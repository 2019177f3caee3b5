"""Whether our role may read all rows of a table; if not, why, with the SQL that fixes it.

Row-level security counts as well: what is read would lack rows that the log has. Sessions of captures are opened with
`row_security=off`, which makes such a query fail instead of leaving rows out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

import psycopg
from psycopg import sql

from headrace.connect.postgres.facts import Hindrance
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import SqlTable
from headrace.model.table_name import quote_name


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
    about = session.execute(_RIGHTS, {"schema": table.schema, "name": table.name}).fetchone() or {}
    role = about.get("role", session.info.user)
    name, to = table.sql_name, quote_name(role)
    select = f"GRANT SELECT ON {name} TO {to};"
    if not about.get("may_enter", True):
        return Hindrance(
            f'role "{role}" may not read {name}', f"GRANT USAGE ON SCHEMA {quote_name(table.schema)} TO {to}; {select}"
        )
    if not about.get("may_select", True):
        return Hindrance(f'role "{role}" may not read {name}', select)
    if about.get("hides_rows"):
        return Hindrance(f'row-level security hides rows of {name} from role "{role}"', f"ALTER ROLE {to} BYPASSRLS;")
    return Hindrance(f"{name} cannot be read: {error.diag.message_primary}", select)


_RIGHTS: LiteralString = """
SELECT current_user::text AS role, has_schema_privilege(n.oid, 'USAGE') AS may_enter,
       has_table_privilege(c.oid, 'SELECT') AS may_select, c.relrowsecurity AS hides_rows
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %(schema)s AND c.relname = %(name)s
"""
