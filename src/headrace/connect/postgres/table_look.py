"""Looks at all captured tables of a database in one statement, which reads the catalogue and waits for nobody.

It calls no function that opens a table: `pg_relation_size` or the view `pg_publication_tables` would wait for as long
as somebody has locked one. In a transaction with a snapshot it answers as of that snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

from headrace.connect.postgres.facts import HAS_TEXTS, ColumnFacts, TableForm, TablePart
from headrace.connect.postgres.reading_rights import ReadingRights
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import SqlTable
from headrace.model.table_name import TableName, read_table_name
from headrace.run.capture.spool import CapturedTable
from headrace.run.capture.table_fingerprint import TableFingerprint, make_fingerprint


@dataclass(frozen=True, slots=True)
class AskedTable:
    """A table to look at. `publication` is None for one that is not published, `known_oid` of the table it was."""

    captured: CapturedTable
    publication: str | None
    known_oid: int | None = None

    def to_json(self) -> dict[str, object]:
        name = read_table_name(self.captured.table)
        return {
            "source": self.captured.source,
            "schema_name": name.schema,
            "table_name": name.name,
            "names": self.captured.names,
            "key_names": self.captured.key,
            "publication": self.publication,
            "known_oid": self.known_oid,
        }


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table that is there. `rows` is the database's estimate, None before ANALYZE.

    `identity_key` are the columns that name a row in the log. `columns` are those that are captured; what statistics
    say of them is left out.
    """

    table: SqlTable
    form: TableForm
    rows: float | None
    columns: tuple[ColumnFacts, ...]
    identity_key: tuple[str, ...]
    primary_key: tuple[str, ...]
    fingerprint: TableFingerprint
    rights: ReadingRights


@dataclass(frozen=True, slots=True)
class MissingTable:
    """No table has the name. `now_called` is what the table is called that had it."""

    now_called: str | None


def look_at_tables(session: Connection, tables: Iterable[AskedTable]) -> dict[str, SeenTable | MissingTable]:
    """Finds what is known of each source's table."""
    asked = json.dumps([table.to_json() for table in tables])
    return read_look(session.execute(LOOK, {"asked": asked}))


def read_look(rows: Iterable[Mapping[str, Any]]) -> dict[str, SeenTable | MissingTable]:
    """What `LOOK` found."""
    return {row["source"]: _read_row(row) for row in rows}


def _read_row(row: Mapping[str, Any]) -> SeenTable | MissingTable:
    if row["oid"] is None:
        was = row["renamed"]
        return MissingTable(None if was is None else str(TableName(was["schema"], was["name"])))
    columns = row["columns"] or []
    return SeenTable(
        table=SqlTable(row["schema"], row["name"]),
        form=TableForm(
            str(TableName(row["schema"], row["name"])),
            row["kind"],
            row["persistence"],
            tuple(TablePart(**one) for one in row["members"] or []),
        ),
        rows=row["rows"] if row["rows"] >= 0 else None,
        columns=tuple(ColumnFacts(one["name"], one["type_name"], one["as_text"], True, False, None, None)
                      for one in columns),
        identity_key=tuple(row["identity_key"] or ()),
        primary_key=tuple(row["primary_key"] or ()),
        fingerprint=make_fingerprint(
            {
                **{name: row[name] for name in ("system", "timeline", "oid", "identity", "key_is_unique", "horizon")},
                "row_security": row["row_security"],
                "columns": [{name: one[name] for name in _COLUMN_FIELDS} for one in columns],
                "parts": row["parts"] or [],
                "published": row["published"],
                "children": row["children"] or [],
            }
        ),
        rights=ReadingRights(**{name: row[name] for name in _RIGHTS_FIELDS}),
    )  # fmt: skip


_RIGHTS_FIELDS = ("role", "may_enter", "may_select", "hides_rows")
_COLUMN_FIELDS = ("name", "number", "type_oid", "modifier", "labels", "written_by")

LOOK: LiteralString = (
    """
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(asked)s::jsonb) AS a(
        source text, schema_name text, table_name text, names text[], key_names text[], publication text,
        known_oid bigint)
), found AS MATERIALIZED (
    SELECT a.*, c.oid, c.relname, n.nspname, c.relnamespace, c.relkind, c.reltuples, c.relreplident, c.relrowsecurity,
           c.relpersistence
    FROM asked a JOIN pg_class c ON c.relname = a.table_name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE CASE WHEN a.schema_name IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = a.schema_name END
), below AS (
    SELECT f.oid AS root, i.inhrelid AS oid FROM (SELECT DISTINCT oid FROM found) f
    JOIN pg_inherits i ON i.inhparent = f.oid
    UNION SELECT b.root, i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.oid
), keys AS MATERIALIZED (
    SELECT i.indrelid, i.indisprimary, i.indisreplident,
           array_agg(a.attname::text ORDER BY k.position) AS columns, bool_or(NOT a.attnotnull) AS nullable
    FROM (SELECT DISTINCT oid FROM found) f JOIN pg_index i ON i.indrelid = f.oid
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, position)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
      AND k.position <= i.indnkeyatts
    GROUP BY i.indexrelid, i.indrelid, i.indisprimary, i.indisreplident
)
SELECT a.source, f.oid::bigint AS oid, f.nspname::text AS schema, f.relname::text AS name, f.relkind::text AS kind,
       f.reltuples::float AS rows, f.relreplident::text AS identity, f.relrowsecurity AS row_security,
       (SELECT system_identifier::text FROM pg_control_system()) AS system,
       (SELECT timeline_id::text FROM pg_control_checkpoint()) AS timeline,
       pg_snapshot_xmin(pg_current_snapshot())::text AS horizon,
       (SELECT json_build_object('schema', n.nspname, 'name', c.relname) FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = a.known_oid) AS renamed,
       (SELECT json_agg(json_build_object(
            'name', x.attname, 'number', x.attnum, 'type_oid', x.atttypid::bigint, 'modifier', x.atttypmod,
            'written_by', x.xmin::text, 'as_text', """
    + HAS_TEXTS
    + """,
            'type_name', CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod)
                              ELSE format_type(x.atttypid, x.atttypmod) END,
            'labels', coalesce((SELECT json_object_agg(e.oid::text, e.enumlabel ORDER BY e.oid) FROM pg_enum e
                                WHERE e.enumtypid IN (t.oid, t.typbasetype, t.typelem)), '{}')) ORDER BY x.attnum)
        FROM pg_attribute x JOIN pg_type t ON t.oid = x.atttypid
        WHERE x.attrelid = f.oid AND x.attnum > 0 AND NOT x.attisdropped AND x.attname = ANY(f.names)) AS columns,
       (SELECT json_agg(json_build_object('oid', c.oid::bigint, 'file', c.relfilenode::bigint, 'written_by',
            (SELECT coalesce(json_object_agg(x.attname, x.xmin::text ORDER BY x.attname), '{}') FROM pg_attribute x
             WHERE x.attrelid = c.oid AND x.attnum > 0 AND NOT x.attisdropped AND x.attname = ANY(f.names)))
            ORDER BY c.oid)
        FROM pg_class c WHERE (c.oid = f.oid OR c.oid IN (SELECT oid FROM below WHERE root = f.oid))
        AND c.relkind = 'r' AND c.relfilenode <> 0) AS parts,
       (SELECT json_agg(b.oid::bigint ORDER BY b.oid) FROM below b WHERE b.root = f.oid) AS children,
       f.relpersistence::text AS persistence, current_user::text AS role,
       has_schema_privilege(f.relnamespace, 'USAGE') AS may_enter, row_security_active(f.oid) AS hides_rows,
       (has_table_privilege(f.oid, 'SELECT') OR NOT EXISTS (
            SELECT FROM pg_attribute x WHERE x.attrelid = f.oid AND NOT x.attisdropped AND x.attname = ANY(f.names)
            AND NOT has_column_privilege(f.oid, x.attnum, 'SELECT'))) AS may_select,
       (SELECT json_agg(json_build_object('name', format('%%I.%%I', n.nspname, c.relname), 'kind', c.relkind,
            'persistence', c.relpersistence, 'identity', c.relreplident) ORDER BY n.nspname, c.relname)
        FROM below b JOIN pg_class c ON c.oid = b.oid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE b.root = f.oid AND c.relkind <> 'p') AS members,
       (SELECT columns FROM keys WHERE indrelid = f.oid AND indisprimary) AS primary_key,
       (SELECT columns FROM keys WHERE indrelid = f.oid
        AND CASE f.relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident END) AS identity_key,
       EXISTS (SELECT FROM keys WHERE indrelid = f.oid AND NOT nullable AND columns <@ f.key_names) AS key_is_unique,
       (SELECT json_build_object('oid', p.oid::bigint, 'written_by', p.xmin::text, 'entry', r.oid::bigint,
            'filtered', r.prqual IS NOT NULL, 'columns', r.prattrs::int2[],
            'operations', concat(CASE WHEN p.pubinsert THEN 'i' END, CASE WHEN p.pubupdate THEN 'u' END,
                                 CASE WHEN p.pubdelete THEN 'd' END, CASE WHEN p.pubtruncate THEN 't' END))
        FROM pg_publication p LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = f.oid
        WHERE p.pubname = f.publication AND (p.puballtables OR r.oid IS NOT NULL OR EXISTS (
            SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = f.relnamespace))
       ) AS published
FROM asked a LEFT JOIN found f ON f.source = a.source
"""
)
