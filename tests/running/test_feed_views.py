"""The views behind a feed run: after posts, flips both ways, unfollowing and deletions they equal SQL."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from headrace.app.preparing import prepare
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.perform import apply_plan
from headrace.model.explanation import ImaginedChange, WhyFeed, WhyPair
from headrace.model.options import ApplyWishes
from headrace.plan.explain import what_if_running, why
from headrace.plan.make import plan_on_running
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.reading import ViewReader
from headrace.site.service import Service
from headrace.site.sources.written import write_rows
from tests.running.running_project import until

PROJECT = """
project: social
sites: {us: {}}
feeds:
  home: {events: api, follows: api, keep: 4, per_producer: 2, freshness: 2 s}
"""
NEWEST = """
  SELECT producer, time, id, body FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY producer ORDER BY time DESC, id DESC) AS n FROM events) WHERE n <= {limit}
"""
EXPECTED = {
    "home/newest": NEWEST.format(limit=4),
    "home/pairs": """
      SELECT f.consumer, f.producer, d.consumer IS NOT NULL FROM follows f
      LEFT JOIN decisions d ON f.consumer = d.consumer AND f.producer = d.producer
    """,
    "home/stored": f"""
      SELECT f.consumer, f.producer, n.time, n.id FROM follows f
      JOIN decisions d ON f.consumer = d.consumer AND f.producer = d.producer
      JOIN ({NEWEST.format(limit=2)}) n ON n.producer = f.producer
    """,
}
PEOPLE = ("anna", "bob", "carl", "dora")
NOON = dt.datetime(2026, 3, 1, 12)


class World:
    """What was written, by source, and the service that maintains the views."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.folder, self.environment = Folder(folder), environment or {}
        self.rows: dict[str, dict[tuple[Any, ...], tuple[Any, ...]]] = {"events": {}, "follows": {}, "decisions": {}}
        self.keys = {"events": (0, 2), "follows": (0, 1), "decisions": (0, 1)}

    @contextmanager
    def running(self) -> Iterator[Service]:
        service = Service(self.folder, self.environment, HereRunner(perform), in_processes=False)
        service.open()
        try:
            loading = apply_plan(service, prepare(self.folder.project, self.environment, ApplyWishes()).plan)
            assert loading.done.wait(60)
            assert loading.error is None
            self.sources = service.running.plan.catalogue.sources if service.running else {}
            yield service
        finally:
            service.close()

    def write(self, name: str, upserts: list[tuple[Any, ...]], deletes: list[tuple[Any, ...]] | None = None) -> None:
        known, keys = self.rows[name], self.keys[name]
        for row in deletes or ():
            known.pop(tuple(row[key] for key in keys), None)
        known |= {tuple(row[key] for key in keys): row for row in upserts}
        write_rows(self.folder, self.sources[f"home/{name}"], upserts, deletes or [])

    def ask_sql(self, view: str) -> list[tuple[Any, ...]]:
        with duckdb.connect() as database:
            database.execute("CREATE TABLE events (producer TEXT, time TIMESTAMP, id TEXT, body TEXT)")
            database.execute("CREATE TABLE follows (consumer TEXT, producer TEXT)")
            database.execute("CREATE TABLE decisions (consumer TEXT, producer TEXT)")
            for name, known in self.rows.items():
                for row in known.values():
                    database.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
            return sorted(database.execute(EXPECTED[view]).fetchall())

    def until_equal(self, service: Service, what: str) -> None:
        for view in EXPECTED:
            wanted = self.ask_sql(view)
            until(lambda view=view, wanted=wanted: read_view(service, view) == wanted, f"{view} {what}")  # type: ignore[misc]


def read_view(service: Service, view: str) -> list[tuple[Any, ...]]:
    running = service.running
    assert running is not None
    found = ViewReader(running.plan, running.program, service.ledger, service.store).rows(view).rows.to_pylist()
    rows = (tuple(row.values()) for row in found)
    return sorted(
        tuple(one.replace(tzinfo=None) if isinstance(one, dt.datetime) else one for one in row) for row in rows
    )


def post(producer: str, minute: int) -> tuple[Any, ...]:
    return (producer, NOON + dt.timedelta(minutes=minute), f"{producer}{minute}", f'{{"text": "{minute}"}}')


def test_the_views_of_a_feed_follow_posts_flips_unfollowing_and_deletions(tmp_path: Path) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT)
    world = World(tmp_path)
    with world.running() as service:
        world.write("follows", [("anna", "bob"), ("anna", "carl"), ("dora", "bob")])
        world.write("events", [post("bob", minute) for minute in range(6)] + [post("carl", 1)])
        world.until_equal(service, "has new posts, all on read")
        assert read_view(service, "home/stored") == []
        world.write("decisions", [("anna", "bob"), ("dora", "bob"), ("nobody", "bob")])
        world.until_equal(service, "is back-filled where pairs are stored ahead")
        assert len(read_view(service, "home/stored")) == 4
        world.write("events", [post("bob", 7)], [post("bob", 5)])
        world.until_equal(service, "has a new post, and an older one in place of one that was deleted")
        world.write("events", [(*post("bob", 7)[:3], "edited")])
        world.write("decisions", [("anna", "carl")], [("dora", "bob")])
        world.until_equal(service, "has flips in both directions")
        world.write("follows", [], [("anna", "bob")])
        world.until_equal(service, "is without a pair that is no longer followed")
        world.write("events", [post("carl", 9)])
    with world.running() as service:  # what was written while nobody ran is there
        world.until_equal(service, "goes on after a restart")


def test_an_audit_compares_the_views_of_a_feed_with_what_was_captured_of_its_own_sources(tmp_path: Path) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT)
    world = World(tmp_path)
    with world.running() as service:
        world.write("follows", [("anna", "bob"), ("dora", "bob"), ("dora", "carl")])
        world.write("events", [post("bob", minute) for minute in range(6)] + [post("carl", 1)])
        world.write("decisions", [("anna", "bob"), ("dora", "carl")])
        world.until_equal(service, "is there")
        running = service.running
        assert running is not None
        reader = ViewReader(running.plan, running.program, service.ledger, service.store)
        found = compare_views(reader, world.folder, {}, service.rounds.push_to)
        assert found.not_compared == ()
        assert {one.view: (one.equal, one.rows) for one in found.views} == {
            view: (True, len(world.ask_sql(view))) for view in EXPECTED
        }


def test_questions_about_a_feed_that_runs_are_answered_from_what_runs(tmp_path: Path) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT)
    with World(tmp_path).running() as service:
        assert service.running is not None
        plan = service.running.plan
        assert [(feed.feed, feed.reason) for feed in plan.feeds] == [("home", None)]
        again = plan_on_running(plan, plan.catalogue)
        (answer,) = why(again, "home")
        assert isinstance(answer, WhyFeed)
        assert answer.path_s is not None
        (pair,) = why(again, "home:anna<-bob")
        assert isinstance(pair, WhyPair)
        found = what_if_running(again, "home", ImaginedChange(freshness_s=0.1))
        assert (found.before.kept, found.after.kept, found.after.reason) == (True, False, "freshness")
        assert found.others == {}


def test_a_feed_that_is_refused_is_left_out_of_what_runs(tmp_path: Path) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT.replace("keep: 4", "latency: {p95: 1 ms}"))
    plan = prepare(tmp_path, {}, ApplyWishes()).plan
    assert [feed.reason for feed in plan.feeds] == ["latency"]
    assert (plan.contracts, plan.graph.vertices) == ((), {})


@pytest.mark.live
def test_a_feed_over_tables_equals_sql_in_their_database(tmp_path: Path, postgres_dsn: str) -> None:
    table = 'kind: table, at: us, postgres: {dsn: "${DSN}", table: public'
    (tmp_path / "headrace.yml").write_text(f"""
project: social
sites: {{us: {{}}}}
sources:
  posts: {{{table}.posts}}, key: pid}}
  follows: {{{table}.follows}}, key: [who, whom]}}
feeds:
  home: {{events: {{source: posts, producer: author, time: ts}}, per_producer: 2, freshness: 2 s,
         follows: {{source: follows, consumer: who, producer: whom}}}}
""")
    wanted = """
      SELECT f.who, f.whom, n.ts, n.pid FROM follows f JOIN decisions d ON f.who = d.who AND f.whom = d.whom
      JOIN (SELECT *, ROW_NUMBER() OVER (PARTITION BY author ORDER BY ts DESC, pid DESC) AS n FROM posts) n
      ON n.author = f.whom AND n.n <= 2
    """
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute("CREATE TABLE posts (pid bigint PRIMARY KEY, author bigint, ts timestamp, body text)")
        session.execute("CREATE TABLE follows (who bigint, whom bigint, PRIMARY KEY (who, whom))")
        session.execute("CREATE TABLE decisions (who bigint, whom bigint)")
        session.execute(
            "INSERT INTO posts SELECT n, n % 3, '2026-01-01'::timestamp + n * '1 min'::interval, ''"
            " FROM generate_series(1, 60) n"
        )
        session.execute("INSERT INTO follows SELECT n, n % 3 FROM generate_series(10, 20) n")
        world = World(tmp_path, {"DSN": postgres_dsn})
        with world.running() as service:
            for change in (
                "INSERT INTO decisions SELECT * FROM follows",
                "INSERT INTO posts VALUES (100, 1, '2026-02-01', 'new')",
                "DELETE FROM posts WHERE pid IN (59, 60)",
                "DELETE FROM follows WHERE who = 11",
                "DELETE FROM decisions WHERE whom = 2",
                "UPDATE posts SET ts = '2026-03-01' WHERE pid = 7",
            ):
                before = set(session.execute("SELECT * FROM decisions").fetchall())
                session.execute(change)
                after = set(session.execute("SELECT * FROM decisions").fetchall())
                write_rows(
                    world.folder, world.sources["home/decisions"], sorted(after - before), sorted(before - after)
                )
                rows = sorted(session.execute(wanted).fetchall())
                until(lambda rows=rows: read_view(service, "home/stored") == rows, change)  # type: ignore[misc]


def test_any_history_ends_as_sql_says(tmp_path: Path) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT)
    world, chance = World(tmp_path), random.Random(3)
    with world.running() as service:
        for step in range(5):
            for _ in range(30):
                who, whom = chance.sample(PEOPLE, 2)
                name = chance.choice(["follows", "decisions"])
                world.write(name, *chance.choice([([(who, whom)], []), ([], [(who, whom)])]))
                known = list(world.rows["events"].values())
                gone = [chance.choice(known)] if known and chance.random() < 0.3 else []
                world.write("events", [post(whom, chance.randint(0, 40))], gone)
            world.until_equal(service, f"equals SQL after {30 * (step + 1)} changes")
