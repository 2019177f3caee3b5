"""Processes ask each other over real sockets: who they are is known by their certificates."""

from __future__ import annotations

import datetime
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest

from headrace.connect.wire.client import WireAddress, WireClient
from headrace.connect.wire.contexts import AUTHORITY, WireIdentity, trust_nobody
from headrace.connect.wire.identity import LASTS
from headrace.connect.wire.identity_files import give_certificate, open_authority
from headrace.connect.wire.limit import LinkLimits
from headrace.connect.wire.server import WireAnswer, WireRequest, WireServer
from headrace.model.errors import ConnectError, UsageError
from tests.connect.wire.wire_world import WireWorld

OLD = LASTS + datetime.timedelta(hours=1)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[WireWorld]:
    found = WireWorld(tmp_path)
    yield found
    found.close()


def get(connection: http.client.HTTPConnection) -> None:
    """Asks as somebody would who has a token of the interface for people."""
    with closing(connection):
        connection.request("GET", "/v1/x", headers={"Authorization": "Bearer anything"})
        connection.getresponse()


def say_on(connection: ssl.SSLSocket) -> bytes:
    """The first byte of an answer; none if the other side ends, with or without saying why."""
    with connection, suppress(OSError):
        connection.sendall(b"GET /v1/x HTTP/1.1\r\nHost: x\r\n\r\n")
        return connection.recv(1)
    return b""


def repeat(request: WireRequest) -> WireAnswer:
    assert request.peer is not None
    who, said = request.peer.name.site, dict(request.query)
    return WireAnswer(json.dumps([who, request.method, request.path, said, request.body.decode()]).encode())


def note_and_repeat(asked: list[WireRequest], request: WireRequest) -> WireAnswer:
    asked.append(request)
    return repeat(request)


def test_a_site_is_known_by_its_certificate(world: WireWorld) -> None:
    with world.serving(repeat, world.identity("us")) as where:
        reply = world.client("us", where, world.identity("eu")).ask("GET", "/v1/x", 5.0, {"after": 7, "copy": "a b&c"})
        assert json.loads(reply.body) == ["eu", "GET", "/v1/x", {"after": "7", "copy": "a b&c"}, ""]
        reply = world.client("us", where, world.identity(None)).ask("PUT", "/v1/x", 5.0, body={"one": 1})
        assert json.loads(reply.body) == [None, "PUT", "/v1/x", {}, '{"one": 1}']


@pytest.mark.parametrize(("authority", "age"), [("foreign", datetime.timedelta()), ("ours", OLD)])
def test_a_foreign_or_old_certificate_fails_in_the_handshake(
    world: WireWorld, authority: str, age: datetime.timedelta
) -> None:
    asked: list[WireRequest] = []
    with world.serving(partial(note_and_repeat, asked), world.identity("us")) as where:
        client = world.client("us", where, world.identity("eu", authority, age))
        client.identity.client.verify_mode = ssl.CERT_NONE  # it would itself not trust the other side
        raw = client.identity.client.wrap_socket(socket.create_connection((where.host, where.port), 5.0))
        assert say_on(raw) == b"", "it is not answered"
    assert not asked


def test_nobody_without_a_certificate_is_answered(world: WireWorld) -> None:
    with world.serving(repeat, world.identity("us")) as where:
        connection = http.client.HTTPSConnection(where.host, where.port, context=trust_nobody(), timeout=5)
        with pytest.raises((ssl.SSLError, http.client.HTTPException, ConnectionError)):
            get(connection)
        plain = http.client.HTTPConnection(where.host, where.port, timeout=5)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            get(plain)


@pytest.mark.parametrize(("authority", "age"), [("foreign", datetime.timedelta()), ("ours", OLD)])
def test_a_site_does_not_ask_one_that_it_does_not_trust(
    world: WireWorld, authority: str, age: datetime.timedelta
) -> None:
    untrusted = 'site "us" does not answer: its certificate is not trusted'
    us, eu = world.identity("us", authority, age), world.identity("eu")
    with world.serving(repeat, us) as where, pytest.raises(ConnectError, match=untrusted):
        world.client("us", where, eu).ask("GET", "/v1/x", 5.0)


def test_another_site_at_the_address_is_not_asked(world: WireWorld) -> None:
    asked: list[WireRequest] = []
    asia, eu = world.identity("asia"), world.identity("eu")
    wrong = 'where site "us" should be, answers site "asia"'
    serving = world.serving(partial(note_and_repeat, asked), asia)
    with serving as where, pytest.raises(ConnectError, match=wrong):
        world.client("us", where, eu).ask("GET", "/v1/x", 5.0)
    assert not asked


def ask_often(client: WireClient) -> None:
    """On a busy machine, a server may take a moment to end."""
    for _ in range(100):
        client.ask("GET", "/v1/x", 5.0)
        time.sleep(0.1)


def test_questions_share_a_connection_and_survive_the_end_of_a_server(world: WireWorld) -> None:
    eu, us, asked = world.identity("eu"), world.identity("us"), threading.Barrier(3)

    def wait_for_others(request: WireRequest) -> WireAnswer:
        if request.path == "/v1/together":
            asked.wait(20.0)
        return repeat(request)

    with world.serving(wait_for_others, us) as first:
        here = first
        client = world.client("us", here, eu)
        client.find = lambda: here
        for _ in range(5):
            client.ask("GET", "/v1/x", 5.0)
        assert len(client._idle) == 1
        used = client._idle[0][1].sock
        client.ask("GET", "/v1/x", 5.0)
        assert client._idle[0][1].sock is used
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda _: client.ask("GET", "/v1/together", 20.0), range(3)))
        assert len(client._idle) == 3
    with pytest.raises(ConnectError, match='site "us" does not answer'):
        ask_often(client)
    with world.serving(repeat, us) as here:
        assert client.ask("GET", "/v1/x", 5.0).status == HTTPStatus.OK


def test_a_certificate_that_was_renewed_is_shown_by_the_next_connection(world: WireWorld) -> None:
    now = datetime.datetime.now(datetime.UTC)
    us = world.identity("us", age=OLD)
    with world.serving(repeat, us) as where:
        client = world.client("us", where, world.identity("eu"))
        with pytest.raises(ConnectError, match="expired"):
            client.ask("GET", "/v1/x", 5.0)
        give_certificate(open_authority(world.folder / "ours", "shop", now), us.folder.parent, "us", now)
        us.refresh()
        assert client.ask("GET", "/v1/x", 5.0).status == HTTPStatus.OK


def test_a_large_answer_arrives_whole_and_a_failure_is_told(world: WireWorld) -> None:
    large = bytes(range(256)) * 20_000

    def answer(request: WireRequest) -> WireAnswer:
        if request.path == "/v1/fails":
            raise RuntimeError("secret reasons")
        return WireAnswer(large)

    with world.serving(answer, world.identity("us")) as where:
        client = world.client("us", where, world.identity("eu"))
        assert client.ask("GET", "/v1/x", 5.0).body == large
        reply = client.ask("GET", "/v1/fails", 5.0)
        assert (reply.status, reply.reason) == (500, "the answer could not be made; see service.log")
        assert client.ask("GET", "/v1/x", 5.0).body == large


def test_somebody_who_says_nothing_is_not_waited_for_by_others(world: WireWorld) -> None:
    with world.serving(repeat, world.identity("us")) as where, socket.create_connection((where.host, where.port)):
        assert world.client("us", where, world.identity("eu")).ask("GET", "/v1/x", 5.0).status == HTTPStatus.OK


def test_somebody_without_a_certificate_cannot_fill_the_memory(world: WireWorld) -> None:
    open_to_all = WireIdentity(world.identity(None).folder, needs_certificate=False)
    trusting = ssl.create_default_context(cafile=open_to_all.folder / AUTHORITY)
    trusting.check_hostname = False
    with world.serving(lambda _: WireAnswer(b"{}"), open_to_all) as where:
        for size, status in ((1000, HTTPStatus.OK), (100_000, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)):
            with closing(
                http.client.HTTPSConnection(where.host, where.port, timeout=5.0, context=trusting)
            ) as stranger:
                stranger.request("POST", "/v1/join", bytes(size))
                assert stranger.getresponse().status == status


def test_a_port_that_is_taken_is_named(world: WireWorld) -> None:
    us = world.identity("us")
    with world.serving(repeat, us) as where, pytest.raises(UsageError, match="cannot be listened on"):
        WireServer(repeat, us, where.host, where.port)


def test_an_address_is_shown_as_people_write_it() -> None:
    assert WireAddress("::1", 80).shown == "[::1]:80"


def test_no_more_is_sent_to_a_site_than_the_limit_of_its_link_allows(world: WireWorld) -> None:
    limits = LinkLimits({"eu": 100_000.0}.get)
    took: dict[str, float] = {}
    with world.serving(lambda _: WireAnswer(b"x" * 100_000), world.identity("us"), limits) as here:
        for site in ("eu", "asia"):
            client, began = world.client("us", here, world.identity(site)), time.monotonic()
            assert len(client.ask("GET", "/v1/x", 10.0).body) == 100_000
            took[site] = time.monotonic() - began
            assert client.meter.look().counts[-1].arrived == 100_000
            round_trip_s = client.meter.look().round_trip_s
            assert round_trip_s is not None and 0.0 < round_trip_s < 10.0
    assert took["eu"] >= 0.75 > took["asia"], took
