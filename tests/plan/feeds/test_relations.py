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
    follows: {kind: table, at: us, columns: {who: string, whom: bigint}}
  feeds:
    home: {events: {EVENTS, producer: author, time: ts, id: pid}, PAGES,
           follows: {source: follows, consumer: who, producer: whom}}
"""
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
    follows: list[Row] = [(chance.choice(consumers), chance.choice(producers)) for _ in range(chance.randint(0, 12))]
    pairs: list[Row] = [(consumer, producer) for consumer in ["anna", "bob", "dora"] for producer in [1, 2, 9]]
    return {"posts": posts, "follows": follows, "home/decisions": chance.sample(pairs, chance.randint(0, len(pairs)))}


def ask_duckdb(rows: dict[str, list[Row]], sql: str) -> ZSet:
    with duckdb.connect() as database:
        database.execute("CREATE TABLE posts (pid BIGINT, author INT, ts TIMESTAMP, body TEXT)")
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


def test_a_feed_over_a_view_that_is_not_maintained_is_refused(tmp_path: Path) -> None:
    catalogue = read_catalogue(tmp_path, "view: short", "limit: 20")
    refused = Refusal("window function", ())
    views = {**catalogue.views, "short": replace(catalogue.views["short"], query=refused)}
    assert relations_of(catalogue.feeds["home"], replace(catalogue, views=views)) is refused
