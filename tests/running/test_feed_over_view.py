"""A view can be followed: an aggregate that changes replaces its entry, and one that is gone takes it along."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.model.errors import ConnectError
from headrace.site.feeds.pages import FeedPages
from tests.running.running_project import until
from tests.running.test_feed_older import open_pages
from tests.running.test_feed_views import World

PROJECT = """
project: league
sites: {us: {}}
sources:
  goals: {kind: table, at: us, postgres: {dsn: "${DSN}", table: public.goals}, key: gid}
feeds:
  home: {events: {view: hourly, producer: team, time: hour}, follows: api, keep: 2, limit: 3, freshness: 2 s}
"""
VIEW = "SELECT team, date_trunc('HOUR', at) AS hour, COUNT(*) AS goals FROM goals GROUP BY team, date_trunc('HOUR', at)"
HOURLY = """
    SELECT team, to_char(date_trunc('hour', at), 'YYYY-MM-DD"T"HH24:MI:SS') AS hour, count(*) FROM goals
    WHERE team = ANY (%s) GROUP BY team, date_trunc('hour', at) ORDER BY hour DESC, team DESC
"""


def read_all(pages: FeedPages, consumer: str) -> list[tuple[str, str, Any]] | None:
    """All entries; None while the store is filled."""
    try:
        page = pages.read("home", consumer)
        entries = list(page["entries"])
        while page["next"] is not None:
            page = pages.read("home", consumer, before=page["next"])
            entries += page["entries"]
    except ConnectError:
        return None
    return [(one["producer"], one["time"][:19], one["body"]["goals"]) for one in entries]


@pytest.mark.live
def test_an_aggregate_that_changes_replaces_its_entry(tmp_path: Path, postgres_dsn: str) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT)
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "hourly.sql").write_text(VIEW)
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute("CREATE TABLE goals (gid bigint PRIMARY KEY, team text, at timestamp)")
        session.execute(
            "INSERT INTO goals SELECT n, (ARRAY['red', 'blue', 'grey'])[1 + n % 3],"
            " '2026-01-01'::timestamp + n * '13 min'::interval FROM generate_series(1, 60) n"
        )
        world = World(tmp_path, {"DSN": postgres_dsn})
        with world.running() as service, closing(open_pages(service, world)) as pages:
            world.write("follows", [("anna", "red"), ("anna", "blue")])
            decided = False
            for change in (
                "SELECT",
                "INSERT INTO goals VALUES (100, 'red', '2026-01-01T13:05:00'), (101, 'red', '2026-01-01T13:06:00')",
                "DELETE FROM goals WHERE at >= '2026-01-01T12:00:00' AND team = 'blue'",
                "UPDATE goals SET team = 'red' WHERE gid = 2",
                "INSERT INTO goals VALUES (102, 'blue', '2026-01-02')",
                "DELETE FROM goals WHERE team = 'red'",
            ):
                session.execute(change)
                wanted = session.execute(HOURLY, [["red", "blue"]]).fetchall()
                until(lambda wanted=wanted: read_all(pages, "anna") == wanted, change)  # type: ignore[misc]
                if not decided:  # the rest happens to what is stored ahead
                    world.write("decisions", [("anna", "red"), ("anna", "blue")])
                    until(lambda: pages.read("home", "anna")["stored"] == 3, "the first page is stored ahead")
                    decided = True


@pytest.mark.live
def test_without_ids_a_feed_goes_on_through_rows_of_one_time(tmp_path: Path, postgres_dsn: str) -> None:
    """All that a producer says at one time is one entry, for as long as any of it is there."""
    (tmp_path / "headrace.yml").write_text(
        PROJECT.replace("view: hourly, producer: team, time: hour", "view: each, producer: team, time: at")
    )
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "each.sql").write_text("SELECT team, at, gid AS goals FROM goals")
    wanted = "SELECT DISTINCT to_char(at, 'HH24:MI') AS minute FROM goals ORDER BY minute DESC"
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute("CREATE TABLE goals (gid bigint PRIMARY KEY, team text, at timestamp)")
        session.execute(
            "INSERT INTO goals SELECT n, 'red', '2026-01-01'::timestamp + n / 2 * '1 min'::interval"
            " FROM generate_series(1, 16) n"
        )
        world = World(tmp_path, {"DSN": postgres_dsn})
        with world.running() as service, closing(open_pages(service, world)) as pages:
            world.write("follows", [("anna", "red"), ("ben", "red")])
            world.write("decisions", [("anna", "red")])
            for change in (
                "SELECT",
                "INSERT INTO goals VALUES (100, 'red', '2026-01-01T00:30:00'), (101, 'red', '2026-01-01T00:30:00')",
                "INSERT INTO goals VALUES (102, 'red', '2026-01-01T00:30:00')",
                "DELETE FROM goals WHERE gid IN (100, 102)",
                "DELETE FROM goals WHERE gid = 101",
            ):
                session.execute(change)
                minutes = [minute for (minute,) in session.execute(wanted)]
                for who in ("anna", "ben"):
                    until(lambda who=who, minutes=minutes: read_minutes(pages, who) == minutes, change)  # type: ignore[misc]
            assert pages.read("home", "anna")["stored"] and not service.troubles.all()


def read_minutes(pages: FeedPages, consumer: str) -> list[str] | None:
    found = read_all(pages, consumer)
    return None if found is None else [time[11:16] for _, time, _ in found]
