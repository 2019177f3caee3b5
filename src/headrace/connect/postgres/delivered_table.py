"""A table that holds the rows of a view, and the statements that change it.

A view may hold a row several times, and need not have a key. So each row carries its hash, by which a row that left the
view is found; which of several equal rows goes makes no difference. A table with a key needs no hash: there the changes
are one MERGE.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from psycopg import sql

from headrace.connect.postgres.copy_rows import postgres_type
from headrace.model.amounts import format_seconds
from headrace.model.relation import Field
from headrace.run.rows.hashes import hash_of

OURS = "Kept by Headrace"
"""How the comment of every delivered table starts: a table without it is somebody else's."""

ROW, WEIGHT, REPLACES = "_headrace_row", "_headrace_weight", "_headrace_replaces"
RESERVED = "_headrace_"
LONGEST_NAME = 63
"""Bytes; PostgreSQL cuts longer names off."""

STAGE = sql.Identifier("pg_temp", "headrace_changes")


@dataclass(frozen=True, slots=True)
class DeliveredTable:
    """What a table holds, and for whom.

    `table` is its name in SQL (`model.table_name`). `meaning` identifies the query of the view (its text, for example):
    a table that was filled by another is filled anew. `key` are columns that are unique and never NULL in the view, or
    none.
    """

    table: str
    columns: tuple[Field, ...]
    project: str
    contract: str
    view: str
    meaning: str
    freshness_s: float
    key: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()

    @property
    def structure(self) -> str:
        """What a table is made of; one of another structure must be made again."""
        columns = {field.name: postgres_type(field.type) for field in self.columns}
        return json.dumps({"columns": columns, "key": self.key, "indexes": self.indexes})

    @property
    def comment(self) -> str:
        about = (
            f'{OURS}: view "{self.view}" for contract "{self.contract}" of project "{self.project}", at most '
            f"{format_seconds(self.freshness_s)} behind its sources. How far it is: headrace.deliveries. "
            "What others change in it may be lost."
        )
        return about if self.key else f'{about} Column "{ROW}" is a hash by which Headrace finds rows.'

    def is_described_by(self, comment: str | None) -> bool:
        """Whether a table with this comment was made for this contract, whatever its view was."""
        whose = f' for contract "{self.contract}" of project "{self.project}", at most '
        return comment is not None and comment.startswith(f"{OURS}: view ") and whose in comment

    def has_columns(self, columns: Sequence[str]) -> bool:
        """Whether these, each a name and a type as PostgreSQL writes it, are all columns that the table has to have."""
        ours = [f"{field.name} {postgres_type(field.type)}" for field in self.columns]
        return sorted(columns) == sorted(ours if self.key else [*ours, f"{ROW} bigint"])

    def wrong_names(self) -> list[str]:
        """Columns that a table cannot have beside ours."""
        names = [field.name for field in self.columns]
        return [name for name in names if name.startswith(RESERVED) or len(name.encode()) > LONGEST_NAME]

    def add_hashes(self, rows: pa.Table) -> pa.Table:
        """Rows as the table holds them."""
        if self.key:
            return rows
        hashes = hash_of(rows, [field.name for field in self.columns]).view(np.int64)
        return rows.append_column(ROW, pa.array(hashes))


def create(table: DeliveredTable, name: sql.Identifier) -> list[sql.Composed]:
    """Statements that make the table, without its rows and indexes."""
    columns = _definitions(table)
    if table.key:
        columns.append(sql.SQL("PRIMARY KEY ({})").format(_join_names(table.key)))
    else:
        columns.append(sql.SQL("{} bigint NOT NULL").format(sql.Identifier(ROW)))
    return [
        sql.SQL("CREATE TABLE {} ({})").format(name, sql.SQL(", ").join(columns)),
        comment_on(table, name),
    ]


def create_indexes(table: DeliveredTable, name: sql.Identifier) -> list[sql.Composed]:
    wanted = table.indexes if table.key else ((ROW,), *table.indexes)
    return [sql.SQL("CREATE INDEX ON {} ({})").format(name, _join_names(columns)) for columns in wanted]


def comment_on(table: DeliveredTable, name: sql.Identifier) -> sql.Composed:
    return sql.SQL("COMMENT ON TABLE {} IS {}").format(name, sql.Literal(table.comment))


def create_stage(table: DeliveredTable) -> sql.Composed:
    """A place for changes that lasts until the end of the transaction."""
    more = (WEIGHT,) if table.key else (WEIGHT, ROW)
    columns = [*_definitions(table), *(sql.SQL("{} bigint NOT NULL").format(sql.Identifier(name)) for name in more)]
    return sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(STAGE, sql.SQL(", ").join(columns))


def delete_gone(table: DeliveredTable, name: sql.Identifier) -> sql.Composed:
    """Deletes as many copies of each row as left the view."""
    same = sql.SQL(" AND ").join(
        sql.SQL("r.{0} IS NOT DISTINCT FROM s.{0}").format(sql.Identifier(field.name)) for field in table.columns
    )
    return sql.SQL(
        "DELETE FROM {name} WHERE ctid = ANY (ARRAY(SELECT place FROM ("
        "SELECT r.ctid AS place, -s.{weight} AS copies, row_number() OVER (PARTITION BY s.ctid) AS copy "
        "FROM {stage} s JOIN {name} r ON r.{row} = s.{row} AND {same} WHERE s.{weight} < 0) found "
        "WHERE copy <= copies))"
    ).format(name=name, stage=STAGE, same=same, row=sql.Identifier(ROW), weight=sql.Identifier(WEIGHT))


def insert_new(table: DeliveredTable, name: sql.Identifier) -> sql.Composed:
    columns = _join_names([*(field.name for field in table.columns), ROW])
    return sql.SQL(
        "INSERT INTO {name} ({columns}) SELECT {columns} FROM {stage}, generate_series(1, {weight}) WHERE {weight} > 0"
    ).format(name=name, columns=columns, stage=STAGE, weight=sql.Identifier(WEIGHT))


def merge(table: DeliveredTable, name: sql.Identifier) -> sql.Composed:
    """Updates, deletes and inserts by key.

    It does exactly one thing for each key of the changes, if the table holds what the changes say was there.
    """
    key = _join_names(table.key)
    rest = [field.name for field in table.columns if field.name not in table.key]
    updates = sql.SQL("UPDATE SET {}").format(
        sql.SQL(", ").join(sql.SQL("{0} = s.{0}").format(sql.Identifier(column)) for column in rest or table.key)
    )
    columns = [field.name for field in table.columns]
    return sql.SQL(
        "MERGE INTO {name} r USING (SELECT DISTINCT ON ({key}) *, count(*) OVER (PARTITION BY {key}) > 1 AS {replaces} "
        "FROM {stage} ORDER BY {key}, {weight} DESC) s ON {same} "
        "WHEN MATCHED AND s.{weight} < 0 THEN DELETE "
        "WHEN MATCHED AND s.{replaces} THEN {updates} "
        "WHEN NOT MATCHED AND s.{weight} > 0 AND NOT s.{replaces} THEN INSERT ({columns}) VALUES ({values})"
    ).format(
        name=name,
        key=key,
        stage=STAGE,
        same=sql.SQL(" AND ").join(sql.SQL("r.{0} = s.{0}").format(sql.Identifier(column)) for column in table.key),
        weight=sql.Identifier(WEIGHT),
        replaces=sql.Identifier(REPLACES),
        updates=updates,
        columns=_join_names(columns),
        values=sql.SQL(", ").join(sql.SQL("s.{}").format(sql.Identifier(column)) for column in columns),
    )


def count_keys(table: DeliveredTable) -> sql.Composed:
    """How many keys the changes have, and how many of these would then be in the table more than once."""
    return sql.SQL(
        "SELECT count(*) AS keys, count(*) FILTER (WHERE came > 1) AS repeated FROM "
        "(SELECT sum({weight}) FILTER (WHERE {weight} > 0) AS came FROM {stage} GROUP BY {key}) found"
    ).format(stage=STAGE, key=_join_names(table.key), weight=sql.Identifier(WEIGHT))


def _definitions(table: DeliveredTable) -> list[sql.Composable]:
    return [
        sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(postgres_type(field.type)))
        for field in table.columns
    ]


def _join_names(columns: tuple[str, ...] | list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))
