"""The network that tests and benchmarks run sites on does what it is told: rates, cuts, latency, counted bytes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from bench.relay import Relay, Way
from bench.world_of_sites import PREFIX, WorldOfSites, run_tool, why_impossible
from headrace.connect.processes import birth_of

ECHO = """
import socket, sys, threading
server = socket.create_server((sys.argv[1], 7000))
print("listening", flush=True)
def answer(one):
    with one:
        while data := one.recv(65536):
            one.sendall(data)
while True:
    threading.Thread(target=answer, args=[server.accept()[0]], daemon=True).start()
"""
ASK = """
import socket, sys, time
where, size, within = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
began, got = time.monotonic(), 0
try:
    with socket.create_connection((where, 7000), timeout=within) as one:
        one.sendall(b"x" * size)
        while got < size:
            got += len(one.recv(65536))
    print(time.monotonic() - began)
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def world() -> Iterator[WorldOfSites]:
    if (why := why_impossible()) is not None:
        pytest.skip(why)
    latency_s = {("us", "asia"): 0.1, ("asia", "us"): 0.05}
    with ExitStack() as ending:
        made = ending.enter_context(WorldOfSites(["us", "eu", "asia"], latency_s))
        for site in made.sites:
            words = made.command(site, [sys.executable, "-c", ECHO, made.address(site)])
            server = ending.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
            ending.callback(server.kill)
            assert server.stdout is not None
            assert server.stdout.readline() == b"listening\n"
        yield made


def ask(world: WorldOfSites, origin: str, site: str, size: int = 100, within_s: float = 1.0) -> str:
    """How many seconds it takes to send bytes to a site and get them back; or how that fails."""
    words = [sys.executable, "-c", ASK, world.address(site), str(size), str(within_s)]
    done = subprocess.run(world.command(origin, words), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_sites_reach_each_other_and_bytes_are_counted_by_direction(world: WorldOfSites) -> None:
    before = {ends: world.count_bytes(*ends) for ends in (("us", "eu"), ("eu", "us"), ("us", "asia"))}
    assert float(ask(world, "us", "eu", 200_000)) < 5.0
    sent = {ends: world.count_bytes(*ends) - before[ends] for ends in before}
    for ends in (("us", "eu"), ("eu", "us")):
        assert 200_000 < sent[ends] < 230_000, sent
    assert sent["us", "asia"] < 2_000


def test_a_link_has_its_rate_in_one_direction(world: WorldOfSites) -> None:
    world.set_rate("us", "eu", 100_000)
    try:
        slow_s = float(ask(world, "us", "eu", 100_000, 10.0))
        assert slow_s > 0.6
        assert float(ask(world, "us", "asia", 20_000, 10.0)) < slow_s
    finally:
        world.set_rate("us", "eu", None)
    assert float(ask(world, "us", "eu", 100_000, 10.0)) < slow_s


def test_a_latency_counts_once_for_each_direction(world: WorldOfSites) -> None:
    seconds = float(ask(world, "us", "asia"))
    assert seconds >= 0.3, "a connection is made, and then asked: two round trips of 150 ms"


@pytest.mark.parametrize("cut", ["cut", "cut_one_way", "take_down"])
@pytest.mark.parametrize("other", ["eu", "asia"])
def test_nothing_passes_a_link_that_is_cut_and_all_of_it_once_it_is_healed(
    world: WorldOfSites, cut: str, other: str
) -> None:
    getattr(world, cut)("us", other)
    try:
        assert not ask(world, "us", other)[0].isdigit()
        assert not ask(world, other, "us")[0].isdigit(), "an answer needs both directions"
        third = "asia" if other == "eu" else "eu"
        assert ask(world, "us", third)[0].isdigit(), "other links are whole"
    finally:
        world.heal("us", other)
    assert ask(world, "us", other)[0].isdigit()


LEAVING = """
import os, signal, subprocess, sys
from bench.world_of_sites import WorldOfSites
world = WorldOfSites(["a", "b"]).__enter__()
left = subprocess.Popen(world.command("a", ["sleep", "600"]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(world.namespace("a"), left.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_world_left_goes_with_the_next_one(world: WorldOfSites) -> None:
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    name, pid = done.stdout.split()
    assert name in run_tool("ip", "netns", "list")
    with WorldOfSites(["c"]) as another:
        listed = run_tool("ip", "netns", "list")
        assert name not in listed
        assert world.namespace("us") in listed, "those of a process that lives stay"
        assert another.namespace("c") in listed
    assert birth_of(int(pid)) is None
    assert f"{PREFIX}-{os.getpid()}" in run_tool("ip", "netns", "list")
    assert another.namespace("c") not in run_tool("ip", "netns", "list")


# The relay needs no rights


@pytest.fixture
def echo() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    one, _ = server.accept()
                    with one:
                        while data := one.recv(65536):
                            one.sendall(data)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def round_trip(port: int, size: int, within_s: float = 20.0) -> float:
    began, got = time.monotonic(), 0
    with socket.create_connection(("127.0.0.1", port), timeout=within_s) as one:
        one.sendall(b"x" * size)
        while got < size:
            got += len(one.recv(65536))
    return time.monotonic() - began


def test_a_relay_delays_and_limits_each_direction_by_itself(echo: int) -> None:
    with Relay(("127.0.0.1", echo), out=Way(latency_s=0.1), back=Way(rate=200_000)) as relay:
        assert round_trip(relay.port, 100_000) >= 0.1 + 0.5
        assert relay.out.carried == relay.back.carried == 100_000


def test_a_relay_that_is_cut_keeps_bytes_until_it_is_healed(echo: int) -> None:
    with Relay(("127.0.0.1", echo)) as relay:
        relay.back.is_cut = True
        with pytest.raises(TimeoutError):
            round_trip(relay.port, 10, 0.3)
        assert relay.out.carried == 10
        relay.back.is_cut = False
        assert round_trip(relay.port, 10) < 20.0
