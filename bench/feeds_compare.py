"""Compares pages with what DuckDB computes from the raw events as of each page's time."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa

from bench.feeds_history import Version
from bench.feeds_people import EPOCH, SeenEntry, SeenPage
from bench.feeds_world import LIMIT, MORE_THAN, PER_PRODUCER, WITHIN_S
from headrace.run.feeds.cursor import decode_cursor
from headrace.run.feeds.page import PageCursor
from headrace.run.feeds.signed import SIGNATURE_BYTES

AT_ONCE = 500
"""Pages that one statement compares."""
DIGITS = 19
NOWHERE = (None, None, None)

FOUND = """
CREATE OR REPLACE TEMP TABLE found AS
WITH known AS (
    SELECT p.n, p.as_of, p.aged_from, e.producer, e.ts, e.id, e.place, e.body,
        p.top_ts, p.top_place, p.top_of, coalesce(last.ts, p.floor_ts) AS last_ts,
        coalesce(last.place, p.floor_place) AS last_place, coalesce(last.of, p.floor_of) AS last_of
    FROM pages p
    JOIN follows f ON f.consumer = p.consumer AND f.from_t <= p.as_of AND p.as_of < f.to_t
    JOIN events e ON e.producer = f.producer AND e.from_t <= p.as_of AND p.as_of < e.to_t
    LEFT JOIN shown last ON last.n = p.n AND last.producer = e.producer
    WHERE NOT EXISTS (SELECT 1 FROM hidden h WHERE h.n = p.n AND h.producer = e.producer)
), eligible AS (
    SELECT * FROM known
    WHERE top_ts IS NULL OR (
        (ts, place, producer) <= (top_ts, top_place, top_of)
        AND (last_ts IS NULL OR (ts, place, producer) < (last_ts, last_place, last_of)))
)
SELECT n, aged_from, producer, ts, id, body,
    row_number() OVER (PARTITION BY n, producer ORDER BY ts DESC, place DESC) AS nth,
    row_number() OVER (PARTITION BY n ORDER BY ts DESC, place DESC, producer DESC) AS place
FROM eligible
"""
"""What a page may show. `shown`, `floor_*` and `top_*` are from the cursor: what was shown of each producer is not
below its place, or not below the floor, and where the page ended."""

FEW: Mapping[str, str] = {
    "home": f"""
        SELECT n, producer, ts, id, body FROM found WHERE nth <= {PER_PRODUCER}
        QUALIFY row_number() OVER (PARTITION BY n ORDER BY place) <= {LIMIT} ORDER BY n, place
    """,
    "wall": f"""
        WITH few AS (
            SELECT *, 'few' AS how FROM found WHERE nth <= {MORE_THAN}
            QUALIFY row_number() OVER (PARTITION BY n ORDER BY place) <= {LIMIT}
        ), head AS (
            SELECT *, nth = 1 AND ts >= aged_from - {WITHIN_S} * 1000000 AS is_head FROM found
        ), every AS (
            SELECT * EXCLUDE is_head, 'every' AS how FROM head
            WHERE n NOT IN (SELECT n FROM head WHERE is_head GROUP BY n HAVING count(*) > {LIMIT})
            QUALIFY row_number() OVER (PARTITION BY n ORDER BY is_head DESC, place) <= {LIMIT}
        ), choice AS (FROM few UNION ALL FROM every), better AS (
            SELECT n, how, list(place ORDER BY place) AS places,
                list_resize(places, {LIMIT}, 1000000000) AS filled
            FROM choice GROUP BY n, how
            QUALIFY row_number() OVER (PARTITION BY n ORDER BY filled) = 1
        )
        SELECT n, producer, ts, id, body FROM choice JOIN better USING (n, how) ORDER BY n, place
    """,
}
"""Pages by feed: at most three of a producer; or k,t-diverse (Feeding Frenzy, section 2.2.1): at most k of a producer
unless everybody who has an event within t is there, whichever comes first in the order of time."""


@dataclass
class Compared:
    pages: int = 0
    entries: int = 0
    stored: int = 0
    later: int = 0
    """Pages that follow another."""
    cut: int = 0
    """Pages that ended early, and said so."""
    counts: Counter[str] = field(default_factory=Counter)
    """Pages that differ, have gaps, duplicates or are in disorder."""
    examples: list[str] = field(default_factory=list)


def compare_pages(pages: Sequence[SeenPage], history: Mapping[str, Sequence[Version]], feed: str) -> Compared:
    """Pages of one feed. `history` has its events and follows."""
    compared = Compared()
    with duckdb.connect() as duck:
        _fill(duck, "events", _tell_events(history[f"{feed}/events"], feed))
        _fill(duck, "follows", _tell_follows(history[f"{feed}/follows"]))
        for start in range(0, len(pages), AT_ONCE):
            some = pages[start : start + AT_ONCE]
            expected = _compute(duck, some, feed)
            for number, page in enumerate(some):
                _judge(compared, page, expected.get(number, ()))
    return compared


def _compute(duck: duckdb.DuckDBPyConnection, pages: Sequence[SeenPage], feed: str) -> dict[int, tuple[SeenEntry, ...]]:
    cursors = [_read_cursor(page.before) for page in pages]
    places = ("top_ts", "top_place", "top_of", "floor_ts", "floor_place", "floor_of")
    rows = {name: list[Any]() for name in ("n", "consumer", "as_of", "aged_from", *places)}
    shown = {name: list[Any]() for name in ("n", "producer", "ts", "place", "of")}
    hidden = {name: list[Any]() for name in ("n", "producer")}
    for number, (page, cursor) in enumerate(zip(pages, cursors, strict=True)):
        as_of = page.as_of if cursor is None else cursor.as_of
        top = NOWHERE if cursor is None else cursor.ceiling
        floor = NOWHERE if cursor is None or cursor.floor is None else cursor.floor
        for name, value in zip(rows, (number, page.consumer, page.as_of, as_of, *top, *floor), strict=True):
            rows[name].append(value)
        for producer, bound in () if cursor is None else cursor.below.items():
            for name, value in zip(shown, (number, producer, *bound), strict=True):
                shown[name].append(value)
        for producer in page.hidden:
            hidden["n"].append(number)
            hidden["producer"].append(producer)
    types = {"n": pa.int64(), "as_of": pa.int64(), "aged_from": pa.int64(), "top_ts": pa.int64()}
    types |= {"floor_ts": pa.int64(), "ts": pa.int64()}
    for table, columns in (("pages", rows), ("shown", shown), ("hidden", hidden)):
        arrays = {name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()}
        _fill(duck, table, pa.table(arrays))
    duck.execute(FOUND)
    found: dict[int, list[SeenEntry]] = {}
    for number, producer, ts, id_, body in duck.execute(FEW[feed]).fetchall():
        found.setdefault(number, []).append(SeenEntry(producer, ts, id_, json.loads(body)))
    return {number: tuple(entries) for number, entries in found.items()}


def _fill(duck: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    duck.register("given", rows)
    duck.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM given")
    duck.unregister("given")


def _tell_events(versions: Sequence[Version], feed: str) -> pa.Table:
    """Numbers are ordered as such; their places are written with zeros on the left, as cursors have them."""
    columns: dict[str, list[Any]] = {
        "producer": [version.row[0] for version in versions],
        "ts": [(version.row[1] - EPOCH) // dt.timedelta(microseconds=1) for version in versions],
        "id": [version.row[2] for version in versions],
        "place": [f"1{int(version.row[2]):0{DIGITS}d}" if feed == "wall" else version.row[2] for version in versions],
        "body": [version.row[3] for version in versions],
    }
    return pa.table({**columns, **_tell_times(versions)})


def _tell_follows(versions: Sequence[Version]) -> pa.Table:
    columns = {name: [version.row[at] for version in versions] for at, name in enumerate(("consumer", "producer"))}
    return pa.table({**columns, **_tell_times(versions)})


def _tell_times(versions: Sequence[Version]) -> dict[str, list[int]]:
    return {"from_t": [version.from_t for version in versions], "to_t": [version.to_t for version in versions]}


def _read_cursor(text: str | None) -> PageCursor | None:
    if text is None:
        return None
    return decode_cursor(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[SIGNATURE_BYTES:])


def _judge(compared: Compared, page: SeenPage, expected: tuple[SeenEntry, ...]) -> None:
    compared.pages += 1
    compared.entries += len(page.entries)
    compared.stored += page.stored
    compared.later += page.before is not None
    compared.cut += page.is_cut
    if page.is_cut:  # it ends early, and says so: what it shows must be right
        expected = expected[: len(page.entries)]
    wrong = [what for what, is_so in _find_wrong(page, expected) if is_so]
    compared.counts.update(wrong)
    if wrong:
        compared.examples.append(_describe(page, expected, wrong))


def _find_wrong(page: SeenPage, expected: tuple[SeenEntry, ...]) -> Iterator[tuple[str, bool]]:
    entries = page.entries
    yield "differ", entries != expected
    # An event that was moved to an earlier time while somebody turned pages is shown there as well.
    keys = [(entry.producer, entry.id) for entry in entries]
    earlier = {(entry.producer, entry.id, entry.time) for entry in page.earlier}
    again = any((entry.producer, entry.id, entry.time) in earlier for entry in entries)
    yield "duplicates", again or len(set(keys)) < len(keys)
    yield "disorder", any(later.time > entry.time for entry, later in pairwise(entries))
    shown = set(entries)
    oldest = {entry.producer: entry.time for entry in entries}  # the last one of each
    yield "gaps", any(one.time > oldest.get(one.producer, one.time) and one not in shown for one in expected)


def _describe(page: SeenPage, expected: tuple[SeenEntry, ...], wrong: Sequence[str]) -> str:
    missing = [entry for entry in expected if entry not in page.entries]
    more = [entry for entry in page.entries if entry not in expected]
    return (
        f"{page.feed} of {page.consumer} as of {page.as_of} ({', '.join(wrong)}; page"
        f" {1 if page.before is None else 'that follows'}, {page.stored} stored, {len(page.entries)} entries,"
        f" hidden {sorted(page.hidden)}):\n    SQL also has {missing}\n    the page also has {more}"
    )
