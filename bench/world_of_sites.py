"""A network of sites on one machine: each site is a network namespace, with a link of its own to every other one.

    with WorldOfSites(["us", "eu"]) as world:
        subprocess.Popen(world.command("eu", ["headrace", "agent", ...]))
        world.set_rate("us", "eu", 50_000)          # bytes/s, one direction; `tc tbf`
        world.cut("us", "eu")                       # nothing passes, and nobody is told
        world.take_down("us", "eu")                 # `ip link set down`: both ends know
        world.heal("us", "eu")
        world.count_bytes("us", "eu")               # as the kernel counts them

A link is a veth pair. One with a latency is a pair of tun devices, between which a process of ours carries each packet
and delays it (`packet_relay.py`): `netem` is not in every kernel. Processes of different sites see the same files and
each other's ids, as `--sites processes` needs it. Unix sockets reach everywhere.

Needs root. Whatever a world made is gone when it closes; what one left that was killed goes when the next one opens.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import TracebackType

from headrace.connect.processes import birth_of

PREFIX = "hrw"
"""Namespaces are called PREFIX-PID-BIRTH-SITE, by the process whose world they are."""
NETWORK = "10.77.0"
PACKET = 1514
QUEUED_S = 0.25
"""How long a packet may wait for a slow link before others are dropped; at least a few packets have room."""
ENDED_WITHIN_S = 10.0

Ends = tuple[str, str]
"""(from, to)"""


def why_impossible() -> str | None:
    """Why no world of sites can be made here; None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        return f"{missing[0]} is not installed"
    name = f"{PREFIX}-{os.getpid()}-0-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return None if made.returncode == 0 else made.stderr.strip()


def run_tool(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@dataclass
class WorldOfSites:
    """`latency_s` is one way, by link; a link that is not named has none."""

    sites: Sequence[str]
    latency_s: dict[Ends, float] = field(default_factory=dict)
    _relays: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._mark = f"{PREFIX}-{os.getpid()}-{birth_of(os.getpid())}"

    def __enter__(self) -> WorldOfSites:
        remove_remains()
        try:
            for site in self.sites:
                run_tool("ip", "netns", "add", self.namespace(site))
                run_tool("ip", "-n", self.namespace(site), "link", "set", "lo", "up")
                run_tool("ip", "-n", self.namespace(site), "addr", "add", f"{self.address(site)}/32", "dev", "lo")
            for one, other in combinations(self.sites, 2):
                self._join(one, other)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends what runs at sites, and removes them."""
        for relay in self._relays:
            relay.kill()
            relay.communicate()
        self._relays.clear()
        _remove_namespaces([self.namespace(site) for site in self.sites])

    # Sites

    def namespace(self, site: str) -> str:
        return f"{self._mark}-{site}"

    def address(self, site: str) -> str:
        return f"{NETWORK}.{self.sites.index(site) + 1}"

    def command(self, site: str, words: Sequence[str]) -> list[str]:
        """A command that runs at a site. The process that is started becomes that command: its id is the same."""
        return ["ip", "netns", "exec", self.namespace(site), *words]

    # Links

    def set_rate(self, origin: str, site: str, bytes_s: float | None) -> None:
        """Bytes a second that a link lets through in one direction; None is as many as there are."""
        if bytes_s is None:
            self._remove_shape(origin, site)
            return
        room = max(6 * PACKET, round(bytes_s * QUEUED_S))
        burst = max(PACKET + 14, round(bytes_s / 250))
        self._shape(origin, site, f"{max(8, round(bytes_s * 8))}bit", burst, room)

    def cut(self, origin: str, site: str) -> None:
        """Both directions: packets vanish, as behind a router that is cut off."""
        self.cut_one_way(origin, site)
        self.cut_one_way(site, origin)

    def cut_one_way(self, origin: str, site: str) -> None:
        """Packets to a site vanish; those from it arrive."""
        self._shape(origin, site, "8bit", 1, 1)  # a packet that is larger than the burst is dropped

    def take_down(self, origin: str, site: str) -> None:
        """Both ends notice, and refuse to send."""
        run_tool("ip", "-n", self.namespace(origin), "link", "set", _device(site), "down")
        run_tool("ip", "-n", self.namespace(site), "link", "set", _device(origin), "down")

    def heal(self, origin: str, site: str) -> None:
        """Both directions let everything through."""
        for one, other in ((origin, site), (site, origin)):
            self._remove_shape(one, other)
            self._lead(one, other)

    def count_bytes(self, origin: str, site: str) -> int:
        """All that was sent over a link since the world began, with headers, as the kernel has counted it."""
        told = run_tool("ip", "-n", self.namespace(origin), "-j", "-s", "link", "show", "dev", _device(site))
        sent: int = json.loads(told)[0]["stats64"]["tx"]["bytes"]
        return sent

    def _join(self, one: str, other: str) -> None:
        latencies = [self.latency_s.get(ends, 0.0) for ends in ((one, other), (other, one))]
        here, there = self.namespace(one), self.namespace(other)
        if any(latencies):
            self._start_relay(one, other, latencies)
        else:
            ends = ["name", _device(one), "netns", there]
            run_tool("ip", "link", "add", _device(other), "netns", here, "type", "veth", "peer", *ends)
        for origin, site in ((one, other), (other, one)):
            self._lead(origin, site)

    def _start_relay(self, one: str, other: str, latencies: Sequence[float]) -> None:
        ends = [self.namespace(one), _device(other), self.namespace(other), _device(one)]
        words = [sys.executable, "-m", "bench.packet_relay", *ends, *map(str, latencies)]
        relay = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1])
        self._relays.append(relay)
        assert relay.stdout is not None
        if relay.stdout.readline() != b"ready\n":
            raise RuntimeError(f"no packets can be carried between {one} and {other}")

    def _lead(self, origin: str, site: str) -> None:
        """Has the way to a site lead over the link, which forgets it when it is taken down."""
        here, device = self.namespace(origin), _device(site)
        run_tool("ip", "-n", here, "link", "set", device, "up")
        way = [f"{self.address(site)}/32", "dev", device, "src", self.address(origin)]
        run_tool("ip", "-n", here, "route", "replace", *way)

    def _shape(self, origin: str, site: str, rate: str, burst: int, room: int) -> None:
        device = ["tc", "-n", self.namespace(origin), "qdisc", "replace", "dev", _device(site), "root"]
        run_tool(*device, "tbf", "rate", rate, "burst", f"{burst}b", "limit", f"{room}b")

    def _remove_shape(self, origin: str, site: str) -> None:
        # There is nothing to remove where it was not shaped, which is as well.
        words = ["tc", "-n", self.namespace(origin), "qdisc", "del", "dev", _device(site), "root"]
        subprocess.run(words, capture_output=True)


def _device(site: str) -> str:
    return f"to-{site}"[:15]


def remove_remains() -> None:
    """Removes worlds whose process is gone, with all that still runs in them."""
    gone = []
    for line in run_tool("ip", "netns", "list").splitlines():
        name = line.split()[0]
        match name.split("-", 3):
            case [prefix, pid, birth, _] if prefix == PREFIX and str(birth_of(int(pid))) != birth:
                gone.append(name)
    _remove_namespaces(gone)


def _remove_namespaces(names: Iterable[str]) -> None:
    there = {line.split()[0] for line in run_tool("ip", "netns", "list").splitlines()}
    for name in there.intersection(names):
        until = time.monotonic() + ENDED_WITHIN_S
        while (pids := run_tool("ip", "netns", "pids", name).split()) and time.monotonic() < until:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.05)
        run_tool("ip", "netns", "del", name)
