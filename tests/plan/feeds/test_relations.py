"""The relations behind a feed mean what SQL says: random posts, follows and decisions, with what is odd among them."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Catalogue, Feed, Refusal
from headrace.model.relation import Relation
from headrace.model.types import Row
from headrace.plan.feeds.family import expand_feeds
from headrace.plan.feeds.relations import FeedRelations, relations_of
from tests.declare.projects import read

TEXT = """
  sources:
    posts: {kind: table, at: us, key: pid, columns: {pid: bigint, author: int, ts: timestamp, body: string}}
    notes: {kind: table, at: us, columns: {pid: bigint, author: int, ts: timestamp, body: string}}
    follows: {kind: table, at: us, columns: {who: string, whom: bigint}}
  feeds:
    home: {events: {EVENTS, producer: author, time: ts, id: pid}, PAGES,
           follows: {source: follows, consumer: who, producer: whom}}
"""
NO_IDS = TEXT.replace(", id: pid", "").replace("EVENTS", "source: notes").replace("PAGES", "keep: 4, per_producer: 2")
HOURLY = (
    "SELECT author, date_trunc('HOUR', ts) AS hour, COUNT(*) AS n FROM notes GROUP BY author, date_trunc('HOUR', ts)"
)
SHORT = "SELECT pid, author, ts FROM posts WHERE body <> 'long'"
ORDER = "PARTITION BY author ORDER BY ts DESC NULLS LAST, pid DESC NULLS LAST"
NEWEST = f"SELECT {{columns}} FROM (SELECT *, ROW_NUMBER() OVER ({ORDER}) AS n FROM {{events}}) WHERE n <= {{limit}}"
PAIRS = """
  SELECT DISTINCT who, whom, decisions.consumer IS NOT NULL FROM follows
  LEFT JOIN decisions ON who = decisions.consumer AND whom = decisions.producer
"""
STORED = f"""
  SELECT pairs.who, pairs.whom, ts, pid
  FROM (SELECT DISTINCT who, whom FROM follows JOIN decisions ON who = consumer AND whom = producer) AS pairs
  JOIN ({NEWEST}) AS newest ON newest.author = pairs.whom
"""


def read_catalogue(folder: Path, events: str, pages: str) -> Catalogue:
    text = TEXT.replace("EVENTS", events).replace("PAGES", pages)
    return expand_feeds(read(folder, text, short=SHORT), {"home": 1.0})


def made_of(catalogue: Catalogue) -> tuple[Feed, FeedRelations]:
    feed = catalogue.feeds["home"]
    made = relations_of(feed, catalogue)
    assert not isinstance(made, Refusal)
    return feed, made


def make_rows(seed: int) -> dict[str, list[Row]]:
    """Few names and times, so that ties, repeated follows and decisions about nobody occur."""
    chance = random.Random(seed)
    start = dt.datetime(2026, 1, 1)
    producers, consumers = [1, 2, 3, None], ["anna", "bob", "carl", None]
    posts: list[Row] = [
        (pid, chance.choice(producers), start + dt.timedelta(hours=chance.randint(0, 4)), chance.choice(["long", "x"]))
        for pid in range(chance.randint(0, 30))
    ]
    # Some without an id, and some without a time: these are never shown.
    notes: list[Row] = [tuple(None if chance.random() < 0.2 else value for value in post) for post in posts]
    follows: list[Row] = [(chance.choice(consumers), chance.choice(producers)) for _ in range(chance.randint(0, 12))]
    pairs: list[Row] = [(consumer, producer) for consumer in ["anna", "bob", "dora"] for producer in [1, 2, 9]]
    rows = {"posts": posts, "notes": notes, "follows": follows}
    return rows | {"home/decisions": chance.sample(pairs, chance.randint(0, len(pairs)))}


def ask_duckdb(rows: dict[str, list[Row]], sql: str) -> ZSet:
    with duckdb.connect() as database:
        for name in ("posts", "notes"):
            database.execute(f"CREATE TABLE {name} (pid BIGINT, author INT, ts TIMESTAMP, body TEXT)")
        database.execute("CREATE TABLE follows (who TEXT, whom BIGINT)")
        database.execute("CREATE TABLE decisions (consumer TEXT, producer BIGINT)")
        database.execute(f"CREATE VIEW short AS {SHORT}")
        for name, some in rows.items():
            table = name.rpartition("/")[2]
            if some:
                database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(some[0]))})", some)
        return ZSet.of(database.execute(sql).fetchall())


def evaluate_rows(relation: Relation, rows: dict[str, list[Row]]) -> ZSet:
    return evaluate(relation, {name: ZSet.of(some) for name, some in rows.items()})


@pytest.mark.parametrize("events", ["source: posts", "view: short"])
@pytest.mark.parametrize("seed", range(20))
def test_what_a_feed_maintains_equals_sql(events: str, seed: int, tmp_path: Path) -> None:
    feed, made = made_of(read_catalogue(tmp_path, events, "keep: 4, per_producer: 2"))
    rows, table = make_rows(seed), feed.events.source
    columns = "pid, author, ts, body" if table == "posts" else "pid, author, ts"
    newest = NEWEST.format(columns=columns, events=table, limit=4)
    assert evaluate_rows(made.newest, rows) == ask_duckdb(rows, newest)
    assert evaluate_rows(made.pairs, rows) == ask_duckdb(rows, PAIRS)
    stored = STORED.format(columns="author, ts, pid", events=table, limit=2)
    assert evaluate_rows(made.stored, rows) == ask_duckdb(rows, stored)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_stored_ahead_has_no_gaps_where_events_have_no_id(seed: int, tmp_path: Path) -> None:
    """An event without an id is on no page, so that it must not take the place of one that is."""
    _, made = made_of(read_catalogue(tmp_path, "source: notes", "keep: 4, per_producer: 2"))
    rows, whole = make_rows(seed), "(SELECT * FROM notes WHERE pid IS NOT NULL)"
    newest = NEWEST.format(columns="pid, author, ts, body", events=whole, limit=4)
    assert evaluate_rows(made.newest, rows) == ask_duckdb(rows, newest)
    stored = STORED.format(columns="author, ts, pid", events=whole, limit=2)
    assert evaluate_rows(made.stored, rows) == ask_duckdb(rows, stored)


@pytest.mark.parametrize("seed", range(20))
def test_without_ids_all_that_a_producer_says_at_one_time_is_one_event(seed: int, tmp_path: Path) -> None:
    catalogue = expand_feeds(read(tmp_path, NO_IDS, hourly=HOURLY), {"home": 1.0})
    feed, made = made_of(catalogue)
    rows, times = make_rows(seed), "(SELECT DISTINCT author, ts, 0 AS pid FROM notes)"
    newest = ZSet.of([row[1:3] for row in evaluate_rows(made.newest, rows).rows()])
    assert newest == ask_duckdb(rows, NEWEST.format(columns="author, ts", events=times, limit=4))
    stored = STORED.format(columns="author, ts, pid", events=times, limit=2).replace("ts, pid\n", "ts, ts\n")
    assert evaluate_rows(made.stored, rows) == ask_duckdb(rows, stored)
    over_view = replace(feed, events=replace(feed.events, source="hourly", time="hour"))
    plain = relations_of(over_view, catalogue)
    assert not isinstance(plain, Refusal) and str(plain.newest).count("TopK(") == 1, "an aggregate is one already"


def test_a_feed_over_a_view_that_is_not_maintained_is_refused(tmp_path: Path) -> None:
    catalogue = read_catalogue(tmp_path, "view: short", "limit: 20")
    refused = Refusal("window function", ())
    views = {**catalogue.views, "short": replace(catalogue.views["short"], query=refused)}
    assert relations_of(catalogue.feeds["home"], replace(catalogue, views=views)) is refused
