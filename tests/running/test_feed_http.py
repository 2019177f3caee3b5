"""What the HTTP interface of feeds answers when something hangs, breaks, is unknown or is at its limit."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest

from headrace.coordinate.feeds import calibrating
from headrace.coordinate.host import ServiceHost
from headrace.doors.api import feed_streams, feeds
from headrace.doors.api.server import serve
from headrace.model.errors import ConnectError
from headrace.site.feeds.apps import FILE, add_app
from headrace.site.service import Service
from tests.running.running_project import until
from tests.running.test_feed_pages import Social

TOKEN = "secret"
LIMITS = httpx.Limits(max_connections=None)
STREAM = "/feeds/home/anna/stream"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Social, Service]]:
    """Anna follows Bob, who has said something."""
    social = Social(tmp_path_factory.mktemp("social"))
    with social.running() as service:
        social.follow("anna", "bob")
        social.post("bob", 1)
        social.until_equal(service, "sees a post")
        yield social, service


@contextmanager
def serving(social: Social, service: Service) -> Iterator[httpx.Client]:
    server = serve(ServiceHost(service, social.folder, lambda _: pytest.fail("nothing is applied")), TOKEN, 0)
    address, headers = f"http://127.0.0.1:{server.port}", {"Authorization": f"Bearer {TOKEN}"}
    try:
        with httpx.Client(base_url=address, headers=headers, timeout=60, limits=LIMITS) as client:
            yield client
    finally:
        server.stop()


@contextmanager
def hanging_store(service: Service) -> Iterator[Callable[[], int]]:
    """Somebody holds a lock that every page waits for. How many wait now."""
    waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'headrace_feeds.home_pairs'::regclass AND NOT granted"
    with psycopg.connect(service.feeds.find_own_dsn()) as session:
        session.execute("LOCK TABLE headrace_feeds.home_pairs IN ACCESS EXCLUSIVE MODE")
        yield lambda: session.execute(waiting).fetchall()[0][0]


def test_a_page_of_a_store_that_hangs_is_given_up_and_comes_again(running: Any, monkeypatch: Any) -> None:
    social, service = running
    monkeypatch.setattr(feeds, "ANSWER_WITHIN_S", 0.5)
    with serving(social, service) as client:
        assert client.get("/feeds/home/anna").status_code == 200
        with hanging_store(service), ThreadPoolExecutor(feeds.THREADS * 2) as readers:
            began = time.monotonic()
            asked = [readers.submit(client.get, "/feeds/home/anna") for _ in range(feeds.THREADS * 2)]
            answers = [one.result() for one in asked]
            took_s = time.monotonic() - began
            assert client.get("/status").status_code == 200, "whatever needs no store is answered"
        assert took_s < 5
        assert {one.status_code for one in answers} == {503}
        assert {one.headers["Retry-After"] for one in answers} == {"2"}
        assert answers[0].json()["errors"][0]["message"] == "the store did not answer within 0.5 s"
        until(lambda: client.get("/feeds/home/anna").status_code == 200, "pages come again, once the lock is gone")


def test_a_stream_that_fails_ends_with_a_reason(running: Any) -> None:
    """Whose tokens are valid cannot be told any more: the file that says so is damaged."""
    social, service = running
    token = {"Authorization": f"Bearer {add_app(social.folder, 'web', None)}"}
    file = social.folder.root / FILE
    good = file.read_text()
    try:
        with serving(social, service) as client, client.stream("GET", STREAM, headers=token) as answer:
            heard = hear(answer)
            assert next(heard)[0] == "open"
            file.write_text("no JSON")
            social.post("bob", 2)
            assert [event for event, _ in heard] == ["end"], "the answer ends as it should"
    finally:
        file.write_text(good)


def hear(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    event = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield event, json.loads(line.removeprefix("data: "))


def test_no_more_streams_begin_than_may_though_all_ask_at_once(running: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(feed_streams, "MOST_STREAMS", 3)
    social, service = running
    end, statuses = threading.Event(), list[int]()

    def listen() -> None:
        with client.stream("GET", STREAM) as answer:
            statuses.append(answer.status_code)
            end.wait(30)

    with serving(social, service) as client:
        listening = [threading.Thread(target=listen) for _ in range(20)]
        with hanging_store(service) as count_waiting:
            for one in listening:
                one.start()
            until(lambda: count_waiting() >= 3, "all wait for the store")
        until(lambda: len(statuses) == 20, "all were answered")
        end.set()
        for one in listening:
            one.join()
        assert sorted(statuses) == [200] * 3 + [503] * 17


def test_a_calibration_holds_up_no_page_and_who_waits_for_it_is_told(running: Any, monkeypatch: Any) -> None:
    social, service = running
    monkeypatch.setattr(calibrating, "TURN_WITHIN_S", 0.5)
    monkeypatch.setattr(feeds, "THREADS", 1)
    goes_on, may_end = threading.Event(), threading.Event()

    def measure(*_: Any) -> Any:
        goes_on.set()
        assert may_end.wait(30)
        raise ConnectError("enough")

    monkeypatch.setattr(calibrating, "measure_prices", measure)
    with serving(social, service) as client, ThreadPoolExecutor(1) as other:
        first = other.submit(client.post, "/feeds/home/calibrate")
        assert goes_on.wait(30)
        assert client.get("/feeds/home/anna").status_code == 200
        answer = client.post("/feeds/home/calibrate")
        assert answer.status_code == 503
        assert answer.json()["errors"][0]["message"].startswith('feed "home" is being calibrated, for ')
        may_end.set()
        assert first.result().status_code == 503 and "enough" in first.result().text


def test_a_pair_that_nobody_knows_has_no_reason(running: Any) -> None:
    social, service = running
    with serving(social, service) as client:
        assert client.get("/feeds/home/why/anna/bob").status_code == 200
        for unknown in ("anna/nobody", "nobody/bob", "bob/anna"):
            answer = client.get(f"/feeds/home/why/{unknown}")
            assert answer.status_code == 404 and "does not follow" in answer.text
        assert client.get("/feeds/away/why/anna/bob").status_code == 404


def test_why_takes_names_with_a_slash(running: Any) -> None:
    social, service = running
    with serving(social, service) as client:
        plain, slash = (client.get(f"/why/{quote(f'home:anna<-{name}', safe='')}") for name in ("carl", "a/b"))
        assert slash.status_code == plain.status_code
        assert slash.text.replace("a/b", "carl") == plain.text


def test_a_name_that_nobody_can_have_is_a_mistake_of_the_request_and_not_of_the_store(running: Any) -> None:
    social, service = running
    with serving(social, service) as client:
        for method, path in (
            ("GET", "/feeds/home/a%00b"),
            ("GET", "/feeds/home/a%00b/stream"),
            ("GET", "/feeds/home/a%00b/unread"),
            ("PUT", "/feeds/home/a%00b/seen"),
            ("GET", "/feeds/home/why/anna/b%00b"),
            ("DELETE", "/feeds/home/events/bob/%00"),
            ("DELETE", "/feeds/home/follows/anna/%00"),
            ("PUT", "/feeds/home/mutes/anna/%00"),
            ("POST", "/feeds/home/tokens/a%00b"),
        ):
            answer = client.request(method, path)
            assert answer.status_code == 422 and "Retry-After" not in answer.headers, f"{method} {path}"
            assert answer.json()["errors"][0]["message"] == "a name or an id has the character NUL"
        entry = {"time": "2026-03-01T12:00:00Z", "id": "1"}
        answer = client.put("/feeds/home/anna/seen", json={**entry, "id": "a\0b"})
        assert answer.status_code == 422 and "NUL" in answer.text
        assert client.get(f"/feeds/home/{'n' * 501}").status_code == 422
        assert client.put("/feeds/home/anna/seen", json=entry).status_code == 200
        assert client.get("/feeds/home/anna").status_code == 200
