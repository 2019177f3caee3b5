"""Keeps a feed's tables in PostgreSQL equal to its logs: rows and the time they are as of change in one transaction.

The rule is that of deliveries (`connect/postgres/deliver.py`), for each part: a step says from which time it goes on
and in which epoch, and does nothing unless both are right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, NoReturn, TypeAlias

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connect.postgres import feed_tables as statements
from headrace.connect.postgres.arrays import write_column, write_numbers, write_texts
from headrace.connect.postgres.feed_tables import StoreTables, connect_feeds
from headrace.connect.postgres.sessions import Connection, reason
from headrace.model.errors import Conflict, ConnectError, CopyChanged, Fenced, NotOurs
from headrace.run.feeds.batch import EVENTS_PART, PARTS, FeedSizes, Flip, PartChanges, PartRows, part_of
from headrace.run.feeds.changes import KEPT_AFTER_END
from headrace.run.feeds.hidden import say_emptied

ROWS_AT_ONCE = 50_000

NOTHING_GONE = (None, "")
_Shift: TypeAlias = tuple[str, str, int, str, int | None, str]
"""Consumer and producer, time and id of the entry that comes, and of the one that goes."""


class PostgresFeedStore:
    """One feed. Connects when it is first needed, and again after the connection broke.

    `meaning` identifies what the feed's logs hold: a store that was filled by another feed of the name is filled anew.
    """

    def __init__(self, dsn: str, feed: str, project: str, meaning: str, epoch: int) -> None:
        self._dsn = dsn
        self._tables = StoreTables(feed)
        self._project = project
        self._meaning = meaning
        self._epoch = epoch
        self._session: Connection | None = None

    def take_over(self) -> Mapping[int, int]:
        with self._transaction() as session:
            self._check_owner(self._tables.make(session, self._project))
            said = {"epoch": self._epoch, "meaning": self._meaning, "last": PARTS - 1}
            if self._execute(session, statements.TAKE, said).rowcount != PARTS + 1:
                raise self._say_fenced()
            return {row["part"]: row["t"] for row in self._execute(session, statements.CLOCKS)}

    def start_events(self, events: pa.Table, t: int) -> None:
        with self._transaction() as session:
            self._set(session, EVENTS_PART, t)
            self._execute(session, "DELETE FROM {events}")
            self._execute(session, "DELETE FROM {newest}")
            for some in _slices(events):
                self._add_events(session, {**_write_arrays(some), "t": write_numbers([t] * some.num_rows)})
            self._execute(session, "ANALYZE {events}")
            self._execute(session, "ANALYZE {newest}")

    def apply_events(self, changes: pa.Table, after: int, upto: int) -> None:
        with self._transaction() as session:
            self._move(session, (EVENTS_PART,), after, upto)
            came, went = _split(changes)
            for some in _slices(came):
                self._add_events(session, _write_arrays(some))
            for some in _slices(went):
                self._execute(session, statements.END_EVENTS, _write_arrays(some))

    def start(self, rows: PartRows, t: int) -> None:
        with self._transaction() as session:
            self._set(session, rows.part, t)
            for empty in ("DELETE FROM {pairs} WHERE part = %(part)s", "DELETE FROM {feed} WHERE part = %(part)s"):
                self._execute(session, empty, {"part": rows.part})
            for some in _slices(rows.pairs):
                self._execute(session, statements.PUT_PAIRS, _with_parts(some))
            for some in _slices(rows.stored.sort_by([("consumer", "ascending"), ("producer", "ascending")]), True):
                self._execute(session, statements.FILL_STORED, _with_parts(some))

    def apply(self, changes: PartChanges, after: int, upto: int) -> None:
        with self._transaction() as session:
            self._move(session, changes.parts, after, upto)
            is_gone = pc.is_null(changes.pairs.column("ahead"))
            for some in _slices(changes.pairs.filter(pc.invert(is_gone))):
                self._execute(session, statements.PUT_PAIRS, _with_parts(some))
            for some in _slices(changes.pairs.filter(is_gone)):
                self._execute(session, statements.DROP_PAIRS, _with_parts(some))
            for some in _slices(changes.stored.sort_by([("consumer", "ascending"), ("producer", "ascending")]), True):
                self._change_stored(session, some)

    def flip(self, flips: Sequence[Flip]) -> None:
        table = pa.table(
            {
                "consumer": [flip.consumer for flip in flips],
                "producer": [flip.producer for flip in flips],
                "ahead": [flip.ahead for flip in flips],
                "since": [flip.since for flip in flips],
            }
        )
        for some in _slices(table):
            with self._transaction() as session:
                self._execute(session, statements.FLIP, {**_with_parts(some), "epoch": self._epoch})

    def purge(self) -> int:
        with self._transaction() as session:
            self._execute(session, statements.HOLD_EVENTS)
            purged = self._execute(session, statements.PURGE, {"kept": KEPT_AFTER_END}).fetchall()
            if purged:
                producers = sorted({row["producer"] for row in purged})
                self._execute(session, statements.LOWER_NEWEST, {"producers": producers})
                self._execute(session, statements.DROP_NEWEST, {"producers": producers})
            return len(purged)

    def sizes(self) -> FeedSizes:
        with self._transaction() as session:
            names = [name.as_string(session) for name in self._tables.names.values()]
            found = self._execute(session, statements.SIZES, {"names": names}).fetchone()
            assert found is not None
            return FeedSizes(**found)

    def find_since(self, consumer: str, producer: str) -> int | None:
        with self._transaction() as session:
            said = {"part": part_of(consumer), "consumer": consumer, "producer": producer}
            found = self._execute(session, statements.SINCE, said).fetchone()
            return None if found is None else int(found["since"])

    def drop(self) -> None:
        with self._transaction() as session:
            self._check_owner(self._tables.drop(session, self._project))

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    # Steps

    def _check_owner(self, owner: str) -> None:
        if owner != self._project:
            raise NotOurs(
                f'feed "{self._tables.feed}" in this database belongs to project "{owner}"',
                hint="give one of the feeds another name, or a database of its own",
            )

    def _move(self, session: Connection, parts: Sequence[int], after: int, upto: int) -> None:
        said = {"parts": list(parts), "after": after, "upto": upto, "epoch": self._epoch}
        if self._execute(session, statements.MOVE, said).rowcount != len(parts):
            self._refuse(session, parts, after)

    def _set(self, session: Connection, part: int, t: int) -> None:
        if self._execute(session, statements.SET, {"part": part, "t": t, "epoch": self._epoch}).rowcount != 1:
            self._refuse(session, (part,), t)

    def _refuse(self, session: Connection, parts: Sequence[int], after: int) -> NoReturn:
        found = self._execute(session, statements.FIND_PARTS, {"parts": list(parts)}).fetchall()
        if len(found) < len(parts):
            raise CopyChanged(say_emptied(self._tables.feed))
        if any(row["epoch"] != self._epoch for row in found):
            raise self._say_fenced()
        other = next(row for row in found if row["t"] != after)
        raise Conflict(f'part {other["part"]} of feed "{self._tables.feed}" is at {other["t"]}, not at {after}')

    def _add_events(self, session: Connection, events: Mapping[str, object]) -> None:
        self._execute(session, statements.ADD_EVENTS, events)
        self._execute(session, statements.RAISE_NEWEST, events)

    def _change_stored(self, session: Connection, changes: pa.Table) -> None:
        simple, others = _split_simple(changes)
        if simple:
            # Pairs are told by their numbers, from 1 on.
            left = self._execute(session, statements.SHIFT_STORED, _write_shifts(simple)).fetchall()
            others |= {simple[row["number"] - 1][:2] for row in left}
        if others:
            pairs = zip(changes.column("consumer").to_pylist(), changes.column("producer").to_pylist(), strict=True)
            self._sum_stored(session, changes.filter(pa.array([pair in others for pair in pairs], pa.bool_())))

    def _sum_stored(self, session: Connection, changes: pa.Table) -> None:
        said = _with_parts(changes)
        found = self._execute(session, statements.CHANGE_STORED, said).fetchone()
        if found is None or found["wrong"]:
            raise CopyChanged(
                f'what is stored ahead for feed "{self._tables.feed}" was changed by someone else',
                hint="the service fills it again; whoever changes it should leave schema headrace_feeds alone",
            )
        if pc.any(pc.less(changes.column("w"), 0)).as_py():
            self._execute(session, statements.DROP_EMPTY, said)

    def _say_fenced(self) -> Fenced:
        return Fenced(f'another service has taken over the store of feed "{self._tables.feed}"')

    # Sessions

    def _execute(
        self, session: Connection, statement: LiteralString, said: Mapping[str, object] | None = None
    ) -> psycopg.Cursor[dict[str, Any]]:
        return session.execute(self._tables.name_in(statement), said)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """All or nothing. When the connection breaks during the commit nobody knows which; `take_over` tells."""
        try:
            if self._session is None or self._session.closed:
                self._session = connect_feeds(self._dsn)
            with self._session.transaction():
                yield self._session
        except psycopg.Error as error:
            raise ConnectError(reason(error, self._dsn)) from error


def _split(changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    is_more = pc.greater(changes.column("w"), 0)
    return changes.filter(is_more), changes.filter(pc.invert(is_more))


def _slices(rows: pa.Table, whole_pairs: bool = False) -> Iterator[pa.Table]:
    """Parts of a table, none of them too large for one statement; the rows of a pair stay together if asked for."""
    start = 0
    while start < rows.num_rows:
        end = min(start + ROWS_AT_ONCE, rows.num_rows)
        while whole_pairs and end < rows.num_rows and _same_pair(rows, end):
            end += 1
        yield rows.slice(start, end - start)
        start = end


def _same_pair(rows: pa.Table, at: int) -> bool:
    return all(rows.column(name)[at] == rows.column(name)[at - 1] for name in ("consumer", "producer"))


def _split_simple(changes: pa.Table) -> tuple[list[_Shift], set[tuple[str, str]]]:
    """The pairs for which one entry comes and at most one goes, and the others."""
    came: dict[tuple[str, str], tuple[int, str]] = {}
    gone: dict[tuple[str, str], tuple[int, str]] = {}
    others = set()
    for consumer, producer, ts, id_, weight in zip(*(column.to_pylist() for column in changes.columns), strict=True):
        entries, pair = came if weight > 0 else gone, (consumer, producer)
        if pair in entries:
            others.add(pair)
        entries[pair] = ts, id_
    others |= gone.keys() - came.keys()
    simple = [(*pair, *came[pair], *gone.get(pair, NOTHING_GONE)) for pair in came if pair not in others]
    return simple, others


def _write_shifts(shifts: Sequence[_Shift]) -> dict[str, str]:
    consumer, producer, ts, id_, gone_ts, gone_id = zip(*shifts, strict=True)
    return {
        "part": _write_parts(consumer),
        "consumer": write_texts(consumer),
        "producer": write_texts(producer),
        "ts": write_numbers(ts),
        "id": write_texts(id_),
        "gone_ts": write_numbers(gone_ts),
        "gone_id": write_texts(gone_id),
    }


def _write_arrays(rows: pa.Table) -> dict[str, str]:
    return {name: write_column(rows.column(name)) for name in rows.column_names}


def _with_parts(rows: pa.Table) -> dict[str, str]:
    return {**_write_arrays(rows), "part": _write_parts(rows.column("consumer").to_pylist())}


def _write_parts(consumers: Sequence[str]) -> str:
    parts = {consumer: part_of(consumer) for consumer in set(consumers)}
    return write_numbers([parts[consumer] for consumer in consumers])
