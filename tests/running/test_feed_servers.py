"""Feed servers of a project that runs: several on one port, with tokens, streams, and kill -9 in between."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import signal
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import headrace
from headrace.connect.processes import birth_of
from headrace.doors.cli import main
from tests.running.running_project import until

PROJECT = """
project: social
sites: {us: {}}
feeds:
  home: {events: api, follows: api, limit: 4, freshness: 2 s}
  wall: {events: api, follows: api}
"""
DAY = dt.timedelta(days=1)
ODD = ("a/b", "100%", "zoë ü", "why", "events", "tokens", "a?b#c", "stream")


@dataclass
class Served:
    """A project that runs with two feed servers, and an app that may use its feeds."""

    folder: Path
    out: pytest.CaptureFixture[str]
    token: str = ""
    app: str = ""

    def headrace(self, *words: str, status: int = 0) -> Any:
        self.out.readouterr()
        ended = main.run([*words, "--json"])
        said, complaints = self.out.readouterr()
        assert ended == status, f"{words}: {said}{complaints}"
        return json.loads(said or complaints)

    @property
    def service(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / ".headrace" / "status.json").read_text())["service"]
        return found

    @property
    def servers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.service["feed_servers"]
        return found

    def all_run(self) -> bool:
        return [one["state"] for one in self.servers] == ["running"] * 2

    def client(self, token: str | None = None) -> httpx.Client:
        address = f"http://127.0.0.1:{self.servers[0]['port']}"
        return httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token or self.token}"}, timeout=30)

    def mint(self, consumer: str, feed: str = "home") -> str:
        with self.client() as client:
            answer = client.post(f"/feeds/{feed}/tokens/{quote(consumer, safe='')}", json={"expires_in_s": 600})
            assert answer.status_code == 201, answer.text
            assert set(answer.json()) == {"token", "feed", "consumer", "app", "expires"}
            return str(answer.json()["token"])


@pytest.fixture(scope="module")
def social(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("social")
    (folder / "headrace.yml").write_text(PROJECT)
    assert main.run(["up", str(folder), "--detach", "--engine=local", "--feed-servers=2"]) == 0
    try:
        yield folder
    finally:
        pids = [one["pid"] for one in Served(folder, None).servers]  # type: ignore[arg-type]
        assert main.run(["down", str(folder)]) == 0
        assert [birth_of(pid) for pid in pids if pid] == [None] * 2, "servers end with the service"


@pytest.fixture
def served(social: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Iterator[Served]:
    found = Served(social, capsys, app=request.node.name[:90])
    until(found.all_run, "both servers run", 60)
    found.token = found.headrace("feeds", "tokens", "add", found.app, str(social))["token"]
    yield found
    found.headrace("feeds", "tokens", "revoke", found.app, str(social))


def post(client: httpx.Client, producer: str, *ids: str) -> None:
    several = [
        {"producer": producer, "id": one, "time": f"2026-03-01T12:00:{int(one):02d}Z", "body": one} for one in ids
    ]
    assert client.post("/feeds/home/events", json=several).json() == {"feed": "home", "posted": len(ids)}


def read_ids(client: httpx.Client, consumer: str) -> list[str] | None:
    answer = client.get(f"/feeds/home/{quote(consumer, safe='')}")
    return [one["id"] for one in answer.json()["entries"]] if answer.status_code == 200 else None


def test_any_name_can_read_its_feed_with_its_own_token_and_do_nothing_else(served: Served) -> None:
    with served.client() as app:
        for name in ODD:
            assert app.put(f"/feeds/home/follows/{quote(name, safe='')}/o%2Fx").status_code == 200, name
        post(app, "o/x", "1", "2")
        until(lambda: all(read_ids(app, name) == ["2", "1"] for name in ODD), "everybody sees both")
        for name in ODD:
            check_own_token(served, name)
        assert app.get("/feeds/other/anna").status_code == 404
        assert app.post("/feeds/other/tokens/anna").status_code == 404
        assert app.post("/feeds/home/tokens/anna", json={"expires_in_s": 2_592_001}).status_code == 422
        assert app.patch("/feeds/home/anna").status_code == 405
        assert app.get("/feeds/home/anna/nothing").status_code == 404
        assert app.get("/feeds/home/why/why/o%2Fx").json()["name"] == "home:why<-o/x"
        for unknown in ("home/why/why/nobody", "home/why/nobody/o%2Fx", "other/why/why/o%2Fx"):
            assert app.get(f"/feeds/{unknown}").status_code == 404, unknown
        assert app.delete("/feeds/home/events/o%2Fx/2").json()["deleted"] is True
        until(lambda: read_ids(app, "a/b") == ["1"], "what was deleted is gone")


def check_own_token(served: Served, name: str) -> None:
    own = quote(name, safe="")
    with served.client(served.mint(name)) as client:
        assert read_ids(client, name) == ["2", "1"]
        assert client.get(f"/feeds/home/{own}/unread").json() == {"unread": 2}
        seen = {"time": "2026-03-01T12:00:01Z", "id": "1"}
        assert client.put(f"/feeds/home/{own}/seen", json=seen).json()["seen"] is True
        assert client.get(f"/feeds/home/{own}/unread").json() == {"unread": 1}
        assert client.put(f"/feeds/home/{own}/seen").status_code == 200
        assert client.get(f"/feeds/home/{own}/unread").json() == {"unread": 0}
        assert client.put(f"/feeds/home/mutes/{own}/o%2Fx").status_code == 200
        assert read_ids(client, name) == []
        assert client.delete(f"/feeds/home/mutes/{own}/o%2Fx").status_code == 200
        forbidden = [
            client.get("/feeds/home/somebody"),
            client.get("/feeds/other/" + own),
            client.put(f"/feeds/home/follows/{own}/bob"),
            client.post("/feeds/home/events", json={"producer": name, "id": "1"}),
            client.post(f"/feeds/home/tokens/{own}"),
            client.get(f"/feeds/home/why/{own}/bob"),
            client.put("/feeds/home/blocks/somebody/bob"),
            client.get("/metrics"),
        ]
        assert [answer.status_code for answer in forbidden] == [403] * len(forbidden)
        assert all(answer.json()["errors"][0]["message"] for answer in forbidden)


def test_wrong_tokens_are_refused_and_no_token_is_in_any_log(served: Served) -> None:
    minted = served.mint("anna")
    service = json.loads((served.folder / ".headrace" / "service.json").read_text())
    for wrong in ("", "x", minted[:-1], minted + "A", served.token[:-1], service["token"]):
        with served.client(wrong or "-") as client:
            answer = client.get("/feeds/home/anna")
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), "not on this port"
    address = f"http://127.0.0.1:{service['port']}/feeds/home/anna"
    for right in (service["token"], served.token, minted):
        assert httpx.get(address, headers={"Authorization": f"Bearer {right}"}).status_code == 200
    logs = [file for file in (served.folder / ".headrace").rglob("*.log") if file.is_file()]
    assert logs and not any(secret in log.read_text() for log in logs for secret in (served.token, minted))


def test_readers_get_no_wrong_answer_while_a_server_is_killed(served: Served) -> None:
    with served.client() as app:
        app.put("/feeds/home/follows/reader/kim")
        post(app, "kim", *map(str, range(10, 16)))
        until(lambda: read_ids(app, "reader") == ["15", "14", "13", "12"], "all are there")
    found, end = dict[str, int](), threading.Event()

    def read() -> None:
        while not end.is_set():
            try:
                with served.client() as client:
                    seen = read_ids(client, "reader")
                kind = "right" if seen == ["15", "14", "13", "12"] else f"{seen}"
            except httpx.HTTPError:
                kind = "broken"  # a connection to the server that died
            found[kind] = found.get(kind, 0) + 1

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    before = sum(one["restarts"] for one in served.servers)
    for _ in range(2):
        until(served.all_run, "both servers run", 60)
        victim = served.servers[0]["pid"]
        os.kill(victim, signal.SIGKILL)
        until(lambda victim=victim: all(one["pid"] not in (None, victim) for one in served.servers), "another started")  # type: ignore[misc]
    until(served.all_run, "both servers run", 60)
    end.set()
    for reader in readers:
        reader.join()
    assert found.keys() <= {"right", "broken"} and found["right"] > 50, found
    assert found.get("broken", 0) <= 12, "only requests that were under way"
    assert sum(one["restarts"] for one in served.servers) == before + 2
    said = [one["text"] for one in events_of(served) if one["kind"] == "feed server ended"]
    assert len(said) >= 2 and "the service starts another" in said[-1]


def events_of(served: Served) -> list[dict[str, Any]]:
    served.out.readouterr()
    assert main.run(["events", str(served.folder), "--json", "--limit=1000"]) == 0
    return [json.loads(line) for line in served.out.readouterr().out.splitlines()]


def test_what_servers_serve_is_counted_by_the_service(served: Served) -> None:
    before = count_pages(served)
    for _ in range(20):
        with served.client() as client:
            assert client.get("/feeds/home/anybody").status_code == 200
    until(lambda: count_pages(served) >= before + 20, "all reads were reported", 20)
    assert served.headrace("status", str(served.folder))["feeds"][0]["p95_ms"] > 0


def test_metrics_tell_an_app_of_the_feeds_that_it_may_use_and_of_no_others(served: Served) -> None:
    limited = served.headrace("feeds", "tokens", "add", "limited", str(served.folder), "--feed=wall")["token"]
    for token, feeds in ((limited, {"wall"}), (served.token, {"home", "wall"})):
        with served.client(token) as client:
            told = client.get("/metrics").text
        assert {feed for feed in ("home", "wall") if f'feed="{feed}"' in told} == feeds
    served.headrace("feeds", "tokens", "revoke", "limited", str(served.folder))


def test_why_and_whatif_go_by_prices_that_were_calibrated(served: Served) -> None:
    folder = str(served.folder)
    (before,) = served.headrace("why", "wall", folder)["answers"]
    assert not before["prices"]["calibrated"]
    told = served.headrace("feeds", "calibrate", "wall", folder)["prices"]
    until(lambda: served.headrace("why", "wall", folder)["answers"][0]["prices"]["calibrated"], "prices are known")
    (why,) = served.headrace("why", "wall", folder)["answers"]
    used = [why["prices"][name] for name in ("store_s", "fetch_s", "batch_s", "read_s", "event_s", "engine_s")]
    wanted = [*(told[name]["used"] for name in ("H", "L", "L0", "read", "event")), told["H"]["engine_s"]]
    assert used == pytest.approx(wanted, rel=0.5), "what operators take is learnt all the time"
    service = json.loads((served.folder / ".headrace" / "service.json").read_text())
    headers = {"Authorization": f"Bearer {service['token']}"}
    asked = httpx.get(f"http://127.0.0.1:{service['port']}/why/wall", headers=headers, timeout=30).json()
    assert asked["answers"][0]["prices"]["calibrated"], "the service says the same"
    assert served.headrace("whatif", "wall", folder, "--freshness=10s")["after"]["kept"]


def count_pages(served: Served) -> float:
    service = json.loads((served.folder / ".headrace" / "service.json").read_text())
    headers = {"Authorization": f"Bearer {service['token']}"}
    lines = httpx.get(f"http://127.0.0.1:{service['port']}/metrics", headers=headers, timeout=30).text.splitlines()
    wanted = ("headrace_feed_pairs", "headrace_feed_lag_seconds", "headrace_feed_page_seconds_bucket")
    assert all(any(line.startswith(name + '{feed="home"') for line in lines) for name in wanted)
    pages = [line for line in lines if line.startswith('headrace_feed_pages_total{feed="home"}')]
    return float(pages[0].split()[-1])


@dataclass
class Listener:
    """Keeps what a stream tells, and goes on where it was when the connection breaks."""

    served: Served
    consumer: str
    kept: dict[str, Any] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)

    def listen(self) -> None:
        while not self.end.is_set():
            try:
                self._hear()
            except httpx.HTTPError:
                time.sleep(0.2)

    def _hear(self) -> None:
        headers = {"Last-Event-ID": self.ids[-1]} if self.ids else {}
        path = f"/feeds/home/{self.consumer}/stream"
        with self.served.client() as client, client.stream("GET", path, headers=headers) as answer:
            event: dict[str, str] = {}
            for line in answer.iter_lines():
                if self.end.is_set():
                    return
                name, _, value = line.partition(": ")
                if line:
                    event[name] = value
                else:
                    self._take(event)
                    event = {}

    def _take(self, event: dict[str, str]) -> None:
        self.ids.append(event["id"])
        if "data" not in event:
            return
        told = json.loads(event["data"])
        self.kinds.append(event["event"])
        if event["event"] == "entry":
            self.kept[told["id"]] = told["body"]
        elif event["event"] == "gone":
            self.kept.pop(told["id"], None)


@contextmanager
def listening(served: Served, consumer: str) -> Iterator[Listener]:
    listener = Listener(served, consumer)
    thread = threading.Thread(target=listener.listen, daemon=True)
    thread.start()
    try:
        until(lambda: "open" in listener.kinds, "the stream is open")
        yield listener
    finally:
        listener.end.set()


def test_a_stream_tells_what_pages_show_through_posts_edits_deletions_mutes_and_kills(served: Served) -> None:
    with served.client() as app:
        for who in ("ann", "bea"):
            for whom in ("pia", "quinn"):
                app.put(f"/feeds/home/follows/{who}/{whom}")
        post(app, "pia", "10")
        post(app, "quinn", "11")
        until(lambda: read_ids(app, "ann") == read_ids(app, "bea") == ["11", "10"], "both follow both")
    with served.client() as app, listening(served, "ann") as first, listening(served, "bea") as second:
        post(app, "pia", "20", "21")
        until(lambda: first.kept == second.kept == {"20": "20", "21": "21"}, "both are told")
        assert read_ids(app, "ann") == ["21", "20", "11", "10"], "as on the page"
        app.post("/feeds/home/events", json={"producer": "pia", "id": "20", "body": "edited"})
        app.delete("/feeds/home/events/pia/21")
        until(lambda: first.kept == second.kept == {"20": "edited"}, "an edit takes its place, a deletion is told")
        app.put("/feeds/home/mutes/bea/quinn")
        post(app, "quinn", "30")
        until(lambda: first.kept == {"20": "edited", "30": "30"}, "one is told of quinn")
        until(served.all_run, "both servers run", 60)
        for server in served.servers:
            os.kill(server["pid"], signal.SIGKILL)
        with served.client() as other:
            until(lambda: posted(other, "pia", "40"), "somebody serves again", 60)
        until(lambda: first.kept == {"20": "edited", "30": "30", "40": "40"}, "it goes on after both were killed", 60)
        until(lambda: second.kept == {"20": "edited", "40": "40"}, "without whom she has muted", 60)
        for listener in (first, second):
            assert len(set(listener.ids)) >= listener.kinds.count("entry")
            assert "reread" not in listener.kinds
        assert first.kinds.count("entry") == 5, "20, 21, 20 edited, 30 and 40: each once"
        assert second.kinds.count("entry") == 4


def posted(client: httpx.Client, producer: str, id_: str) -> bool:
    try:
        post(client, producer, id_)
    except httpx.HTTPError:
        return False
    return True


def test_a_stream_begins_after_a_page_and_refuses_what_was_not_its_own(served: Served) -> None:
    with served.client() as app:
        app.put("/feeds/home/follows/cleo/rob")
        post(app, "rob", "50")
        until(lambda: read_ids(app, "cleo") == ["50"], "a post is there")
        as_of = app.get("/feeds/home/cleo").json()["as_of"]
        post(app, "rob", "51")
        until(lambda: read_ids(app, "cleo") == ["51", "50"], "another one is there")
        with app.stream("GET", "/feeds/home/cleo/stream", params={"after": as_of}) as answer:
            told = [line for line, _ in zip(answer.iter_lines(), range(8), strict=False)]
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "event: entry" in told and any('"id": "51"' in line for line in told)
        last = next(line for line in told if line.startswith("id: ")).removeprefix("id: ")
        for consumer, place in (("dora", last), ("cleo", last[:-2]), ("cleo", "x")):
            refused = app.get(f"/feeds/home/{consumer}/stream", headers={"Last-Event-ID": place})
            assert refused.status_code == 422
        assert app.get("/feeds/home/cleo/stream", params={"after": "noon"}).status_code == 422


def test_what_is_new_is_counted_by_commands_and_in_python(served: Served) -> None:
    with served.client() as app:
        app.put("/feeds/home/follows/edda/sam")
        post(app, "sam", "1", "2", "3")
        until(lambda: read_ids(app, "edda") == ["3", "2", "1"], "all are there")
    folder, feed = str(served.folder), headrace.feed("home", served.folder)
    assert served.headrace("feeds", "unread", "home", "edda", folder) == {"unread": 3}
    assert served.headrace("feeds", "seen", "home", "edda", folder, "--time=2026-03-01T12:00:02Z", "--id=2")["seen"]
    assert feed.unread("edda") == 1
    feed.mark_seen("edda", time="2026-03-01T12:00:01Z", id="1")
    assert feed.unread("edda") == 1, "what was seen stays seen"
    feed.mark_seen("edda")
    assert feed.unread("edda") == 0
    with pytest.raises(headrace.InputError, match="send both, or neither"):
        feed.mark_seen("edda", id="1")
    minted = served.headrace("feeds", "tokens", "mint", "home", "edda", folder, f"--app={served.app}", "--for=2 min")
    with served.client(minted["token"]) as client:
        assert client.get("/feeds/home/edda/unread").json() == {"unread": 0}
    refused = served.headrace("feeds", "tokens", "mint", "home", "edda", folder, "--app=nobody", status=2)
    assert refused["errors"][0]["message"] == 'there is no app "nobody"'


def test_servers_follow_the_plan_and_wait_for_the_store(served: Served) -> None:
    news = "  news: {events: api, follows: api, limit: 2, freshness: 2 s}\n"
    (served.folder / "headrace.yml").write_text(PROJECT.replace("limit: 4", "limit: 3") + news)
    served.headrace("apply", str(served.folder))
    with served.client() as app:
        until(lambda: app.get("/feeds/news/anna").status_code == 200, "a new feed is served")
        until(lambda: app.get("/feeds/home/anna", params={"limit": 4}).status_code == 422, "with the new rules")
        os.kill(find_store(served.folder), signal.SIGKILL)
        kinds = set()
        until(lambda: kinds.add(answer_of(app)) or {200, 503} <= kinds, "it is away, and back", 60)  # type: ignore[func-returns-value]
        assert kinds <= {200, 503}
    (served.folder / "headrace.yml").write_text(PROJECT)
    served.headrace("apply", str(served.folder))
    with served.client() as app:
        until(lambda: app.get("/feeds/news/anna").status_code == 404, "a feed that is gone is not served")


def answer_of(client: httpx.Client) -> int:
    answer = client.get("/feeds/home/anna")
    assert answer.status_code != 503 or answer.headers["retry-after"] == "2"
    return answer.status_code


def find_store(folder: Path) -> int:
    """The first line of the file that PostgreSQL keeps while it runs."""
    from headrace.connect.postgres.server_user import server_user

    place = server_user().reachable((folder / ".headrace" / "feeds").absolute())
    return int((place / "data" / "postmaster.pid").read_text().splitlines()[0])


def test_openapi_of_a_server_describes_every_request_of_feeds(served: Served) -> None:
    with served.client() as client:
        own = client.get("/openapi.json").json()
        assert client.get("/docs").status_code == client.get("/healthz").status_code == 200
    service = json.loads((served.folder / ".headrace" / "service.json").read_text())
    of_service = httpx.get(f"http://127.0.0.1:{service['port']}/openapi.json").json()
    feeds = {path: one for path, one in own["paths"].items() if path.startswith("/feeds/")}
    assert len(feeds) == 11 and feeds.items() <= of_service["paths"].items()
    assert own["components"]["schemas"].keys() <= of_service["components"]["schemas"].keys()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--feed-servers=1", "--feed-host=0.0.0.0"], "tokens need TLS"),
        (["--feed-servers=1", "--feed-cert=/nowhere.pem"], "needs a certificate and its key"),
        (["--feed-servers=1", "--feed-cert=/nowhere.pem", "--feed-key=/nowhere.pem"], "there is no file"),
        (["--feed-port=8000"], "need --feed-servers"),
    ],
)
def test_what_would_not_be_safe_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT)
    assert main.run(["up", str(tmp_path), *options]) == 2
    assert said in capsys.readouterr().err


def test_servers_elsewhere_speak_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "headrace.yml").write_text(PROJECT)
    certificate, key = make_certificate(tmp_path)
    words = ["--feed-servers=1", "--feed-host=0.0.0.0", f"--feed-cert={certificate}", f"--feed-key={key}"]
    assert main.run(["up", str(tmp_path), "--detach", "--engine=local", *words]) == 0
    try:
        assert "feeds: https://0.0.0.0:" in capsys.readouterr().out
        served = Served(tmp_path, capsys)
        until(lambda: [one["state"] for one in served.servers] == ["running"], "the server runs", 60)
        port = served.servers[0]["port"]
        trusted = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"https://127.0.0.1:{port}/healthz", verify=trusted).json()["state"] == "running"
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/healthz")
    finally:
        assert main.run(["down", str(tmp_path)]) == 0


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """For this machine, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "feeds")]), dt.datetime.now(dt.UTC)
    hosts = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + DAY)
    signed = made.add_extension(hosts, critical=False).sign(key, hashes.SHA256())
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    secret = serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret))
    return files
