"""Loads go behind changes over a link, and get a tenth of it at least: as decided, and over a real link."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.world_of_sites import WorldOfSites, why_impossible
from headrace.connect.wire.order import LOAD_SHARE, WAITS_AT_MOST_S, LinkOrder, may_be_ahead
from headrace.connect.wire.tcp import TcpInfo
from tests.connect.wire.wire_world import WireWorld

ROOT = Path(__file__).parents[3]
RATE, CHANGE, LOAD = 1_000_000.0, 200_000, 30_000_000
SERVE = """
import sys, threading
from pathlib import Path
from headrace.connect.wire.server import WireAnswer, WireServer
from headrace.connect.wire.contexts import WireIdentity
bodies = {"/changes": WireAnswer(bytes(int(sys.argv[3]))), "/load": WireAnswer(bytes(int(sys.argv[4])), is_load=True)}
server = WireServer(lambda request: bodies[request.path], WireIdentity(Path(sys.argv[1])), sys.argv[2], 7000)
print("ready", flush=True)
threading.Event().wait()
"""
READ = """
import json, sys, threading, time
from pathlib import Path
from headrace.connect.wire.client import WireAddress, WireClient
from headrace.connect.wire.contexts import WireIdentity
from headrace.connect.wire.limit import LinkLimits
from headrace.model.errors import ConnectError
changes, loads = (
    WireClient("us", lambda: WireAddress(sys.argv[2], 7000), WireIdentity(Path(sys.argv[1]))) for _ in range(2)
)
def arrived(client): return client.meter.look().counts[-1].arrived
def read_load():
    loads.ask("GET", "/load", 60.0)
threading.Thread(target=read_load, daemon=True).start()
while arrived(loads) < 1_000_000: time.sleep(0.01)  # it has the whole link
readers = [threading.Thread(target=lambda: [changes.ask("GET", "/changes", 60.0) for _ in range(10)]) for _ in range(2)]
for one in readers: one.start()
while not arrived(changes): time.sleep(0.001)  # a busy machine may take a while to begin
before = arrived(loads)
for one in readers: one.join()
print(json.dumps([arrived(changes), arrived(loads) - before]), flush=True)
after = arrived(loads)
while arrived(loads) < after + 300_000: time.sleep(0.01)  # and has it again
"""


@given(st.lists(st.integers(1, 100_000), max_size=100), st.integers(1, 16_384))
def test_a_load_gets_a_tenth_while_changes_wait_and_no_more(changes: list[int], record: int) -> None:
    order, load, share = LinkOrder(), 0, LOAD_SHARE / (1.0 - LOAD_SHARE)
    order.begin_changes("one", lambda: 1)
    for number, size in enumerate(changes):
        order.note_changes(size)
        while order.take(record, 0.0):
            load += record
        due = share * sum(changes[: number + 1])
        assert due - record - 0.01 <= load <= due + 0.01


def test_a_load_has_the_whole_link_when_nothing_else_is_sent_and_never_waits_for_ever() -> None:
    order, waiting = LinkOrder(), [10]
    assert order.take(16_384, 0.0)
    order.begin_changes("one", lambda: waiting[0])
    assert not order.take(16_384, WAITS_AT_MOST_S - 1)
    assert order.take(16_384, WAITS_AT_MOST_S)
    waiting[0] = 0
    assert order.take(16_384, 0.0)
    waiting[0] = 10
    order.end("one")
    assert order.take(16_384, 0.0)


def test_less_of_a_load_is_ahead_on_a_slow_link() -> None:
    slow, fast = (may_be_ahead(TcpInfo(0.04, 0, 0, 0, rate)) for rate in (1_000, 100_000_000))
    assert slow == may_be_ahead(None) < 20_000 < fast == 25_000_000


@pytest.fixture
def link(tmp_path: Path) -> Iterator[list[str]]:
    """The command of a reader at the far end of a link that carries a megabyte a second."""
    if (why := why_impossible()) is not None:
        pytest.skip(why)
    world = WireWorld(tmp_path)
    with ExitStack() as ending:
        network = ending.enter_context(WorldOfSites(["us", "eu"]))
        network.set_rate("us", "eu", RATE)
        here, sizes = network.address("us"), [str(CHANGE), str(LOAD)]
        words = [sys.executable, "-c", SERVE, str(world.identity("us").folder), here, *sizes]
        server = ending.enter_context(subprocess.Popen(network.command("us", words), stdout=subprocess.PIPE, cwd=ROOT))
        ending.callback(server.kill)
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield network.command("eu", [sys.executable, "-c", READ, str(world.identity("eu").folder), here])


def test_changes_overtake_a_load_on_a_link_that_is_full(link: list[str]) -> None:
    """Three connections that share a link by themselves have a third each."""
    said = subprocess.run(link, check=True, capture_output=True, text=True, cwd=ROOT, timeout=60).stdout
    changes, load = json.loads(said.splitlines()[0])
    assert changes == 20 * CHANGE
    assert load < 0.25 * changes, (changes, load)
