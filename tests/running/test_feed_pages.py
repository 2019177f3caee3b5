"""A declared feed is read: pages equal the raw events after posts, edits, deletions, follows and flips, also after the
store was killed and after a restart.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.app.preparing import prepare
from headrace.coordinate.host import ServiceHost
from headrace.coordinate.perform import apply_plan
from headrace.doors.api.server import serve
from headrace.model.errors import ConnectError, UnknownName, UsageError
from headrace.model.options import ApplyWishes
from headrace.run.feeds.cursor import WrongCursor
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.feeds.pages import FeedPages
from headrace.site.folder import Folder
from headrace.site.service import Service, clock_now
from headrace.site.sources.written import write_rows
from tests.running.running_project import until

PROJECT = """
project: social
sites: {us: {}}
feeds:
  home: {events: api, follows: api, limit: 4, per_producer: 2, freshness: 2 s}
"""
PEOPLE = ("anna", "bob", "carl", "dora")
NOON = dt.datetime(2026, 3, 1, 12)


class Social:
    """What was written, and the service that keeps the feed."""

    def __init__(self, folder: Path) -> None:
        (folder / "headrace.yml").write_text(PROJECT)
        self.folder = Folder(folder)
        self.events: dict[tuple[str, str], tuple[Any, ...]] = {}
        self.follows: set[tuple[str, str]] = set()

    @contextmanager
    def running(self) -> Iterator[Service]:
        service = Service(self.folder, {}, HereRunner(perform), in_processes=False)
        service.open()
        try:
            loading = apply_plan(service, prepare(self.folder.project, {}, ApplyWishes()).plan)
            assert loading.done.wait(60)
            assert loading.error is None and service.running is not None
            self.sources = service.running.plan.catalogue.sources
            yield service
        finally:
            service.close()

    def pages(self, service: Service) -> FeedPages:
        return FeedPages(service.feeds, self.folder.root, clock_now)

    def post(self, producer: str, minute: int, text: str = "hello") -> None:
        row = (producer, NOON + dt.timedelta(minutes=minute), f"{producer}{minute}", json.dumps({"text": text}))
        self.events[producer, row[2]] = row
        write_rows(self.folder, self.sources["home/events"], [row])

    def delete(self, producer: str, minute: int) -> None:
        row = self.events.pop((producer, f"{producer}{minute}"), None)
        if row is not None:
            write_rows(self.folder, self.sources["home/events"], [], [row])

    def follow(self, *pair: str) -> None:
        self.follows.add((pair[0], pair[1]))
        write_rows(self.folder, self.sources["home/follows"], [pair])

    def unfollow(self, *pair: str) -> None:
        self.follows.discard((pair[0], pair[1]))
        write_rows(self.folder, self.sources["home/follows"], [], [pair])

    def flip(self, *pair: str, ahead: bool) -> None:
        decisions = self.sources["home/decisions"]
        write_rows(self.folder, decisions, *(([pair], []) if ahead else ([], [pair])))

    def expect(self, consumer: str) -> list[tuple[str, str, Any]]:
        """At most two of each, then the newest four."""
        followed = [row for row in self.events.values() if (consumer, row[0]) in self.follows]
        newest = sorted(followed, key=lambda row: (row[1], row[2], row[0]), reverse=True)
        groups = [[row for row in newest if row[0] == who][:2] for who in PEOPLE]
        few = sorted(itertools.chain(*groups), key=lambda row: (row[1], row[2], row[0]), reverse=True)
        return [(row[0], row[2], json.loads(row[3])) for row in few[:4]]

    def until_equal(self, service: Service, what: str) -> None:
        with closing(self.pages(service)) as pages:
            for consumer in PEOPLE:
                wanted = self.expect(consumer)
                until(partial(shows, pages, consumer, wanted), f"{consumer} {what}")


def shows(pages: FeedPages, consumer: str, wanted: list[tuple[str, str, Any]]) -> bool:
    """False while the store is away."""
    try:
        return shown(pages.read("home", consumer)) == wanted
    except ConnectError:
        return False


def shown(page: dict[str, Any]) -> list[tuple[str, str, Any]]:
    return [(entry["producer"], entry["id"], entry["body"]) for entry in page["entries"]]


def test_nothing_that_somebody_posts_stops_the_feed_of_others(tmp_path: Path) -> None:
    social, long = Social(tmp_path), "x" * 5000
    with social.running() as service:
        for producer in ("bob", "carl", long):
            social.follow("anna", producer)
        social.flip("anna", "bob", ahead=True)
        posts = social.sources["home/events"]
        odd = [("bob", "b1", "no JSON"), ("bob", "b2", None), ("carl", "c1", '{"\\u0000": [NaN, 1e999]}')]
        rows = [(producer, NOON, id_, body) for producer, id_, body in odd]
        write_rows(social.folder, posts, [*rows, (long, NOON, "l1", "{}"), ("bob", NOON, long, "{}")])
        short = f"{long[:400]}~{sha256(long.encode()).hexdigest()}"
        wanted = [
            ("bob", short, {}),
            (short, "l1", {}),
            ("carl", "c1", {"\N{REPLACEMENT CHARACTER}": ["NaN", "Infinity"]}),
        ]
        with closing(social.pages(service)) as pages:
            until(partial(shows, pages, "anna", [*wanted, ("bob", "b2", None)]), "odd posts are shown")


def test_pages_follow_what_people_do_through_a_killed_store_and_a_restart(tmp_path: Path) -> None:
    social, chance = Social(tmp_path), random.Random(5)
    with social.running() as service:
        for who, whom in itertools.permutations(PEOPLE, 2):
            social.follow(who, whom)
        for minute in range(6):
            social.post("bob", minute)
        social.post("carl", 3)
        social.until_equal(service, "sees posts, all on read")
        social.flip("anna", "bob", ahead=True)
        social.flip("dora", "carl", ahead=True)
        with closing(social.pages(service)) as pages:
            until(partial(has_stored, pages), "posts of bob are stored ahead for anna")
        social.post("bob", 7, "new")
        social.delete("bob", 5)
        social.until_equal(service, "sees what is new, and an older post in place of one that is gone")
        social.post("bob", 7, "edited")
        social.unfollow("anna", "carl")
        social.until_equal(service, "sees an edit, and nobody whom she has left")
        assert service.feeds._own is not None
        service.feeds._own.kill()
        social.post("carl", 8)
        social.until_equal(service, "goes on after the store was killed")
    social.post("dora", 9)
    with social.running() as service:
        social.until_equal(service, "goes on after a restart")
        for step in range(3):
            for _ in range(15):
                who, whom = chance.sample(PEOPLE, 2)
                chance.choice([social.follow, social.unfollow])(who, whom)
                social.flip(who, whom, ahead=chance.random() < 0.5)
                social.post(whom, chance.randint(0, 40), str(step))
                social.delete(whom, chance.randint(0, 40))
            social.until_equal(service, f"equals raw events after {step + 1} rounds of changes")
        with closing(social.pages(service)) as pages:
            check_refusals(pages)
        check_http(service, social.folder)


def has_stored(pages: FeedPages) -> bool:
    return bool(pages.read("home", "anna")["stored"] == 2)


def check_http(service: Service, folder: Folder) -> None:
    """The same over HTTP, with the token; a store that is away is told as such."""
    host = ServiceHost(service, folder, lambda _: pytest.fail("nothing is applied"))
    server = serve(host, "secret", 0)
    token = {"Authorization": "Bearer secret"}
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", headers=token, timeout=30) as client:
        try:
            check_answers(client, service)
        finally:
            server.stop()


def check_answers(client: httpx.Client, service: Service) -> None:
    client.get("/feeds/home/anna")
    (told,) = client.get("/status").json()["feeds"]
    assert set(told) >= {"id", "pairs", "stored_ahead", "lag_s", "p50_ms", "p95_ms", "prices"}
    assert told["id"] == "home" and 0 <= told["lag_s"] < 60 and 0 < told["p50_ms"] <= told["p95_ms"]
    assert client.get("/feeds/home/anna", headers={"Authorization": "Bearer x"}).status_code == 401
    page = client.get("/feeds/home/dora", params={"limit": 1}).json()
    assert set(page) == {"as_of", "lag_s", "entries", "next", "stored", "pulled"}
    assert len(page["entries"]) == 1 and set(page["entries"][0]) == {"producer", "time", "id", "body", "origin"}
    assert client.get("/feeds/home/dora", params={"before": page["next"]}).json()["entries"] != page["entries"]
    assert client.get("/feeds/home/dora", params={"before": "x"}).status_code == 422
    assert client.get("/feeds/other/dora").status_code == 404
    check_hiding(client)
    check_posting(client)
    assert service.feeds._own is not None
    service.feeds._own.kill()
    answer = client.get("/feeds/home/dora")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")


def check_posting(client: httpx.Client) -> None:
    """What is posted over HTTP is read, edited and deleted; whom somebody no longer follows is gone."""

    def shows(*wanted: tuple[str, Any]) -> bool:
        entries = client.get("/feeds/home/newcomer").json()["entries"]
        return [(entry["id"], entry["body"]) for entry in entries] == list(wanted)

    assert client.put("/feeds/home/follows/newcomer/erin").json()["follows"] is True
    first = {"producer": "erin", "id": "1", "time": "2026-03-01T13:00:00+01:00", "body": {"text": "one"}}
    assert client.post("/feeds/home/events", json=first).json() == {"feed": "home", "posted": 1}
    client.post("/feeds/home/events", json=[{"producer": "erin", "id": "2", "body": "two"}])
    until(lambda: shows(("2", "two"), ("1", {"text": "one"})), "both posts are there")
    assert client.get("/feeds/home/newcomer").json()["entries"][1]["time"].startswith("2026-03-01T12:00:00")
    client.post("/feeds/home/events", json={**first, "body": "edited"})
    until(lambda: shows(("2", "two"), ("1", "edited")), "an edit is there")
    assert client.delete("/feeds/home/events/erin/2").json()["deleted"] is True
    until(lambda: shows(("1", "edited")), "what was deleted is gone")
    assert client.delete("/feeds/home/follows/newcomer/erin").json()["follows"] is False
    until(shows, "nothing is left of whom nobody follows")
    assert client.post("/feeds/home/events", json={**first, "time": "noon"}).status_code == 422
    assert client.post("/feeds/other/events", json=first).status_code == 404


def check_hiding(client: httpx.Client) -> None:
    """Somebody who is muted is gone, who is blocked is gone both ways, and both can be taken back."""
    producer = client.get("/feeds/home/dora").json()["entries"][0]["producer"]

    def sees(consumer: str, whom: str) -> bool:
        return whom in {entry["producer"] for entry in client.get(f"/feeds/home/{consumer}").json()["entries"]}

    was_seen = sees(producer, "dora")
    for what, hidden_from_the_other in (("mutes", not was_seen), ("blocks", True)):
        path = f"/feeds/home/{what}/dora/{producer}"
        assert client.put(path).json() == {"feed": "home", "consumer": "dora", "producer": producer, what: True}
        assert not sees("dora", producer) and sees(producer, "dora") is not hidden_from_the_other
        assert client.delete(path).status_code == 200 and sees("dora", producer)
    assert sees(producer, "dora") is was_seen
    assert client.put(f"/feeds/home/likes/dora/{producer}").status_code == 404


def check_refusals(pages: FeedPages) -> None:
    first = pages.read("home", "anna", limit=1)
    if first["next"] is not None:
        assert shown(pages.read("home", "anna", 1, first["next"])) != shown(first)
        with pytest.raises(WrongCursor):
            pages.read("home", "bob", 1, first["next"])
    with pytest.raises(UsageError, match="has 1 to 4 entries, not 5"):
        pages.read("home", "anna", limit=5)
    with pytest.raises(UnknownName, match='no feed "other"'):
        pages.read("other", "anna")
