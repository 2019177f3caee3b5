"""Feeds of sites that run apart: each is kept at its own site, whatever site its events and follows come from."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.doors.cli import main
from tests.running.joined_sites import joined_sites
from tests.running.running_project import RunningProject, until
from tests.running.test_site_processes import pid_of, sites

PROJECT = """
project: shop
sites: {us: {}, eu: {}}
links: [{between: [us, eu], bandwidth: 100 Mbps, latency: 10 ms}]
sources:
  notes: {kind: table, at: eu, postgres: {dsn: "${EU_DSN}", table: public.notes}, key: nid}
  friends: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: public.friends}, key: [who, whom]}
feeds:
  home: {at: us, events: {source: notes, producer: author, time: at, id: nid},
    follows: {source: friends, consumer: who, producer: whom}, keep: 5, limit: 5, per_producer: 3, freshness: 2 s,
    store: {postgres: {dsn: "${EU_DSN}"}}}
  wall: {at: eu, events: api, follows: api, freshness: 2 s}
"""
AT = {"home": "us", "wall": "eu"}
UP = ("--detach", "--engine=local", "--sites=processes")
NEWEST = """
    SELECT nid::text FROM (SELECT *, row_number() OVER (PARTITION BY author ORDER BY at DESC, nid DESC) AS n FROM notes
        WHERE author = ANY (%s)) AS ranked WHERE n <= 3 ORDER BY at DESC, nid DESC LIMIT 5
"""


@pytest.fixture
def social(project: RunningProject) -> RunningProject:
    for view in (project.folder / "views").iterdir():
        view.unlink()
    (project.folder / "headrace.yml").write_text(PROJECT)
    project.eu.execute("CREATE TABLE notes (nid bigint PRIMARY KEY, author text, at timestamptz, said text)")
    project.us.execute("CREATE TABLE friends (who text, whom text, PRIMARY KEY (who, whom))")
    project.eu.execute(
        "INSERT INTO notes SELECT n, 'p' || n % 4, '2026-01-01Z'::timestamptz + n * '1 min'::interval, 'hello'"
        " FROM generate_series(1, 40) n"
    )
    project.us.execute("INSERT INTO friends VALUES ('anna', 'p1'), ('anna', 'p2'), ('ben', 'p3')")
    return project


def feeds(folder: Path, project: RunningProject, *words: str, status: int = 0) -> Any:
    """What `headrace feeds` says, of the project or a site in a folder."""
    project.out.readouterr()
    ended = main.run(["feeds", *words, str(folder), "--json"])
    said, complaints = project.out.readouterr()
    assert ended == status, f"{words}: {said}{complaints}"
    return said or complaints


def page(folder: Path, project: RunningProject, feed: str, consumer: str) -> list[str] | None:
    """Ids of the entries on a page; None while the feed is not there."""
    project.out.readouterr()
    if main.run(["feeds", "show", feed, consumer, str(folder), "--json"]) != 0:
        return None
    return [one["id"] for one in json_of(project)["entries"]]


def json_of(project: RunningProject) -> Any:
    return json.loads(project.out.readouterr().out)


def until_equal(folder: Path, project: RunningProject) -> None:
    """Pages of `home` are as its tables say, which are in two databases."""
    follows: dict[str, list[str]] = {"anna": [], "ben": []}
    for who, whom in project.us.execute("SELECT who, whom FROM friends"):
        follows[who].append(whom)
    for consumer, producers in follows.items():
        wanted = [nid for (nid,) in project.eu.execute(NEWEST, [producers])]
        until(lambda who=consumer, ids=wanted: page(folder, project, "home", who) == ids, f"{consumer} sees {wanted}")  # type: ignore[misc]


def change(project: RunningProject, number: int) -> None:
    """Something new, something else, and something less."""
    project.eu.execute("INSERT INTO notes VALUES (%s, %s, '2026-01-02Z', 'more')", (number, f"p{number % 4}"))
    project.eu.execute("DELETE FROM notes WHERE nid = %s", (number - 960,))
    project.us.execute("DELETE FROM friends WHERE whom = 'p2'")
    project.us.execute("INSERT INTO friends VALUES ('ben', %s) ON CONFLICT DO NOTHING", (f"p{number % 3}",))


def test_feeds_are_kept_at_their_sites_through_kills(social: RunningProject) -> None:
    folder = social.folder
    social.document("up", *UP)
    try:
        until_equal(folder, social)
        feeds(folder, social, "follow", "wall", "zoe", "yan")
        feeds(folder, social, "post", "wall", "yan", "--id=7")
        until(lambda: page(folder, social, "wall", "zoe") == ["7"], "zoe sees what yan said")
        killed = pid_of(social, "us")
        os.kill(killed, signal.SIGKILL)
        change(social, 1001)
        until(lambda: sites(social)["us"]["pid"] not in (None, killed), "it was started again")
        until_equal(folder, social)
        os.kill(social.process()["pid"], signal.SIGKILL)
        change(social, 1002)
        until_equal(folder, social)
        social.document("up", *UP)
        until(lambda: page(folder, social, "wall", "zoe") == ["7"], "nothing of it is lost")
        until(lambda: {one["id"]: one["at"] for one in social.document("status")["feeds"]} == AT, "both are told")
        (why,) = social.document("why", "home:ben<-p3")["answers"]
        assert (why["consumer"], why["producer"]) == ("ben", "p3")
        compared = {one["contract"]: one["equal"] for one in social.document("audit", "--recompute")["recompute"]}
        assert set(compared.values()) == {True} and len(compared) == 6, compared
    finally:
        social.headrace("down")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_agents_serve_the_feeds_of_their_sites(social: RunningProject, tmp_path: Path) -> None:
    project = social.folder
    with joined_sites(social, tmp_path) as joined:
        joined.start("us", "--feed-servers=1")
        joined.start("eu", host="127.0.0.2")
        joined.until_running("us", "eu")
        us, eu = joined.folder("us"), joined.folder("eu")
        until_equal(us, social)
        feeds(eu, social, "follow", "wall", "zoe", "yan")
        feeds(eu, social, "post", "wall", "yan", "--id=7")
        until(lambda: page(eu, social, "wall", "zoe") == ["7"], "zoe sees what yan said")
        told = feeds(project, social, "show", "home", "anna", status=2)
        assert "run the command in the folder of the site's agent" in told
        assert "can be read" in feeds(eu, social, "show", "home", "anna", status=2)
        until(lambda: {one["id"]: one["at"] for one in social.document("status")["feeds"]} == AT, "both are told")
        check_feed_servers(us, social)
        joined.stop("us", signal.SIGKILL)
        change(social, 1001)
        joined.start("us")
        until_equal(us, social)
        compared = joined.recomputed(project, status=0)
        assert {one["equal"] for one in compared.values()} == {True} and len(compared) == 6


@pytest.mark.long
@pytest.mark.timeout(600)
def test_commands_in_the_folder_of_the_project_find_the_site_of_a_feed(social: RunningProject, tmp_path: Path) -> None:
    folder = social.folder
    social.document("up", *UP, "--feed-servers=1")
    try:
        token = json.loads(feeds(folder, social, "tokens", "add", "phone"))["token"]
        (tmp_path / "follows.csv").write_text("consumer,producer\nzoe,yan\n")
        (tmp_path / "events.csv").write_text("producer,time,id,body\nyan,2026-01-01T00:00:00Z,7,hi\n")
        files = (f"--follows={tmp_path / 'follows.csv'}", f"--events={tmp_path / 'events.csv'}")
        assert json.loads(feeds(folder, social, "import", "wall", *files))["follows"] == 1
        until_equal(folder, social)
        until(lambda: page(folder, social, "wall", "zoe") == ["7"], "zoe sees what was imported")
        assert json.loads(feeds(folder, social, "unread", "wall", "zoe"))["unread"] == 1
        assert json.loads(feeds(folder, social, "calibrate", "home"))["prices"]["measured"] is True
        until(lambda: len(find_servers(social)) == 2, "there is one for each site that keeps a feed")
        for feed, consumer in (("home", "anna"), ("wall", "zoe")):
            minted = json.loads(feeds(folder, social, "tokens", "mint", feed, consumer, "--app=phone"))["token"]
            shown = page(folder, social, feed, consumer)
            for given in (token, minted):
                answers = [read_page(port, given, feed, consumer) for port in find_servers(social)]
                assert shown in answers and None in answers, "the site that keeps it, and the other one"
    finally:
        social.headrace("down")


def find_servers(project: RunningProject) -> list[int]:
    servers = project.document("status")["service"]["feed_servers"]
    return [one["port"] for one in servers if one["state"] == "running"]


def read_page(port: int, token: str, feed: str, consumer: str) -> list[str] | None:
    """Ids of entries; None from a server that does not have the feed, or does not know the token."""
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.get(f"http://127.0.0.1:{port}/feeds/{feed}/{consumer}", headers=headers, timeout=30)
    return [one["id"] for one in answer.json()["entries"]] if answer.status_code == 200 else None


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_feed_that_moves_is_filled_anew_and_leaves_nothing_behind(social: RunningProject) -> None:
    file, slow = social.folder / "headrace.yml", PROJECT.replace("freshness: 2 s", "freshness: 20 s")
    file.write_text(slow)  # whatever pushes take on a busy machine, the feed is not refused
    social.document("up", *UP)
    try:
        until_equal(social.folder, social)
        for number, site in ((1001, "eu"), (1002, "us")):
            file.write_text(slow.replace("home: {at: us", f"home: {{at: {site}"))
            assert social.document("apply")["applied"]
            change(social, number)
            until(lambda at=site: find_owner(social) == [(f"shop at {at}",)], "it is filled anew")  # type: ignore[misc]
            until_equal(social.folder, social)
            assert {one["id"]: one["at"] for one in social.document("status")["feeds"]} == {"home": site, "wall": "eu"}
        until(lambda: social.document("status")["troubles"] == [], "nothing is wrong")
        file.write_text(slow.replace("wall: {at: eu", "wall: {at: us"))
        assert 'its events are at site "eu" alone' in social.headrace("apply", status=2)
    finally:
        social.headrace("down")


def find_owner(project: RunningProject) -> list[Any]:
    """Whose the store is in the database that the project names; nobody's before the first is filled."""
    (there,) = project.eu.execute("SELECT to_regclass('headrace_feeds.feeds') IS NOT NULL").fetchone() or (False,)
    return project.eu.execute("SELECT project FROM headrace_feeds.feeds").fetchall() if there else []


def check_feed_servers(folder: Path, project: RunningProject) -> None:
    """With the token of an app that was added in the folder of the site."""
    token = json.loads(feeds(folder, project, "tokens", "add", "phone"))["token"]
    service = project.document("status")["service"]
    until(lambda: [one["state"] for one in project.document("status")["service"]["feed_servers"]] == ["running"], "up")
    address = f"http://127.0.0.1:{service['feed_servers'][0]['port']}"
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        shown = [one["id"] for one in client.get("/feeds/home/anna").json()["entries"]]
        assert shown == page(folder, project, "home", "anna")
