"""Statements that find what a page of a feed in PostgreSQL can be made of.

    few       all whom the consumer follows are looked at, one after the other
    many      the newest places of all producers are walked, newest first, until enough of them are followed: this
              costs what a page shows and not what the consumer follows. `bound` is where the walk ended

Both have the same answer if nothing at or below the bound can be on the page.

Of what is stored ahead, a first page looks at the first entry of every pair, and at more only of as many pairs as it
needs entries: those whose first entries are newest. Before any entry of another pair there are enough already, whatever
the rules are, since the first entry of a pair counts by every rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

MORE_WALKED = 20
"""Producers looked at beyond those that a page needs, since a newest place may be of an event that is gone."""

# Before events were filled, nothing is known of them: a part that is earlier has to wait until it has come as far.
CLOCK: LiteralString = """clock AS MATERIALIZED (
    SELECT own.t FROM {parts} own JOIN {parts} events ON events.part = -1
    WHERE own.part = %(part)s AND own.t >= coalesce(events.started, 0)
)"""
HIDDEN: LiteralString = "ARRAY (SELECT h.producer FROM {hidden} h WHERE h.consumer = %(consumer)s)"
PAIRS: LiteralString = f"""
{CLOCK}, pair AS MATERIALIZED (
    SELECT p.producer, p.ahead AND p.since <= clock.t AS is_stored FROM {{pairs}} p CROSS JOIN clock
    WHERE p.part = %(part)s AND p.consumer = %(consumer)s AND NOT p.producer = ANY ({HIDDEN})
    ORDER BY p.producer LIMIT %(most)s::bigint
)"""
# A walk takes all that are above where the last page ended, since they may have more below it, and some below.
_WALK: LiteralString = f"""
{CLOCK}, above AS MATERIALIZED (
    SELECT n.producer FROM {{newest}} n WHERE (n.ts, n.id) >= (%(top_ts)s::bigint, %(top_id)s::text COLLATE "C")
    ORDER BY n.ts DESC, n.id DESC LIMIT %(steps)s
), below AS MATERIALIZED (
    SELECT n.producer, n.ts, n.id, p.is_stored FROM (
        SELECT n.producer, n.ts, n.id FROM {{newest}} n
        WHERE (n.ts, n.id) < (%(top_ts)s::bigint, %(top_id)s::text COLLATE "C")
        ORDER BY n.ts DESC, n.id DESC LIMIT %(steps)s
    ) n CROSS JOIN LATERAL (
        SELECT p.ahead AND p.since <= clock.t AS is_stored FROM {{pairs}} p CROSS JOIN clock
        WHERE p.part = %(part)s AND p.consumer = %(consumer)s AND p.producer = n.producer
            AND (%(is_later)s OR NOT (p.ahead AND p.since <= clock.t)) LIMIT 1
    ) p WHERE NOT n.producer = ANY ({HIDDEN})
    ORDER BY n.ts DESC, n.id DESC LIMIT %(walked)s
), pair AS MATERIALIZED (
    SELECT producer, is_stored FROM below
    UNION ALL SELECT above.producer, p.is_stored FROM above CROSS JOIN LATERAL (
        SELECT p.ahead AND p.since <= clock.t AS is_stored FROM {{pairs}} p CROSS JOIN clock
        WHERE p.part = %(part)s AND p.consumer = %(consumer)s AND p.producer = above.producer LIMIT 1
    ) p WHERE NOT above.producer = ANY ({HIDDEN})
), bound AS MATERIALIZED (
    SELECT CASE WHEN (SELECT count(*) FROM above) >= %(steps)s THEN 9223372036854775807 ELSE ended.ts END AS ts,
        ended.id
    FROM (SELECT) one LEFT JOIN (
        SELECT ts, id FROM (SELECT ts, id FROM below ORDER BY ts, id LIMIT 1) last
        WHERE (SELECT count(*) FROM below) >= %(walked)s
        UNION ALL SELECT ts, id FROM (
            SELECT n.ts, n.id FROM {{newest}} n WHERE (n.ts, n.id) < (%(top_ts)s::bigint, %(top_id)s::text COLLATE "C")
            ORDER BY n.ts DESC, n.id DESC OFFSET %(steps)s - 1 LIMIT 1
        ) gave_up WHERE (SELECT count(*) FROM below) < %(walked)s
    ) ended ON true
)"""
_ON_READ: LiteralString = f"""
{CLOCK}, pair AS MATERIALIZED (
    SELECT p.producer, false AS is_stored, p.since > clock.t AS is_new FROM clock CROSS JOIN {{pairs}} p
    WHERE p.part = %(part)s AND p.consumer = %(consumer)s AND NOT (p.ahead AND p.since <= clock.t)
        AND NOT p.producer = ANY ({HIDDEN})
    LIMIT %(most)s::bigint
)"""
# Entries of a pair come and go with the decision about it. While that is still to come, the pair is on read.
_STORED_OF_FEW: LiteralString = "NOT f.producer = ANY (ARRAY (SELECT producer FROM pair WHERE is_new))"
_STORED_OF_MANY: LiteralString = """EXISTS (
    SELECT FROM {pairs} p WHERE p.part = %(part)s AND p.consumer = %(consumer)s AND p.producer = f.producer
        AND p.ahead AND p.since <= (SELECT t FROM clock)
)"""
# No page can show a pair if the first entries of as many others as it needs come before its own.
_HELD: LiteralString = f"""
found AS (
    SELECT f.producer, held.ts, held.id, held.nth, true AS is_stored FROM (
        SELECT f.producer, f.ts, f.id FROM {{feed}} f
        WHERE f.part = %(part)s AND f.consumer = %(consumer)s AND NOT f.producer = ANY ({HIDDEN}) AND """
_PULLED: LiteralString = """
        ORDER BY f.ts[1] DESC, f.id[1] DESC, f.producer DESC LIMIT %(enough)s
    ) f CROSS JOIN LATERAL unnest(f.ts[1:%(shown)s], f.id[1:%(shown)s]) WITH ORDINALITY AS held(ts, id, nth)
    UNION ALL SELECT pair.producer, e.ts, e.id, e.nth, false
    FROM pair CROSS JOIN clock CROSS JOIN LATERAL (
        SELECT v.ts, v.id, row_number() OVER (ORDER BY v.ts DESC, v.id DESC) AS nth FROM {events} v
        WHERE v.producer = pair.producer AND v.from_t <= clock.t AND clock.t < v.to_t
        ORDER BY v.ts DESC, v.id DESC LIMIT %(shown)s
    ) e WHERE NOT pair.is_stored AND (SELECT few FROM extent)
)"""
_FIRST_OF_FEW: LiteralString = f"{_HELD}{_STORED_OF_FEW}{_PULLED}"
_FIRST_OF_MANY: LiteralString = f"{_HELD}{_STORED_OF_MANY}{_PULLED}"
_LATER: LiteralString = """
shown AS (
    SELECT * FROM unnest(%(bound_of)s::text[], %(bound_ts)s::bigint[], %(bound_id)s::text[], %(bound_by)s::text[])
        AS shown(producer, ts, id, by)
), found AS (
    SELECT pair.producer, e.ts, e.id, e.nth, false AS is_stored
    FROM pair CROSS JOIN clock LEFT JOIN shown ON shown.producer = pair.producer CROSS JOIN LATERAL (
        SELECT coalesce(shown.ts, %(floor_ts)s::bigint) AS ts, coalesce(shown.id, %(floor_id)s::text) AS id,
            coalesce(shown.by, %(floor_by)s::text) AS by
    ) b CROSS JOIN LATERAL (
        SELECT v.ts, v.id, row_number() OVER (ORDER BY v.ts DESC, v.id DESC) AS nth FROM {events} v
        WHERE v.producer = pair.producer AND v.from_t <= clock.t AND clock.t < v.to_t
            AND (v.ts, v.id) <= (%(top_ts)s::bigint, %(top_id)s::text COLLATE "C")
            AND (v.ts, v.id, v.producer) <= (%(top_ts)s::bigint, %(top_id)s::text COLLATE "C", %(top_of)s::text)
            AND (v.ts, v.id) <= (b.ts, b.id COLLATE "C")
            AND (v.ts, v.id, v.producer) < (b.ts, b.id COLLATE "C", b.by COLLATE "C")
        ORDER BY v.ts DESC, v.id DESC LIMIT %(shown)s
    ) e WHERE (SELECT few FROM extent)
)"""
_NEWEST: LiteralString = """
needed AS (
    SELECT producer, ts, id, is_stored FROM found ORDER BY ts DESC, id COLLATE "C" DESC, producer DESC LIMIT %(enough)s
)"""
_DIVERSE: LiteralString = """
placed AS (
    SELECT *, row_number() OVER (ORDER BY ts DESC, id COLLATE "C" DESC, producer DESC) AS place,
        row_number() OVER (PARTITION BY nth <= %(k)s ORDER BY ts DESC, id COLLATE "C" DESC, producer DESC) AS place_of_k
    FROM found
), needed AS (
    SELECT producer, ts, id, is_stored FROM placed CROSS JOIN clock
    WHERE place <= %(enough)s OR (nth <= %(k)s AND place_of_k <= %(enough)s)
        OR (nth = 1 AND ts >= coalesce(%(as_of)s::bigint, clock.t) - %(within)s)
)"""
_FEW: LiteralString = "extent AS MATERIALIZED (SELECT coalesce(count(*) < %(most)s::bigint, true) AS few FROM pair)"
_MANY: LiteralString = "extent AS (SELECT true AS few)"
_BODIES: LiteralString = """
LEFT JOIN {events} e
    ON e.producer = n.producer AND e.ts = n.ts AND e.id = n.id AND e.from_t <= clock.t AND clock.t < e.to_t
"""
_ANSWER: LiteralString = f"""
SELECT clock.t, extent.few, n.producer, n.ts, n.id, n.is_stored, e.body::text AS body
FROM clock CROSS JOIN extent LEFT JOIN needed n ON true {_BODIES}
"""
_ANSWER_OF_MANY: LiteralString = f"""
SELECT clock.t, bound.ts AS bound_ts, bound.id AS bound_id, n.producer, n.ts, n.id, n.is_stored, e.body::text AS body
FROM clock CROSS JOIN bound LEFT JOIN needed n ON true {_BODIES}
"""
PAGES_OF_FEW: Mapping[tuple[bool, bool], LiteralString] = {
    (False, False): f"WITH {_ON_READ}, {_FEW}, {_FIRST_OF_FEW}, {_NEWEST} {_ANSWER}",
    (False, True): f"WITH {_ON_READ}, {_FEW}, {_FIRST_OF_FEW}, {_DIVERSE} {_ANSWER}",
    (True, False): f"WITH {PAIRS}, {_FEW}, {_LATER}, {_NEWEST} {_ANSWER}",
    (True, True): f"WITH {PAIRS}, {_FEW}, {_LATER}, {_DIVERSE} {_ANSWER}",
}
"""Statements by whether there is a cursor, and whether the feed is diverse. `few` is false if there are too many."""

PAGES_OF_MANY: Mapping[tuple[bool, bool], LiteralString] = {
    (False, False): f"WITH {_WALK}, {_MANY}, {_FIRST_OF_MANY}, {_NEWEST} {_ANSWER_OF_MANY}",
    (False, True): f"WITH {_WALK}, {_MANY}, {_FIRST_OF_MANY}, {_DIVERSE} {_ANSWER_OF_MANY}",
    (True, False): f"WITH {_WALK}, {_MANY}, {_LATER}, {_NEWEST} {_ANSWER_OF_MANY}",
    (True, True): f"WITH {_WALK}, {_MANY}, {_LATER}, {_DIVERSE} {_ANSWER_OF_MANY}",
}

_VISIBLE: LiteralString = "v.from_t <= %(t)s::bigint AND %(t)s::bigint < v.to_t"
_FLOOR: LiteralString = '(%(floor_ts)s::bigint, %(floor_id)s::text COLLATE "C")'
_FOLLOWED: LiteralString = f"""
FROM {{pairs}} p CROSS JOIN clock
WHERE p.part = %(part)s AND p.consumer = %(consumer)s AND NOT p.producer = ANY ({HIDDEN})"""
# Whoever has said nothing since the floor has nothing above it: only the others are looked at. For those who follow
# many, they are found by walking newest places, at most so many steps.
ENDS: LiteralString = f"""
WITH clock AS MATERIALIZED (SELECT t FROM {{parts}} WHERE part = %(part)s AND t = %(t)s),
few AS MATERIALIZED (SELECT p.producer {_FOLLOWED} LIMIT %(most)s::bigint),
walked AS MATERIALIZED (
    SELECT n.producer FROM {{newest}} n WHERE (n.ts, n.id) > {_FLOOR} AND (SELECT count(*) FROM few) >= %(most)s
    ORDER BY n.ts DESC, n.id DESC LIMIT %(steps)s
), recent AS (
    SELECT few.producer FROM few CROSS JOIN LATERAL (
        SELECT FROM {{newest}} n WHERE n.producer = few.producer AND (n.ts, n.id) > {_FLOOR} LIMIT 1
    ) n WHERE (SELECT count(*) FROM few) < %(most)s
    UNION ALL SELECT walked.producer FROM walked CROSS JOIN LATERAL (
        SELECT {_FOLLOWED} AND p.producer = walked.producer LIMIT 1
    ) p WHERE (SELECT count(*) FROM walked) < %(steps)s
    UNION ALL SELECT p.producer {_FOLLOWED} AND (SELECT count(*) FROM walked) >= %(steps)s
), spent AS MATERIALIZED (
    SELECT recent.producer FROM recent CROSS JOIN LATERAL (
        SELECT v.ts, v.id FROM {{events}} v WHERE v.producer = recent.producer AND {_VISIBLE}
        ORDER BY v.ts, v.id LIMIT 1
    ) oldest WHERE (oldest.ts, oldest.id) > {_FLOOR}
)
SELECT clock.t, e.producer, e.ts, e.id FROM clock LEFT JOIN (
    SELECT spent.producer, last.ts, last.id FROM spent CROSS JOIN LATERAL (
        SELECT v.ts, v.id FROM {{events}} v WHERE v.producer = spent.producer AND {_VISIBLE}
        ORDER BY v.ts DESC, v.id DESC OFFSET %(keep)s - 1 LIMIT 1
    ) last
) e ON true
"""
