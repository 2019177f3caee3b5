"""The queries by which tables are read, and the marks in the log that say when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psycopg import sql

from headrace.connect.postgres.intake import OUR_PREFIX
from headrace.connect.postgres.sessions import Connection, texts_as_they_are
from headrace.connect.postgres.slots import SqlTable
from headrace.run.capture.spool import CapturedTable, TextRow
from headrace.run.capture.visibility import Snapshot

Key = tuple[str, ...]
"""Values of a key's columns, as PostgreSQL writes them."""


def texts_of_key(key: TextRow) -> Key:
    assert all(value is not None for value in key), "a key has no NULLs"
    return tuple((value or b"").decode() for value in key)


def emit(session: Connection, content: str) -> None:
    """Write a message into the log, in a transaction of its own."""
    session.execute("SELECT pg_logical_emit_message(true, %s, %s)", [OUR_PREFIX, content])


def clock_of(session: Connection) -> int:
    """What the database's clock shows, microseconds since 1970."""
    row = session.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now").fetchone()
    assert row is not None
    return int(row["now"])


def writers_of(session: Connection, table: SqlTable) -> frozenset[str]:
    """Transactions that may have written to a table, or to a partition of it, and are not over."""
    rows = session.execute(
        "SELECT virtualtransaction AS writer FROM pg_locks WHERE locktype = 'relation' AND granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND relation IN (SELECT to_regclass(%(table)s)"
        " UNION SELECT relid FROM pg_partition_tree(to_regclass(%(table)s)))"
        " AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock',"
        " 'AccessExclusiveLock')",
        {"table": table.identifier.as_string(session)},
    )
    return frozenset(str(row["writer"]) for row in rows)


def snapshot_of(session: Connection) -> Snapshot:
    row = session.execute("SELECT pg_current_snapshot()::text AS snapshot").fetchone()
    assert row is not None
    return Snapshot.parse(row["snapshot"])


PADDED_OID = 1042
"""Of char(n), also where a domain is made of it: rows of an answer have the types that domains are made of."""


def text_rows(session: Connection, query: sql.SQL | sql.Composed) -> Iterator[TextRow]:
    """Values as the bytes of their text, as the log has them; those of type char(n) without what fills them up.

    To be called within a transaction.
    """
    written = query.as_bytes(session)
    with texts_as_they_are(session):
        result = session.execute(written).pgresult
    assert result is not None
    columns = range(result.nfields)
    padded = [column for column in columns if result.ftype(column) == PADDED_OID]
    value = result.get_value
    for row in range(result.ntuples):
        values = [value(row, column) for column in columns]
        for column in padded:
            values[column] = _unpad(values[column])
        yield tuple(values)


def _unpad(value: bytes | None) -> bytes | None:
    return None if value is None else value.rstrip(b" ")


@dataclass(frozen=True, slots=True)
class TableQueries:
    """The declared columns of a table, all rows or by key."""

    session: Connection
    captured: CapturedTable
    table: SqlTable

    def whole(self) -> sql.Composed:
        return sql.SQL("SELECT {} FROM {}").format(self._columns, self.table.identifier)

    def next_range(self, last: Key | None, limit: int) -> sql.Composed:
        """The rows after a key, in its order."""
        after: sql.Composable = sql.SQL("")
        if last is not None:
            after = sql.SQL("WHERE ({}) > ({})").format(self._key, _cast_values(last, self._key_types()))
        return sql.SQL("{} {} ORDER BY {} LIMIT {}").format(self.whole(), after, self._key, sql.Literal(limit))

    def some_keys(self, keys: Sequence[Key]) -> sql.Composed:
        types = self._key_types()
        listed = sql.SQL(", ").join(sql.SQL("({})").format(_cast_values(key, types)) for key in keys)
        return sql.SQL("{} WHERE ({}) IN ({})").format(self.whole(), self._key, listed)

    def rows_with(self, column: str, text: bytes, key: Key | None) -> sql.Composed:
        """Rows in which a column has this text: all of them, or the one of a key."""
        # Bytes, not text: a database of encoding SQL_ASCII may hold text that is none in UTF-8.
        encoding = sql.SQL("CASE getdatabaseencoding() WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END")
        same = sql.SQL("convert_to({}::text, {}) = {}").format(sql.Identifier(column), encoding, sql.Literal(text))
        if key is None:
            return sql.SQL("SELECT 1 FROM {} WHERE {} LIMIT 1").format(self.table.identifier, same)
        return sql.SQL("SELECT 1 FROM {} WHERE ({}) = ({}) AND {} LIMIT 1").format(
            self.table.identifier, self._key, _cast_values(key, self._key_types()), same
        )

    @property
    def _columns(self) -> sql.Composed:
        return sql.SQL(", ").join(map(sql.Identifier, self.captured.names))

    @property
    def _key(self) -> sql.Composed:
        return sql.SQL(", ").join(map(sql.Identifier, self.captured.key))

    def _key_types(self) -> tuple[str, ...]:
        """The types of the key as SQL writes them. A column that has just gone makes the query fail, not this."""
        rows = self.session.execute(
            "SELECT attname::text AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute"
            " WHERE attrelid = to_regclass(%s) AND attnum > 0",
            [self.table.identifier.as_string(self.session)],
        )
        types = {row["name"]: str(row["type"]) for row in rows}
        return tuple(types.get(name, "text") for name in self.captured.key)


def _cast_values(values: Key, types: tuple[str, ...]) -> sql.Composed:
    pairs = zip(values, types, strict=True)
    return sql.SQL(", ").join(sql.SQL("{}::{}").format(sql.Literal(v), sql.SQL(t)) for v, t in pairs)
