"""A template that runs, with everything real: PostgreSQL, engine, broker, router, and phones that come and go."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest

from headrace.doors.cli import main
from headrace_device import Device
from tests.running.running_project import until

PROJECT = """
project: town
sites: {core: {cores: 2}}
sources:
  people: {kind: table, at: core, postgres: {dsn: "${TOWN_DSN}", table: public.people}, key: uid}
  friends: {kind: table, at: core, postgres: {dsn: "${TOWN_DSN}", table: public.friends}, key: [uid, friend]}
devices:
  phones: {table: people, id: uid, up: 1.0, down: 0.1, capacity: views, streams: {place: {columns: {x: int}}}}
templates:
  nearby: {per: {table: friends, a: uid, b: friend}, devices: phones, view: near, notify: "${NOTIFY}"}
contracts:
  near: {view: near, at: core, freshness: 3 s}
"""
NEAR = "SELECT x.x AS mine, y.x AS theirs FROM a.place x JOIN b.place y ON abs(x.x - y.x) <= {reach}"
PEOPLE = (1, 2, 3, 4, 5)
FRIENDS = ((1, 2), (1, 3), (2, 3), (4, 1), (5, 2))

Row = tuple[int, int, int, int]


class Receiver(BaseHTTPRequestHandler):
    """Keeps what is posted; refuses every third post, after having read it."""

    lines: ClassVar[list[dict[str, Any]]] = []
    posts = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).posts += 1
        takes = type(self).posts % 3 != 0
        if takes:
            type(self).lines += [json.loads(line) for line in body.splitlines()]
        self.send_response(204 if takes else 503)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@dataclass
class Town:
    folder: Path
    dsn: str
    out: pytest.CaptureFixture[str]
    phones: dict[int, Device] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    reach: int = 1

    def headrace(self, *words: str, status: int = 0) -> Any:
        self.out.readouterr()
        ended = main.run([*words, "--json"])
        said, complaints = self.out.readouterr()
        assert ended == status, f"{words}: {said}{complaints}"
        return json.loads(said or complaints)

    def lines(self, *words: str) -> list[str]:
        self.out.readouterr()
        main.run([*words, "--json"])
        return self.out.readouterr()[0].splitlines()

    def sql(self, text: str) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as session:
            found = session.execute(text)
            return found.fetchall() if found.description is not None else []

    def up(self) -> None:
        self.headrace("up", str(self.folder), "--detach", "--engine=local")
        until(lambda: self.url is not None, "the broker is there")

    @property
    def url(self) -> str | None:
        found: str | None = self.headrace("devices", "status", "--directory", str(self.folder))["broker"]["url"]
        return found

    @property
    def template(self) -> dict[str, Any]:
        found: dict[str, Any] = self.headrace("status", str(self.folder))["templates"][0]
        return found

    def device(self, uid: int) -> dict[str, Any]:
        found = self.headrace("devices", "status", "--directory", str(self.folder))["devices"]
        return next((one for one in found if one["id"] == str(uid)), {})

    def plug_in(self, uid: int) -> None:
        found = self.headrace("devices", "tokens", str(uid), "--directory", str(self.folder))["devices"]
        url = self.url
        assert url is not None
        self.phones[uid] = Device(
            str(uid), url, found[0]["token"], state=self.folder.parent / f"phone{uid}"
        ).__enter__()

    def unplug(self, uid: int) -> None:
        self.phones.pop(uid).close()

    def go(self, **places: int) -> None:
        """`p1=5`: phone 1 goes to 5."""
        for name, place in places.items():
            uid = int(name.removeprefix("p"))
            self.places[uid] = place
            self.phones[uid].publish("place", {"x": place})

    def stay(self) -> None:
        """Every phone says again where it is: placing pairs saves messages only while there are some."""
        for uid, phone in self.phones.items():
            phone.publish("place", {"x": self.places[uid]})

    def are_pairs_on_phones(self) -> bool:
        self.stay()
        return self.template["on_devices"] > 0 and not self.template["moving"]

    # Oracle: plain Python over where the phones are, and the tables as PostgreSQL has them

    def expected(self) -> list[Row]:
        here = {uid: self.places[uid] for (uid,) in self.sql("SELECT uid FROM people") if uid in self.places}
        pairs = self.sql("SELECT uid, friend FROM friends")
        met = [(a, b, here[a], here[b]) for a, b in pairs if a in here and b in here]
        return sorted(row for row in met if abs(row[2] - row[3]) <= self.reach)

    def shown(self) -> list[Row]:
        return sorted(tuple(row) for row in self.headrace("show", "near", str(self.folder))["rows"])

    def until_right(self, what: str) -> None:
        until(lambda: self.shown() == self.expected(), f"{what}: {self.expected()}", 60.0)


@pytest.fixture
def town(
    tmp_path: Path,
    postgres_database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Town]:
    folder, dsn = tmp_path / "town", postgres_database()
    (folder / "views").mkdir(parents=True)
    monkeypatch.setenv("TOWN_DSN", dsn)
    made = Town(folder, dsn, capsys)
    made.sql("CREATE TABLE people (uid bigint PRIMARY KEY, views int NOT NULL)")
    made.sql("CREATE TABLE friends (uid bigint, friend bigint, PRIMARY KEY (uid, friend))")
    made.sql("INSERT INTO people VALUES " + ", ".join(f"({uid}, 10)" for uid in PEOPLE))
    made.sql("INSERT INTO friends VALUES " + ", ".join(map(str, FRIENDS)))
    with listening() as url:
        monkeypatch.setenv("NOTIFY", url)
        (folder / "headrace.yml").write_text(PROJECT)
        (folder / "views" / "near.sql").write_text(NEAR.format(reach=1))
        try:
            yield made
        finally:
            for phone in made.phones.values():
                phone.close()
            main.run(["down", str(folder)])


@contextmanager
def listening() -> Iterator[str]:
    Receiver.lines, Receiver.posts = [], 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/changes"
    finally:
        server.shutdown()
        server.server_close()


def find_processes(folder: Path, mark: bytes) -> list[int]:
    """Processes of the project whose command has a mark."""
    service = json.loads((folder / ".headrace" / "service.json").read_text())["pid"]
    found = []
    for process in Path("/proc").iterdir():
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == service and mark in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


@pytest.mark.timeout(400)
def test_pairs_run_on_phones_and_in_the_cloud_and_show_what_sql_says_through_crashes(town: Town) -> None:
    town.up()
    for uid in PEOPLE:
        until(lambda uid=uid: bool(town.device(uid)), f"phone {uid} is known")  # type: ignore[misc]
        town.plug_in(uid)
    town.go(p1=0, p2=1, p3=1, p4=5, p5=2)
    town.until_right("the first places")
    until(town.are_pairs_on_phones, "pairs run on phones")
    status = town.template
    assert status["devices"] == status["online"] == 5 and status["pairs"] == 5
    assert status["messages_s"] is not None and status["all_cloud_messages_s"] is not None
    told = town.headrace("devices", "plan", "1", "--directory", str(town.folder))
    assert told["plan"] == told["took"] and (told["run"] or told["send"])

    (said,) = [town.device(uid) for uid in PEOPLE if town.device(uid)["views"]][:1]
    host = int(said["id"])
    mine = [pair for pair in FRIENDS if host in pair]
    told = [town.headrace("why", f"nearby:{a},{b}", str(town.folder))["answers"][0] for a, b in mine]
    assert all(one["measured"] for one in told), told
    assert sum(one["at"] == str(host) for one in told) == said["views"]["nearby"], told
    main.run(["why", "nearby:{},{}".format(*mine[0]), str(town.folder)])
    assert "pair {},{} runs".format(*mine[0]) in town.out.readouterr()[0]
    assert town.headrace("why", "nearby:1,77", str(town.folder), status=2)

    for step in range(10):
        town.go(p1=step % 3, p2=(step * 2) % 4)
    town.go(p3=2, p4=1)
    town.until_right("after some steps")

    town.sql("INSERT INTO friends VALUES (5, 4)")
    town.sql("DELETE FROM friends WHERE uid = 2 AND friend = 3")
    town.go(p5=1)
    town.until_right("friends come and go")

    # The router is killed, then the service: phones go on meanwhile.
    for pid in find_processes(town.folder, b"headrace.site.devices.router"):
        os.kill(pid, signal.SIGKILL)
    town.go(p1=7, p2=8)
    town.until_right("the router was killed")
    service = json.loads((town.folder / ".headrace" / "service.json").read_text())["pid"]
    os.kill(service, signal.SIGKILL)
    town.go(p3=8, p4=7)
    before = town.places.copy()
    town.up()
    assert town.places == before
    town.until_right("the service was killed")

    # A phone is away: what it runs is as it was, and follows when it is back.
    town.unplug(1)
    until(lambda: town.device(1).get("online") is False, "phone 1 is seen to be away")
    town.go(p2=3, p3=3)
    town.plug_in(1)
    town.go(p1=3)
    town.until_right("phone 1 is back")

    until(lambda: posted() == Counter(town.shown()), "the webhook has all changes, in order")

    # Another view: all who run it get the other program.
    town.reach = 4
    (town.folder / "views" / "near.sql").write_text(NEAR.format(reach=4))
    town.headrace("apply", str(town.folder))
    town.until_right("another view")

    # Somebody without friends is told what streams look like, and nothing waits for ever.
    town.sql("INSERT INTO people VALUES (6, 10)")
    until(lambda: bool(town.device(6)), "phone 6 is known")
    town.plug_in(6)
    town.phones[6].publish("place", {"x": 3})
    assert town.phones[6].wait_sent(60.0)
    until(lambda: town.device(6)["took"] is not None, "phone 6 has a document")
    town.sql("INSERT INTO friends VALUES (6, 5)")
    town.places[6] = 3
    town.until_right("phone 6 has a friend")

    # A person is gone, with all results.
    town.sql("DELETE FROM people WHERE uid = 1")
    town.until_right("person 1 is gone")
    kinds = [json.loads(line)["kind"] for line in town.lines("events", str(town.folder), "--limit=1000")]
    assert "pairs moved" in kinds and "device forgotten" in kinds


def posted() -> Counter[Row]:
    """The rows that are left of all changes that the webhook got. What it had twice counts once."""
    rows: Counter[Row] = Counter()
    seen: set[tuple[Any, ...]] = set()
    for line in Receiver.lines:
        row = tuple(line["row"][name] for name in ("a", "b", "mine", "theirs"))
        key = (line["t"], line["op"], row)
        if key not in seen:
            seen.add(key)
            rows[row] += 1 if line["op"] == "insert" else -1
    assert all(count >= 0 for count in rows.values()), "a row went before it came"
    return +rows


def test_a_template_that_cannot_be_kept_says_why(town: Town) -> None:
    text = PROJECT.replace("freshness: 3 s", "freshness: 1 ms")
    (town.folder / "headrace.yml").write_text(text + "  people: {view: everybody, at: core, freshness: 5 s}\n")
    (town.folder / "views" / "everybody.sql").write_text("SELECT uid FROM people")
    town.headrace("up", str(town.folder), "--detach", "--engine=local")
    found = town.template
    assert found["state"] == "refused" and found["reason"]
    time.sleep(1.0)
    assert not (town.folder / ".headrace" / "devices" / "broker.conf").exists(), "nothing runs for it"
