"""What sites of earlier versions have said to each other, kept as it was: later versions answer, and read, the same.

`tests/golden/sites/v1-1.json` is of the first version whose sites run apart. It is never rewritten. To record another
one beside it: `python -m tests.running.test_recorded_conversation FILE`.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from headrace.app.joined_agent import JoinedSite
from headrace.connect.wire.client import WireClient
from headrace.connect.wire.peer import HttpPeer
from headrace.connect.wire.rows import AFTER, MEDIA_TYPE, PART, PARTS, UPTO, read_rows
from headrace.connect.wire.server import WireAnswer, WireRequest
from headrace.model.errors import ConnectError
from headrace.model.plan import Plan
from headrace.model.wire import read_wire, write_wire
from headrace.model.wish import CopyWish
from headrace.run.push.engine import NotThereYet
from headrace.run.push.exports import ChangesGone
from headrace.site.folder import Folder
from headrace.site.membership import Membership
from tests.connect.wire.wire_world import WireWorld
from tests.run.test_crashes import VIEWS
from tests.run.test_engine import world_of
from tests.running.recorded_site import READER, SITE, AnsweringSite

RECORDED = Path(__file__).parents[1] / "golden" / "sites" / "v1-1.json"
HEADERS = (AFTER, UPTO, PART, PARTS)
WITHIN_S = 5.0
LOADED, NOW, LATER, DEADLINE = 1_010, 1_040, 9_000, 2_000


@dataclass(frozen=True)
class Exchange:
    """A request, and what was answered. `rows` are those of the body; None of an answer that is JSON."""

    path: str
    query: Mapping[str, str]
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    rows: Any = None

    def to_json(self) -> dict[str, Any]:
        said = {"path": self.path, "query": dict(self.query), "status": self.status, "headers": dict(self.headers)}
        return {**said, "body": base64.b64encode(self.body).decode(), "rows": self.rows}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> Exchange:
        return Exchange(**{**found, "body": base64.b64decode(found["body"])})


def read_recorded() -> tuple[Plan, list[Exchange]]:
    document = json.loads(RECORDED.read_text())
    return read_wire(document["plan"], Plan), [Exchange.from_json(one) for one in document["said"]]


def ask(client: WireClient, path: str, query: Mapping[str, str]) -> Exchange:
    reply = client.ask("GET", path, WITHIN_S, query)
    headers = {name: str(reply.headers[name]) for name in HEADERS if name in reply.headers}
    rows = show_rows(reply.body) if reply.headers["Content-Type"] == MEDIA_TYPE else None
    return Exchange(path, query, reply.status, headers, reply.body, rows)


def show_rows(body: bytes) -> list[list[str]]:
    """Rows in an order of their own, each value as a text; and first the names and types of columns."""
    table = read_rows(body)
    rows = sorted([repr(value) for value in row.values()] for row in table.to_pylist())
    return [[f"{one.name} {one.type}" for one in table.schema], *rows]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[WireWorld]:
    found = WireWorld(tmp_path / "wire")
    yield found
    found.close()


def test_what_an_earlier_version_asks_is_answered_as_it_was(world: WireWorld, tmp_path: Path) -> None:
    plan, said = read_recorded()
    (tmp_path / "site").mkdir()
    site = AnsweringSite(plan, tmp_path / "site")
    with world.serving(site.answer, world.identity(SITE)) as where:
        client = world.client(SITE, where, world.identity(READER))
        for one in said:
            now = ask(client, one.path, one.query)
            assert (now.status, now.headers, now.rows) == (one.status, one.headers, one.rows), one.path
            if one.status == HTTPStatus.OK and one.rows is None and one.path != "/v1/probe":
                assert json.loads(now.body).items() >= json.loads(one.body).items()


def test_what_an_earlier_version_answers_is_read_as_it_was_meant(world: WireWorld) -> None:
    _, said = read_recorded()
    asked: list[WireRequest] = []

    def answer(request: WireRequest) -> WireAnswer:
        asked.append(request)
        one = said[len(asked) - 1]
        media = "application/json" if one.rows is None else MEDIA_TYPE
        return WireAnswer(one.body, media, HTTPStatus(one.status), one.headers)

    with world.serving(answer, world.identity(SITE)) as where:
        peer = HttpPeer(world.client(SITE, where, world.identity(READER)))
        for one in said:
            read_answer(peer, one)
    for request, one in zip(asked, said, strict=True):
        assert (request.method, request.path) == ("GET", one.path)
        assert request.query.items() >= one.query.items(), "an earlier version is asked what it understands"


def read_answer(peer: HttpPeer, one: Exchange) -> None:
    """Reads an answer, and compares what is read with what was recorded beside it."""
    query = one.query
    calls: dict[str, Callable[[], object]] = {
        "/v1/reach": lambda: peer.hear_reach().times,
        "/v1/starts": peer.find_starts,
        "/v1/changes": lambda: peer.read_changes(
            query["copy"], int(query["after"]), CopyWish(int(query["until"]), int(query["deadline"])), 0.0
        ),
        "/v1/snapshot": lambda: peer.read_part(query["copy"], int(query["at"]), int(query["from"])),
        "/v1/probe": lambda: peer.probe_link(int(query["bytes"])),
    }
    call, refusals = calls[one.path], {410: ChangesGone, 425: NotThereYet, 403: ConnectError}
    if one.status in refusals:
        with pytest.raises(refusals[one.status], match=r"."):
            call()
        return
    found: Any = call()
    match one.path:
        case "/v1/changes":
            assert (found.segment.after, found.segment.upto) == (int(one.headers[AFTER]), int(one.headers[UPTO]))
            assert found.bytes == len(one.body) and found.segment.rows.equals(read_rows(one.body))
        case "/v1/snapshot":
            assert (found.number, found.of) == (int(one.headers[PART]), int(one.headers[PARTS]))
            assert show_rows(found.body) == one.rows
        case "/v1/probe":
            assert found is not None and found.arrived == len(one.body)
        case _:
            assert found == json.loads(one.body)


def test_recorded_rows_are_those_that_an_earlier_version_has_sent() -> None:
    _, said = read_recorded()
    assert {one.path for one in said} == {"/v1/reach", "/v1/starts", "/v1/changes", "/v1/snapshot", "/v1/probe"}
    assert {one.status for one in said} == {200, 403, 410, 425}
    for one in said:
        if one.rows is not None:
            assert show_rows(one.body) == one.rows


def test_a_ping_tells_what_it_told(world: WireWorld, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "agent")
    folder.prepare()
    site = JoinedSite(folder, Membership("eu", "shop", "127.0.0.1:1", "127.0.0.1", 2), world.identity("eu"))
    with world.serving(site.answer, site.identity) as where:
        found = json.loads(world.client("eu", where, world.identity("us")).ask("GET", "/v1/ping", WITHIN_S).body)
    assert found["site"] == "eu" and isinstance(found["clock"], int) and isinstance(found["boot"], str)


# Recording


def conversation(site: AnsweringSite) -> Iterator[tuple[str, dict[str, str]]]:
    """What a site asks for: how far others are, what a view starts from, changes, and what it does not get."""
    program = site.world.worlds[SITE].program
    own, foreign = sorted(program.exports), sorted(program.imports)
    yield "/v1/reach", {}
    yield "/v1/starts", {}
    for copy in own:
        yield "/v1/snapshot", {"copy": copy, "at": str(LOADED), "from": "0"}
        wish = {"copy": copy, "until": str(NOW), "deadline": str(DEADLINE), "wait": "0.0"}
        yield "/v1/changes", {**wish, "after": str(LOADED)}
        yield "/v1/changes", {**wish, "after": str(NOW)}
        yield "/v1/changes", {**wish, "after": str(LOADED - 1_000)}
        yield "/v1/snapshot", {"copy": copy, "at": str(LATER), "from": "0"}
        yield "/v1/snapshot", {"copy": copy, "at": str(NOW), "from": "1"}
        yield "/v1/snapshot", {"copy": copy, "at": str(LOADED), "from": "1"}
    yield "/v1/changes", {"copy": foreign[0], "until": str(NOW), "deadline": str(DEADLINE), "wait": "0.0", "after": "0"}
    yield "/v1/probe", {"bytes": "1000"}


def record(file: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for folder in ("whole", "site"):
            (root / folder).mkdir()
        plan = world_of(VIEWS[:1], READER, root / "whole").plan
        site, world = AnsweringSite(plan, root / "site"), WireWorld(root / "wire")
        with world.serving(site.answer, world.identity(SITE)) as where:
            client = world.client(SITE, where, world.identity(READER))
            said = [ask(client, path, query) for path, query in conversation(site)]
        world.close()
        version = metadata.version("headrace")
        document = {"version": version, "plan": write_wire(plan, version), "said": [one.to_json() for one in said]}
        file.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
