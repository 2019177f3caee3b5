"""Answers over links that carry little: they come late, and once; what stands still is given up."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path

import pytest

from bench.relay import Relay
from headrace.connect.wire.client import WireAddress, WireClient
from headrace.connect.wire.server import WireAnswer
from headrace.model.errors import ConnectError
from tests.connect.wire.wire_world import HOST, WireWorld

BODY = bytes(range(250)) * 80
WITHIN_S, STILL_S = 0.6, 2.0
KEEPALIVE = "02"
"""The timer that runs, as `/proc/net/tcp` says it."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[WireWorld]:
    found = WireWorld(tmp_path)
    yield found
    found.close()


@pytest.fixture
def relay(world: WireWorld) -> Iterator[Relay]:
    """Leads to a site that answers at once."""
    with (
        world.serving(lambda _: WireAnswer(BODY), world.identity("us")) as where,
        Relay((where.host, where.port)) as made,
    ):
        yield made


def ask_through(world: WireWorld, relay: Relay) -> WireClient:
    client = world.client("us", WireAddress(HOST, relay.port), world.identity("eu"))
    client.still_s = STILL_S
    assert client.ask("GET", "/v1/x", 10.0).status == HTTPStatus.OK
    return client


def test_answers_over_a_slow_link_come_all_the_same(world: WireWorld, relay: Relay) -> None:
    client = ask_through(world, relay)
    relay.back.rate = 40_000.0
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(client.ask, "GET", "/v1/x", WITHIN_S) for _ in range(4)]
        assert [one.result().body == BODY for one in asked] == [True] * 4


def test_an_answer_that_stands_still_is_given_up(world: WireWorld, relay: Relay) -> None:
    client = ask_through(world, relay)
    carried = relay.back.carried
    relay.back.rate = 10_000.0
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(client.ask, "GET", "/v1/x", 600.0)
        while relay.back.carried == carried:
            assert not asked.done()
        relay.back.is_cut = True
        with pytest.raises(ConnectError, match="nothing more of an answer came for 2 s"):
            asked.result(30.0)
    relay.back.is_cut, relay.back.rate = False, None
    assert client.ask("GET", "/v1/x", 10.0).body == BODY


def test_a_reader_that_takes_little_at_a_time_gets_all_of_it(world: WireWorld) -> None:
    """One record after the other arrives within the time in which something has to, and the whole does not."""
    body, steps, pause = bytes(1_000_000), threading.Event(), 0.01
    with world.serving(lambda _: WireAnswer(body), world.identity("us"), write_within_s=0.3) as where:
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect((where.host, where.port))
        with world.identity("eu").client.wrap_socket(raw) as connection:
            connection.sendall(b"GET /v1/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            came = 0
            while piece := connection.recv(4096):
                came += len(piece)
                steps.wait(pause)  # this is how slow it is
    assert came >= len(body)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel says it nowhere else")
def test_both_ends_find_out_that_the_other_is_gone_while_an_answer_is_made(world: WireWorld) -> None:
    with world.serving(lambda _: WireAnswer(BODY), world.identity("us")) as where:
        client = world.client("us", where, world.identity("eu"))
        client.ask("GET", "/v1/x", 5.0)
        mine = f":{client._idle[0][1].sock.getsockname()[1]:04X}"
        until = time.monotonic() + 10.0
        while _find_timers(mine) != [KEEPALIVE] * 2:  # a moment after the last byte, when it is acknowledged
            assert time.monotonic() < until, _find_timers(mine)


def _find_timers(port: str) -> list[str]:
    """The timers that run at both ends of a connection."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return [words[5].partition(":")[0] for words in lines if words[1].endswith(port) or words[2].endswith(port)]
