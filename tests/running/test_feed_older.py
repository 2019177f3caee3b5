"""Pages go on beyond what the store keeps: all pages together are all raw events, as of each page's time."""

from __future__ import annotations

import json
import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from headrace.connect.postgres.feed_reader import PostgresFeedReader
from headrace.model.errors import ConnectError
from headrace.run.feeds.page import FeedRead
from headrace.site.feeds.pages import FeedPages
from headrace.site.service import Service, clock_now
from tests.running.running_project import until
from tests.running.test_feed_views import World, post

PROJECT = """
project: social
sites: {us: {}}
feeds:
  home: {events: api, follows: api, keep: 3, limit: 4, freshness: 2 s}
"""
Shown = list[tuple[str, str, Any]]


def open_pages(service: Service, world: World) -> FeedPages:
    return FeedPages(service.feeds, world.folder.root, clock_now)


def show(page: dict[str, Any]) -> Shown:
    return [(entry["producer"], entry["id"], entry["body"]) for entry in page["entries"]]


def turn_pages(pages: FeedPages, consumer: str, page: dict[str, Any] | None = None, feed: str = "home") -> Shown:
    """Everything from a page on, or from the first."""
    page = pages.read(feed, consumer) if page is None else page
    shown = show(page)
    for _ in range(100):
        assert "cut_short" not in page
        if page["next"] is None:
            return shown
        page = pages.read(feed, consumer, before=page["next"])
        shown += show(page)
    raise AssertionError("pages never end")


def expect(world: World, consumer: str) -> Shown:
    followed = {producer for who, producer in world.rows["follows"] if who == consumer}
    rows = [row for row in world.rows["events"].values() if row[0] in followed]
    newest = sorted(rows, key=lambda row: (row[1], row[2], row[0]), reverse=True)
    return [(row[0], row[2], json.loads(row[3])) for row in newest]


def shows_first(pages: FeedPages, consumer: str, wanted: Shown) -> bool:
    """False while the store is filled."""
    try:
        return show(pages.read("home", consumer)) == wanted[:4]
    except ConnectError:
        return False


def test_all_pages_together_are_all_events_although_the_store_keeps_three_of_each(tmp_path: Path) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT)
    world, chance = World(tmp_path), random.Random(8)
    with world.running() as service, closing(open_pages(service, world)) as pages:
        world.write("follows", [("anna", who) for who in ("bob", "carl", "dora")] + [("ben", "bob")])
        world.write("events", [post("bob", minute) for minute in range(25)])
        world.write("events", [post("carl", 3 * minute) for minute in range(9)] + [post("dora", 2)])
        world.write("decisions", [("anna", "bob")])
        until(lambda: shows_first(pages, "anna", expect(world, "anna")), "posts are on pages")
        assert turn_pages(pages, "anna") == expect(world, "anna")
        assert turn_pages(pages, "ben") == expect(world, "ben")
        for _ in range(4):  # old events go and come, and pages that were begun before go on
            begun, before = pages.read("home", "anna"), expect(world, "anna")
            old = [post(*chance.choice([("bob", chance.randint(0, 20)), ("carl", 3)])) for _ in range(3)]
            world.write("events", [post("bob", 30 + chance.randint(0, 30))], old)
            until(lambda: turn_pages(pages, "anna") == expect(world, "anna"), "pages show what is there")
            gone = {(row[0], row[2]) for row in old}
            later = [entry for entry in before if entry[:2] not in gone or entry in show(begun)]
            assert turn_pages(pages, "anna", begun) == later, "a page that was begun goes on with what is still there"


def test_pages_end_early_and_say_so_while_old_events_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT)
    world = World(tmp_path)
    with world.running() as service, closing(open_pages(service, world)) as pages:
        world.write("follows", [("anna", "bob"), ("anna", "carl")])
        world.write("events", [post("bob", minute) for minute in range(10)] + [post("carl", 1)])
        wanted = expect(world, "anna")
        until(lambda: shows_first(pages, "anna", wanted), "posts are on pages")
        begun = pages.read("home", "anna", limit=1)
        older = service.feeds.find("home")[0].older  # type: ignore[index]
        assert older is not None
        files = [file for file in (tmp_path / ".headrace").rglob("*") if file.is_file() and "index" in file.name]
        hidden = [(file, file.with_name(file.name + ".away")) for file in files]
        for file, away in hidden:
            file.rename(away)
        try:
            page = pages.read("home", "anna", before=begun["next"])
            assert "older events cannot be read now" in page["cut_short"]
            assert show(page) == wanted[1 : 1 + len(page["entries"])] and len(page["entries"]) < 4
            again = pages.read("home", "anna", before=page["next"])
            assert (again["entries"], "cut_short" in again) == ([], True)
        finally:
            for file, away in hidden:
                away.rename(file)
        rest = turn_pages(pages, "anna", pages.read("home", "anna", before=again["next"]))
        assert show(begun) + show(page) + rest == wanted, "the cursor is still good"


@pytest.mark.live
def test_pages_go_on_although_the_feed_moves_on_faster_than_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT)
    world = World(tmp_path)
    with world.running() as service, closing(open_pages(service, world)) as pages:
        world.write("follows", [("anna", "bob"), ("anna", "carl")])
        world.write("events", [post("bob", minute) for minute in range(10)] + [post("carl", 1)])
        wanted = expect(world, "anna")
        until(lambda: shows_first(pages, "anna", wanted), "posts are on pages")
        read_page = PostgresFeedReader.read_page

        def read_earlier(*asked: Any) -> FeedRead | None:
            """What is read next is told that this was as of a time that the part has left."""
            read = read_page(*asked)
            is_alone = asked[0]._connect().info.transaction_status == TransactionStatus.IDLE
            return replace(read, as_of=read.as_of - 1) if read is not None and is_alone else read

        monkeypatch.setattr(PostgresFeedReader, "read_page", read_earlier)
        assert turn_pages(pages, "anna", pages.read("home", "anna")) == wanted


def test_old_rows_of_a_table_are_on_pages_as_of_their_time(tmp_path: Path, postgres_dsn: str) -> None:
    table = 'kind: table, at: us, postgres: {dsn: "${DSN}", table: public'
    (tmp_path / "headrace.yml").write_text(f"""
project: social
sites: {{us: {{}}}}
sources:
  notes: {{{table}.notes}}, key: pid}}
feeds:
  home: {{events: {{source: notes, producer: author, time: ts}}, keep: 5, limit: 7, per_producer: 3, freshness: 2 s,
         follows: api}}
""")
    wanted = "SELECT author, pid, body FROM notes WHERE author = ANY (%s) ORDER BY ts DESC, pid DESC, author DESC"
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute("CREATE TABLE notes (pid bigint PRIMARY KEY, author text, ts timestamptz, body text)")
        session.execute(
            "INSERT INTO notes SELECT n - 50, 'p' || n % 3, '2026-01-01Z'::timestamptz + (n / 4) * '1 min'::interval,"
            " '' FROM generate_series(1, 100) n"
        )
        world = World(tmp_path, {"DSN": postgres_dsn})
        with world.running() as service, closing(open_pages(service, world)) as pages:
            world.write("follows", [("7", "p1"), ("7", "p2")])
            until(lambda: pages.keepers.progress()["home"][0] is not None, "the store is filled")
            for change in (
                "SELECT",
                "DELETE FROM notes WHERE pid % 5 = 0",
                "UPDATE notes SET body = 'x' WHERE pid < 0",
            ):
                session.execute(change)
                found = session.execute(wanted, [["p1", "p2"]]).fetchall()
                rows = sorted((author, str(pid), {"body": body}) for author, pid, body in found)
                until(lambda rows=rows: sorted(turn_pages(pages, "7")) == rows, change)  # type: ignore[misc]
                own = [entry[1] for entry in turn_pages(pages, "7") if entry[0] == "p1"]
                assert own == [str(pid) for author, pid, _ in found if author == "p1"], "newest first, without a gap"


@pytest.mark.live
def test_events_without_ids_take_no_places_of_those_that_pages_show(tmp_path: Path, postgres_dsn: str) -> None:
    (tmp_path / "headrace.yml").write_text("""
project: social
sites: {us: {}}
sources:
  memos: {kind: table, at: us, postgres: {dsn: "${DSN}", table: public.memos}, key: pid}
feeds:
  home: {events: {source: memos, producer: author, time: ts, id: slug}, keep: 3, limit: 4, freshness: 2 s, follows: api}
""")
    wanted = "SELECT slug FROM memos WHERE slug IS NOT NULL ORDER BY ts DESC, slug DESC"
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute("CREATE TABLE memos (pid bigint PRIMARY KEY, author text, ts timestamptz, slug text)")
        session.execute(
            "INSERT INTO memos SELECT n, 'bob', '2026-01-01Z'::timestamptz + n * '1 min'::interval,"
            " CASE WHEN n % 3 = 0 THEN 's' || n END FROM generate_series(1, 30) n"
        )
        world = World(tmp_path, {"DSN": postgres_dsn})
        with world.running() as service, closing(open_pages(service, world)) as pages:
            world.write("follows", [("anna", "bob"), ("ben", "bob")])
            world.write("decisions", [("anna", "bob")])
            until(lambda: pages.keepers.progress()["home"][0] is not None, "the store is filled")
            until(lambda: pages.read("home", "anna")["stored"] == 3, "what the store keeps is stored ahead")
            for change in (
                "SELECT",
                "INSERT INTO memos SELECT 100 + n, 'bob', '2026-01-02Z', NULL FROM generate_series(1, 10) n",
                "UPDATE memos SET slug = 'now' WHERE pid = 105",
                "UPDATE memos SET slug = NULL WHERE pid = 27",
            ):
                session.execute(change)
                slugs = [slug for (slug,) in session.execute(wanted)]
                for who in ("anna", "ben"):
                    until(lambda who=who, slugs=slugs: [one[1] for one in turn_pages(pages, who)] == slugs, change)  # type: ignore[misc]
