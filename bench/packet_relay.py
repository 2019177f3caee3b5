"""Carries packets between two network namespaces, each after a latency: a link of `world_of_sites.py`.

    python -m bench.packet_relay NAMESPACE DEVICE NAMESPACE DEVICE LATENCY LATENCY

Makes a tun device in each namespace and says `ready`. Packets arrive in the order in which they were sent. The devices
are gone with this process.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque
from pathlib import Path

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
LARGEST = 65536
MOST_WAITING = 4000
"""Packets on their way in one direction: what comes on top is lost, as in a queue of a router."""


def open_device(namespace: str, name: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/var/run/netns/{namespace}").open() as there:
        if libc.setns(there.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def carry(one: int, other: int, latencies: tuple[float, float]) -> None:
    ways = {one: (other, latencies[0], deque[tuple[float, bytes]]()), other: (one, latencies[1], deque())}
    while True:
        now = time.monotonic()
        due = [waiting[0][0] for _, _, waiting in ways.values() if waiting]
        for origin in select.select([one, other], [], [], max(0.0, min(due) - now) if due else None)[0]:
            _, latency, waiting = ways[origin]
            while (packet := _read(origin)) is not None:
                if len(waiting) < MOST_WAITING:
                    waiting.append((time.monotonic() + latency, packet))
        now = time.monotonic()
        for target, _, waiting in ways.values():
            while waiting and waiting[0][0] <= now:
                _write(target, waiting.popleft()[1])


def _read(device: int) -> bytes | None:
    try:
        return os.read(device, LARGEST)
    except BlockingIOError:
        return None
    except OSError:  # the device is down
        return None


def _write(device: int, packet: bytes) -> None:
    try:
        os.write(device, packet)
    except OSError:
        return  # the device is down, or its queue full: the packet is lost


def main() -> None:
    here, to_there, there, to_here, *latencies = sys.argv[1:]
    devices = open_device(here, to_there), open_device(there, to_here)
    print("ready", flush=True)
    carry(*devices, (float(latencies[0]), float(latencies[1])))


if __name__ == "__main__":
    main()
