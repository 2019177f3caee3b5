"""Reads pages of a feed from PostgreSQL: one statement for a page, with a plan that is made once for a session.

A page is as of its part's time. A pair is read from what is stored ahead if the decision to do so is not later than
that, else from the events of its producer; both show events as they were then. Of what is found only what a page
can need is sent, so that bodies are looked up for few.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.types.json import set_json_loads

from headrace.connect.postgres.feed_pages import (
    ENDS,
    MORE_WALKED,
    PAGES_OF_FEW,
    PAGES_OF_MANY,
    PAIRS,
)
from headrace.connect.postgres.feed_tables import OPEN, StoreTables, connect_feeds
from headrace.connect.postgres.sessions import Connection, reason
from headrace.model.errors import ConnectError
from headrace.run.feeds.batch import part_of
from headrace.run.feeds.changes import KEPT_AFTER_END, MOST_CHANGES, FeedChange, FeedChanges, StreamPlace
from headrace.run.feeds.enough import MOST_FEW, STEPS, find_floor
from headrace.run.feeds.hidden import BLOCKED, MOST_HIDDEN, say_too_many
from headrace.run.feeds.page import (
    HIGHEST,
    MOST_UNREAD,
    SECOND,
    FeedRead,
    PageCursor,
    PageEntry,
    PageRules,
    Place,
    count_enough,
)

READ_WITHIN_MS = 15_000
"""A page takes milliseconds; one that takes so long is not waited for any more."""
ATTEMPTS = 2
"""A connection that broke while nobody used it is made anew once."""

_NEWEST_OF: LiteralString = """
SELECT e.* FROM unnest(%(producers)s::text[]) AS asked(producer) CROSS JOIN {parts} clock CROSS JOIN LATERAL (
    SELECT v.producer, v.ts, v.id, v.body::text AS body, false AS is_stored FROM {events} v
    WHERE v.producer = asked.producer AND v.from_t <= clock.t AND clock.t < v.to_t
    ORDER BY v.ts DESC, v.id DESC LIMIT %(limit)s
) e WHERE clock.part = -1
"""
_UNREAD: LiteralString = f"""
WITH {PAIRS}
SELECT (
    SELECT count(*) FROM (
        SELECT FROM pair CROSS JOIN clock CROSS JOIN LATERAL (
            SELECT FROM {{events}} v WHERE v.producer = pair.producer
                AND (v.ts, v.id) > (coalesce(seen.ts, -9223372036854775808), coalesce(seen.id, '') COLLATE "C")
                AND v.from_t <= clock.t AND clock.t < v.to_t LIMIT %(unread)s
        ) e LIMIT %(unread)s
    ) unread
) AS unread FROM clock LEFT JOIN {{seen}} seen ON seen.consumer = %(consumer)s
"""
# What is new or gone is looked up once for all who ask, by when; then everybody is told what they follow. Without ids,
# times tell events apart.
_CHANGES: LiteralString = """
WITH asked AS MATERIALIZED (
    SELECT asked.*, clock.t, asked.after >= clock.t - %(kept)s AND asked.after >= coalesce(events.started, 0) AS is_told
    FROM unnest(%(consumers)s::text[], %(parts)s::smallint[], %(after)s::bigint[], %(told_ts)s::bigint[],
        %(told_id)s::text[], %(told_of)s::text[]) WITH ORDINALITY
        AS asked(consumer, part, after, told_ts, told_id, told_of, number)
    JOIN {parts} clock ON clock.part = asked.part AND clock.t IS NOT NULL JOIN {parts} events ON events.part = -1
), span AS MATERIALIZED (
    SELECT min(after) AS first, max(t) AS last FROM asked WHERE is_told
), fresh AS MATERIALIZED (
    SELECT v.from_t AS at, false AS is_gone, v.producer, v.ts, v.id, v.body, v.to_t AS until
    FROM {events} v, span WHERE v.from_t >= span.first AND v.from_t <= span.last
    UNION ALL
    SELECT v.to_t, true, v.producer, v.ts, v.id, NULL, (
        SELECT min(w.from_t) FROM {events} w
        WHERE w.producer = v.producer AND w.id = v.id AND (v.id <> '' OR w.ts = v.ts) AND w.from_t >= v.to_t
    ) FROM {events} v, span
    WHERE v.to_t < 9223372036854775807 AND v.to_t >= span.first AND v.to_t <= span.last
)
SELECT asked.number, asked.t, asked.is_told, change.* FROM asked LEFT JOIN LATERAL (
    SELECT f.at, f.is_gone, f.producer, f.ts, f.id, f.body FROM fresh f
    WHERE asked.is_told AND f.at <= asked.t AND (f.at > asked.after
            OR f.at = asked.after AND (f.ts, f.id, f.producer) > (asked.told_ts, asked.told_id, asked.told_of))
        AND (f.until IS NULL OR f.until > asked.t)
        AND EXISTS (SELECT FROM {pairs} p
            WHERE p.part = asked.part AND p.consumer = asked.consumer AND p.producer = f.producer)
        AND NOT EXISTS (SELECT FROM {hidden} h WHERE h.consumer = asked.consumer AND h.producer = f.producer)
    ORDER BY f.at, f.ts, f.id, f.producer LIMIT %(most)s
) change ON true ORDER BY asked.number, change.at, change.ts, change.id, change.producer
"""
_MARK: LiteralString = """
INSERT INTO {seen} AS s (consumer, ts, id) VALUES (%(consumer)s, %(ts)s, %(id)s)
ON CONFLICT (consumer) DO UPDATE SET ts = excluded.ts, id = excluded.id WHERE (s.ts, s.id) < (excluded.ts, excluded.id)
"""
_HIDE: LiteralString = """
WITH own AS MATERIALIZED (
    SELECT %(kind)s = %(blocked)s OR count(*) < %(most)s AS has_room
    FROM {hidden} WHERE consumer = %(consumer)s AND kind <> %(blocked)s
), added AS (
    INSERT INTO {hidden} (consumer, producer, kind)
    SELECT %(consumer)s, %(producer)s, %(kind)s FROM own WHERE has_room ON CONFLICT DO NOTHING
)
SELECT has_room OR EXISTS (
    SELECT FROM {hidden} WHERE consumer = %(consumer)s AND producer = %(producer)s AND kind = %(kind)s
) AS is_hidden FROM own
"""
_UNHIDE: LiteralString = """
DELETE FROM {hidden} WHERE consumer = %(consumer)s AND producer = %(producer)s AND kind = %(kind)s
"""
_HIDDEN: LiteralString = "SELECT producer, kind FROM {hidden} WHERE consumer = %(consumer)s ORDER BY producer, kind"
_COUNT: LiteralString = """
INSERT INTO {rates} AS r (kind, id, count, at)
SELECT %(kind)s, id, count, %(at)s FROM unnest(%(ids)s::text[], %(counts)s::double precision[]) AS more(id, count)
ON CONFLICT (kind, id) DO UPDATE
SET count = r.count * power(0.5, greatest(excluded.at - r.at, 0) / %(half_life)s) + excluded.count,
    at = greatest(excluded.at, r.at)
"""
_COUNTS: LiteralString = "SELECT id, count, at FROM {rates} WHERE kind = %(kind)s"


class PostgresFeedReader:
    """One feed, for one thread. Connects when it is first needed, and again after the connection broke.

    Who follows more than `most_few` has newest events of all walked, at most so many `steps`.
    """

    def __init__(self, dsn: str, feed: str, most_few: int = MOST_FEW, steps: int = STEPS) -> None:
        self.most_few, self.steps = most_few, steps
        self._dsn = dsn
        self._tables = StoreTables(feed)
        self._statements: dict[LiteralString, bytes] = {}
        self._session: Connection | None = None

    def read_page(self, consumer: str, rules: PageRules, cursor: PageCursor | None = None) -> FeedRead | None:
        said, kind = _ask_page(consumer, rules, cursor), (cursor is not None, rules.more_than is not None)
        rows = self._fetch(PAGES_OF_FEW[kind], {**said, "most": self.most_few + 1})
        if rows and not rows[0]["few"]:
            return self._read_many(kind, said, rules, cursor)
        return _make_read(rows)

    def _read_many(
        self, kind: tuple[bool, bool], said: Mapping[str, object], rules: PageRules, cursor: PageCursor | None
    ) -> FeedRead | None:
        top = {"top_ts": OPEN, "top_id": "", **said}
        rows = self._fetch(
            PAGES_OF_MANY[kind], {**top, "steps": self.steps, "walked": count_enough(rules) + MORE_WALKED}
        )
        read = _make_read(rows)
        if read is None or rows[0]["bound_ts"] is None:
            return read
        floor = find_floor(rules, read, cursor)
        if floor is not None and (rows[0]["bound_ts"], rows[0]["bound_id"] or "") < floor:
            return read
        return _make_read(self._fetch(PAGES_OF_FEW[kind], {**said, "most": None}))

    def read_ends(self, consumer: str, t: int, keep: int, floor: Place | None = None) -> Mapping[str, Place] | None:
        floor_ts, floor_id = floor or (-OPEN, "")
        said: dict[str, object] = {"part": part_of(consumer), "consumer": consumer, "t": t, "keep": keep}
        said |= {"most": self.most_few + 1, "steps": self.steps}
        rows = self._fetch(ENDS, {**said, "floor_ts": floor_ts, "floor_id": floor_id})
        if not rows:
            return None
        return {row["producer"]: (row["ts"], row["id"]) for row in rows if row["producer"] is not None}

    def read_page_and_ends(
        self, consumer: str, rules: PageRules, cursor: PageCursor | None, keep: int
    ) -> tuple[FeedRead, Mapping[str, Place]] | None:
        try:
            with self._connect().transaction():
                self._run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", {})
                read = self.read_page(consumer, rules, cursor)
                if read is None:
                    return None
                ends = self.read_ends(consumer, read.as_of, keep, find_floor(rules, read, cursor))
                return None if ends is None else (read, ends)
        except psycopg.Error as error:
            raise ConnectError(reason(error, self._dsn)) from error

    def read_changes(self, asked: Sequence[tuple[str, StreamPlace]]) -> Sequence[FeedChanges | None]:
        told = [(None, None, None) if place.told is None else place.told for _, place in asked]
        said = {
            "consumers": [consumer for consumer, _ in asked],
            "parts": [part_of(consumer) for consumer, _ in asked],
            "after": [place.t for _, place in asked],
            "told_ts": [one[0] for one in told],
            "told_id": [one[1] for one in told],
            "told_of": [one[2] for one in told],
            "kept": KEPT_AFTER_END,
            "most": MOST_CHANGES + 1,
        }
        rows: dict[int, list[dict[str, Any]]] = {}
        for row in self._fetch(_CHANGES, said):
            rows.setdefault(row["number"], []).append(row)
        return [_changes(rows[number]) if number in rows else None for number in range(1, len(asked) + 1)]

    def read_newest(self, producers: Sequence[str], limit: int) -> Sequence[PageEntry]:
        return list(_make_entries(self._fetch(_NEWEST_OF, {"producers": list(producers), "limit": limit})))

    def count_unread(self, consumer: str) -> int | None:
        rows = self._fetch(
            _UNREAD, {"part": part_of(consumer), "consumer": consumer, "most": None, "unread": MOST_UNREAD}
        )
        return rows[0]["unread"] if rows else None

    def mark_seen(self, consumer: str, place: Place) -> None:
        self._run(_MARK, {"consumer": consumer, "ts": place[0], "id": place[1]})

    def hide(self, consumer: str, producer: str, kind: str) -> None:
        said = {"consumer": consumer, "producer": producer, "kind": kind, "blocked": BLOCKED, "most": MOST_HIDDEN}
        if not self._fetch(_HIDE, said)[0]["is_hidden"]:
            raise say_too_many(consumer)

    def unhide(self, consumer: str, producer: str, kind: str) -> None:
        self._run(_UNHIDE, {"consumer": consumer, "producer": producer, "kind": kind})

    def read_hidden(self, consumer: str) -> Sequence[tuple[str, str]]:
        return [(row["producer"], row["kind"]) for row in self._fetch(_HIDDEN, {"consumer": consumer})]

    def add_counts(self, kind: str, counts: Mapping[str, float], at: float, half_life_s: float) -> None:
        if counts:
            ids = sorted(counts)  # in one order, so that two servers never wait for each other
            more = {"ids": ids, "counts": [counts[one] for one in ids]}
            self._run(_COUNT, {"kind": kind, "at": at, "half_life": half_life_s, **more})

    def read_counts(self, kind: str) -> Mapping[str, tuple[float, float]]:
        return {row["id"]: (row["count"], row["at"]) for row in self._fetch(_COUNTS, {"kind": kind})}

    @property
    def backend_pid(self) -> int:
        """The process of the database that serves this session."""
        return self._connect().info.backend_pid

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    # Sessions

    def _fetch(self, statement: LiteralString, said: Mapping[str, object]) -> list[dict[str, Any]]:
        for attempt in range(ATTEMPTS):
            try:
                return self._connect().execute(self._named(statement), said, prepare=True).fetchall()
            except psycopg.OperationalError as error:
                if attempt + 1 == ATTEMPTS or not (self._session is None or self._session.closed):
                    raise ConnectError(reason(error, self._dsn)) from error
            except psycopg.Error as error:
                raise ConnectError(reason(error, self._dsn)) from error
        raise AssertionError("the last attempt returns or raises")

    def _run(self, statement: LiteralString, said: Mapping[str, object]) -> None:
        try:
            self._connect().execute(self._named(statement), said)
        except psycopg.Error as error:
            raise ConnectError(reason(error, self._dsn)) from error

    def _named(self, statement: LiteralString) -> bytes:
        """The statement with the feed's tables; put together once, since that takes as long as a page."""
        if statement not in self._statements:
            self._statements[statement] = self._tables.name_in(statement).as_bytes(self._connect())
        return self._statements[statement]

    def _connect(self) -> Connection:
        if self._session is None or self._session.closed:
            self._session = connect_feeds(self._dsn)
            # A plan for every call would take longer than the page itself.
            self._session.execute("SET plan_cache_mode = force_generic_plan")
            self._session.execute("SET jit = off")
            self._session.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(READ_WITHIN_MS)))
            # Whatever a page reads has an index. A plan for everybody goes by what consumers follow on average, and
            # would read whole tables where a few follow almost all there is.
            self._session.execute("SET enable_seqscan = off")
            self._session.execute("SET enable_bitmapscan = off")
            set_json_loads(_read_json, self._session)
        return self._session


def _ask_page(consumer: str, rules: PageRules, cursor: PageCursor | None) -> dict[str, object]:
    said: dict[str, object] = {
        "part": part_of(consumer),
        "consumer": consumer,
        "shown": rules.shown,
        "enough": count_enough(rules),
        "is_later": cursor is not None,
    }
    if cursor is not None:
        said["bound_of"], places = list(cursor.below), list(cursor.below.values())
        said["bound_ts"], said["bound_id"] = [place[0] for place in places], [place[1] for place in places]
        said["bound_by"] = [place[2] for place in places]
        said["floor_ts"], said["floor_id"], said["floor_by"] = cursor.floor or HIGHEST
        said["top_ts"], said["top_id"], said["top_of"] = cursor.ceiling
    if rules.more_than is not None:
        said["k"], said["within"] = rules.more_than, int(rules.within_s * SECOND)
        said["as_of"] = None if cursor is None else cursor.as_of
    return said


def _make_read(rows: Sequence[Mapping[str, Any]]) -> FeedRead | None:
    if not rows:
        return None
    return FeedRead(rows[0]["t"], tuple(_make_entries([row for row in rows if row["body"] is not None])))


_DECODE = json.JSONDecoder().decode


def _read_json(written: str | bytes) -> Any:
    """A body. What `json.loads` does first, to find out the encoding, takes as long as the rest."""
    return _DECODE(written.decode() if isinstance(written, bytes) else written)


def _changes(rows: Sequence[Mapping[str, Any]]) -> FeedChanges:
    t, found = rows[0]["t"], [row for row in rows if row["at"] is not None]
    if not rows[0]["is_told"] or len(found) > MOST_CHANGES:
        return FeedChanges(t, (), is_complete=False)
    changes = (
        FeedChange(row["at"], PageEntry(row["producer"], row["ts"], row["id"], row["body"]), row["is_gone"])
        for row in found
    )
    return FeedChanges(t, tuple(changes))


def _make_entries(rows: Sequence[Mapping[str, Any]]) -> Iterator[PageEntry]:
    """Bodies come as texts, and are read at once: one by one, that takes several times as long."""
    bodies = json.loads(f"[{','.join([row['body'] for row in rows])}]")
    for row, body in zip(rows, bodies, strict=True):
        yield PageEntry(row["producer"], row["ts"], row["id"], body, row["is_stored"])
