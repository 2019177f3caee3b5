"""The tables of a feed in PostgreSQL, in schema `headrace_feeds`, and the statements that change them.

    home_events   events by producer, each version from when to when it is there: a part reads as of its own time
    home_pairs    who follows whom, and whether that is stored ahead
    home_feed     what is stored ahead: a row for each pair, its newest entries in two arrays, newest first
    home_newest   the newest place of each producer that any part may read: where a page begins to look for events
    home_parts    the time of each part and of events (-1), when they were filled, and who may change them
    home_hidden   whom a consumer does not want to see; home_seen the last entry seen; home_rates counters that fade
    feeds         whose each feed is

Texts compare by their bytes, as everywhere in Headrace.
"""

from __future__ import annotations

from typing import LiteralString

from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.connect.postgres.sessions import Connection, connect_session
from headrace.model.errors import ConnectError

SCHEMA = "headrace_feeds"
LOCK = 0x4845_4144_4645_4544
SENT_WITHIN_MS = 30_000
"""Advisory lock's number, ours alone by improbability: only one service makes tables at a time."""
OPEN = 2**63 - 1
"""The end of what is there."""
NAMES = ("events", "newest", "pairs", "feed", "parts", "hidden", "seen", "rates")
LONGEST_FEED = 55

_MAKE: tuple[LiteralString, ...] = (
    """CREATE TABLE IF NOT EXISTS {events} (
        producer text COLLATE "C" NOT NULL, ts bigint NOT NULL, id text COLLATE "C" NOT NULL, body jsonb NOT NULL,
        from_t bigint NOT NULL, to_t bigint NOT NULL, PRIMARY KEY (producer, ts, id, from_t))""",
    "CREATE INDEX IF NOT EXISTS {ended} ON {events} (to_t) WHERE to_t < 9223372036854775807",
    "CREATE INDEX IF NOT EXISTS {fresh} ON {events} (from_t)",
    """CREATE TABLE IF NOT EXISTS {newest} (
        producer text COLLATE "C" PRIMARY KEY, ts bigint NOT NULL, id text COLLATE "C" NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS {places} ON {newest} (ts DESC, id DESC) INCLUDE (producer)",
    """CREATE TABLE IF NOT EXISTS {pairs} (
        part smallint NOT NULL, consumer text COLLATE "C" NOT NULL, producer text COLLATE "C" NOT NULL,
        ahead boolean NOT NULL, since bigint NOT NULL, PRIMARY KEY (part, consumer, producer))""",
    """CREATE TABLE IF NOT EXISTS {feed} (
        part smallint NOT NULL, consumer text COLLATE "C" NOT NULL, producer text COLLATE "C" NOT NULL,
        ts bigint[] NOT NULL, id text[] COLLATE "C" NOT NULL, PRIMARY KEY (part, consumer, producer))
        WITH (fillfactor = 70)""",
    """CREATE TABLE IF NOT EXISTS {parts} (
        part smallint PRIMARY KEY, t bigint, epoch bigint NOT NULL, meaning text NOT NULL) WITH (fillfactor = 50)""",
    "ALTER TABLE {parts} ADD COLUMN IF NOT EXISTS started bigint",
    """CREATE TABLE IF NOT EXISTS {hidden} (
        consumer text COLLATE "C" NOT NULL, producer text COLLATE "C" NOT NULL, kind text NOT NULL,
        PRIMARY KEY (consumer, producer, kind))""",
    """CREATE TABLE IF NOT EXISTS {seen} (
        consumer text COLLATE "C" PRIMARY KEY, ts bigint NOT NULL, id text COLLATE "C" NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS {rates} (
        kind text NOT NULL, id text COLLATE "C" NOT NULL, count double precision NOT NULL,
        at double precision NOT NULL, PRIMARY KEY (kind, id)) WITH (fillfactor = 70)""",
)
MAKE_FEEDS: LiteralString = (
    "CREATE TABLE IF NOT EXISTS headrace_feeds.feeds (feed text PRIMARY KEY, project text NOT NULL)"
)
OWNER: LiteralString = "SELECT project FROM headrace_feeds.feeds WHERE feed = %s"

TAKE: LiteralString = """
INSERT INTO {parts} (part, epoch, meaning) SELECT part, %(epoch)s, %(meaning)s FROM generate_series(-1, %(last)s) part
ON CONFLICT (part) DO UPDATE SET epoch = excluded.epoch,
    t = CASE WHEN {parts}.meaning = excluded.meaning THEN {parts}.t END, meaning = excluded.meaning
WHERE {parts}.epoch <= excluded.epoch
"""
CLOCKS: LiteralString = "SELECT part, t FROM {parts} WHERE t IS NOT NULL"
MOVE: LiteralString = """
UPDATE {parts} SET t = %(upto)s WHERE part = ANY (%(parts)s) AND t = %(after)s AND epoch = %(epoch)s
"""
SET: LiteralString = "UPDATE {parts} SET t = %(t)s, started = %(t)s WHERE part = %(part)s AND epoch = %(epoch)s"
FIND_PARTS: LiteralString = "SELECT part, t, epoch FROM {parts} WHERE part = ANY (%(parts)s) ORDER BY part"

ADD_EVENTS: LiteralString = """
INSERT INTO {events} (producer, ts, id, body, from_t, to_t)
SELECT producer, ts, id, body::jsonb, t, 9223372036854775807
FROM unnest(%(producer)s::text[], %(ts)s::bigint[], %(id)s::text[], %(body)s::text[], %(t)s::bigint[])
    AS came(producer, ts, id, body, t)
ON CONFLICT DO NOTHING
"""
# No event of a producer is newer than this, as of whatever time. It is lowered only when events are purged.
RAISE_NEWEST: LiteralString = """
INSERT INTO {newest} AS n (producer, ts, id)
SELECT DISTINCT ON (producer) producer, ts, id COLLATE "C"
FROM unnest(%(producer)s::text[], %(ts)s::bigint[], %(id)s::text[]) AS came(producer, ts, id)
ORDER BY producer, ts DESC, id COLLATE "C" DESC
ON CONFLICT (producer) DO UPDATE SET ts = excluded.ts, id = excluded.id
WHERE (n.ts, n.id) < (excluded.ts, excluded.id)
"""
LOWER_NEWEST: LiteralString = """
UPDATE {newest} n SET ts = rest.ts, id = rest.id FROM unnest(%(producers)s::text[]) AS purged(producer)
CROSS JOIN LATERAL (
    SELECT v.ts, v.id FROM {events} v WHERE v.producer = purged.producer ORDER BY v.ts DESC, v.id DESC LIMIT 1
) rest WHERE n.producer = purged.producer AND (n.ts, n.id) > (rest.ts, rest.id)
"""
DROP_NEWEST: LiteralString = """
DELETE FROM {newest} n USING unnest(%(producers)s::text[]) AS purged(producer)
WHERE n.producer = purged.producer AND NOT EXISTS (SELECT FROM {events} v WHERE v.producer = purged.producer)
"""
# The first end after a version's beginning is its own: of one event there is one version at a time.
END_EVENTS: LiteralString = """
UPDATE {events} e SET to_t = ended.t FROM (
    SELECT v.producer, v.ts, v.id, v.from_t, min(went.t) AS t
    FROM unnest(%(producer)s::text[], %(ts)s::bigint[], %(id)s::text[], %(t)s::bigint[]) AS went(producer, ts, id, t)
    JOIN {events} v ON v.producer = went.producer AND v.ts = went.ts AND v.id = went.id
        AND v.from_t < went.t AND v.to_t = 9223372036854775807
    GROUP BY v.producer, v.ts, v.id, v.from_t
) ended WHERE e.producer = ended.producer AND e.ts = ended.ts AND e.id = ended.id AND e.from_t = ended.from_t
"""
PUT_PAIRS: LiteralString = """
INSERT INTO {pairs} (part, consumer, producer, ahead, since)
SELECT * FROM unnest(%(part)s::smallint[], %(consumer)s::text[], %(producer)s::text[], %(ahead)s::boolean[],
    %(since)s::bigint[])
ON CONFLICT (part, consumer, producer) DO UPDATE SET ahead = excluded.ahead, since = excluded.since
"""
DROP_PAIRS: LiteralString = """
DELETE FROM {pairs} p USING unnest(%(part)s::smallint[], %(consumer)s::text[], %(producer)s::text[])
    AS gone(part, consumer, producer)
WHERE p.part = gone.part AND p.consumer = gone.consumer AND p.producer = gone.producer
"""
# What mostly happens: a new entry comes first, and the last one goes. Costs a third of summing up. The pairs for which
# something else happens are told.
SHIFT_STORED: LiteralString = """
WITH change AS MATERIALIZED (
    SELECT *, CASE WHEN gone_ts IS NULL THEN 0 ELSE 1 END AS less
    FROM unnest(%(part)s::smallint[], %(consumer)s::text[], %(producer)s::text[], %(ts)s::bigint[], %(id)s::text[],
        %(gone_ts)s::bigint[], %(gone_id)s::text[]) WITH ORDINALITY
        AS change(part, consumer, producer, ts, id, gone_ts, gone_id, number)
), shifted AS (
    UPDATE {feed} f
    SET ts = change.ts || f.ts[1:cardinality(f.ts) - change.less],
        id = change.id || f.id[1:cardinality(f.id) - change.less]
    FROM change
    WHERE f.part = change.part AND f.consumer = change.consumer AND f.producer = change.producer
        AND (f.ts[1], f.id[1]) < (change.ts, change.id COLLATE "C")
        AND (less = 0 OR (f.ts[cardinality(f.ts)] = gone_ts AND f.id[cardinality(f.id)] = gone_id))
    RETURNING number
)
SELECT number FROM change WHERE number NOT IN (SELECT number FROM shifted)
"""
# An entry is there once or not at all: whatever else the sum says, somebody else has changed the table.
CHANGE_STORED: LiteralString = """
WITH change AS MATERIALIZED (
    SELECT * FROM unnest(%(part)s::smallint[], %(consumer)s::text[], %(producer)s::text[], %(ts)s::bigint[],
        %(id)s::text[], %(w)s::integer[]) AS change(part, consumer, producer, ts, id, w)
), entry AS (
    SELECT f.part, f.consumer, f.producer, held.ts, held.id, 1 AS w
    FROM (SELECT DISTINCT part, consumer, producer FROM change) touched
    JOIN {feed} f USING (part, consumer, producer) CROSS JOIN LATERAL unnest(f.ts, f.id) AS held(ts, id)
    UNION ALL SELECT * FROM change
), total AS (
    SELECT part, consumer, producer, ts, id COLLATE "C" AS id, sum(w) AS w FROM entry GROUP BY 1, 2, 3, 4, 5
), list AS (
    SELECT part, consumer, producer,
        coalesce(array_agg(ts ORDER BY ts DESC, id DESC) FILTER (WHERE w > 0), ARRAY[]::bigint[]) AS ts,
        coalesce(array_agg(id ORDER BY ts DESC, id DESC) FILTER (WHERE w > 0), ARRAY[]::text[]) AS id,
        count(*) FILTER (WHERE w NOT IN (0, 1)) AS wrong
    FROM total GROUP BY 1, 2, 3
), written AS (
    INSERT INTO {feed} (part, consumer, producer, ts, id) SELECT part, consumer, producer, ts, id FROM list
    ON CONFLICT (part, consumer, producer) DO UPDATE SET ts = excluded.ts, id = excluded.id
)
SELECT coalesce(sum(wrong), 0)::bigint AS wrong FROM list
"""
DROP_EMPTY: LiteralString = """
DELETE FROM {feed} f USING unnest(%(part)s::smallint[], %(consumer)s::text[], %(producer)s::text[])
    AS gone(part, consumer, producer)
WHERE f.part = gone.part AND f.consumer = gone.consumer AND f.producer = gone.producer AND cardinality(f.ts) = 0
"""
FILL_STORED: LiteralString = """
INSERT INTO {feed} (part, consumer, producer, ts, id)
SELECT part, consumer, producer, array_agg(ts ORDER BY ts DESC, id DESC), array_agg(id ORDER BY ts DESC, id DESC)
FROM (
    SELECT DISTINCT part, consumer, producer, ts, id COLLATE "C" AS id
    FROM unnest(%(part)s::smallint[], %(consumer)s::text[], %(producer)s::text[], %(ts)s::bigint[], %(id)s::text[])
        AS row(part, consumer, producer, ts, id)
) row GROUP BY 1, 2, 3
"""
# Whoever moves a part waits for us, and we for them, so that a flip never comes after what it is to come before.
FLIP: LiteralString = """
WITH clock AS (
    SELECT part, t FROM {parts} WHERE part = ANY (%(part)s::smallint[]) AND epoch = %(epoch)s ORDER BY part FOR SHARE
)
UPDATE {pairs} p SET ahead = flip.ahead, since = flip.since
FROM unnest(%(part)s::smallint[], %(consumer)s::text[], %(producer)s::text[], %(ahead)s::boolean[],
    %(since)s::bigint[]) AS flip(part, consumer, producer, ahead, since) JOIN clock USING (part)
WHERE p.part = flip.part AND p.consumer = flip.consumer AND p.producer = flip.producer AND flip.since > clock.t
"""
PURGE: LiteralString = """
DELETE FROM {events} WHERE to_t < 9223372036854775807
    AND to_t < (SELECT min(coalesce(t, 0)) FROM {parts}) - %(kept)s
RETURNING producer
"""
SINCE: LiteralString = """
SELECT since FROM {pairs} WHERE part = %(part)s AND consumer = %(consumer)s AND producer = %(producer)s
"""
# Whoever brings events forward waits: an event that comes meanwhile must not be newer than its producer's newest.
HOLD_EVENTS: LiteralString = "SELECT FROM {parts} WHERE part = -1 FOR UPDATE"
SIZES: LiteralString = """
SELECT (SELECT count(*) FROM {pairs}) AS pairs, (SELECT count(*) FROM {pairs} WHERE ahead) AS stored_ahead,
    (SELECT coalesce(sum(cardinality(ts)), 0)::bigint FROM {feed}) AS entries,
    (SELECT count(*) FROM {events} WHERE to_t = 9223372036854775807) AS events,
    (SELECT sum(pg_total_relation_size(name))::bigint FROM unnest(%(names)s::regclass[]) name) AS bytes
"""


def connect_feeds(dsn: str) -> Connection:
    """A session that says what it is for, and ends if what it sends is not taken."""
    terms = {"application_name": "headrace feeds", "tcp_user_timeout": SENT_WITHIN_MS, **conninfo_to_dict(dsn)}
    return connect_session(make_conninfo("", **terms))


class StoreTables:
    """Names of one feed's tables."""

    def __init__(self, feed: str) -> None:
        if len(feed.encode()) > LONGEST_FEED:
            hint = f"a name may have {LONGEST_FEED} bytes"
            raise ConnectError(f'the name of feed "{feed}" is too long for tables of PostgreSQL', hint)
        self.feed = feed
        self.names = {name: sql.Identifier(SCHEMA, f"{feed}_{name}") for name in NAMES}

    def name_in(self, statement: LiteralString) -> sql.Composed:
        indexes = {name: sql.Identifier(f"{self.feed}_{name}") for name in ("ended", "fresh", "places")}
        return sql.SQL(statement).format(**self.names, **indexes)

    def make(self, session: Connection, project: str) -> str:
        """Makes tables that are missing; whose feed it is."""
        session.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        session.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
        session.execute(MAKE_FEEDS)
        found = session.execute(OWNER, [self.feed]).fetchone()
        if found is None:
            session.execute("INSERT INTO headrace_feeds.feeds (feed, project) VALUES (%s, %s)", [self.feed, project])
        elif found["project"] != project:
            owner: str = found["project"]
            return owner
        for statement in _MAKE:
            session.execute(self.name_in(statement))
        return project

    def drop(self, session: Connection, project: str) -> str:
        """Drops the tables if they are the project's, and says whose they are; tables that nobody has are left."""
        session.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        if session.execute("SELECT to_regclass('headrace_feeds.feeds') AS there").fetchone() == {"there": None}:
            return project
        found = session.execute(OWNER, [self.feed]).fetchone()
        if found is None or found["project"] != project:
            return project if found is None else str(found["project"])
        for name in self.names.values():
            session.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))
        session.execute("DELETE FROM headrace_feeds.feeds WHERE feed = %s", [self.feed])
        return project
