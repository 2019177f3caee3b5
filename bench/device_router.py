"""What does the router cost on top of a broker that passes messages on by itself?

Devices in pairs: each sends its location, and its partner gets it. First over the broker and the router of a project,
where everything is also kept, acknowledged and written for a source; then over a broker alone, where each device
subscribes to its partner: at least once (QoS 1), and at most once (QoS 0).
Processor seconds and memory of broker and router; the devices' are left out.

    headrace bench device-router [--sessions 500] [--messages 857] [--seconds 30] [--seed 1]

`--messages` are those of rows per second, up and down together. At the end every partner must have the last row, and so
must the source.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.cpu import cpu_since, processes
from bench.device_mqtt import Session, open_session
from headrace.connect.mqtt.broker import BrokerSettings, EmbeddedBroker
from headrace.connect.mqtt.client import CloudClient
from headrace.connect.mqtt.users import BrokerUser
from headrace.connect.written.inbox import list_files, read_file
from headrace.model.device_messages import (
    Document,
    Sent,
    TakeStream,
    client_id_of,
    cloud_topic,
    down_topic,
    read_taken,
    up_topic,
    write_document,
    write_sent,
)
from headrace.site.devices.processes import DeviceProcesses
from headrace.site.devices.registry import find_tokens, set_members
from headrace.site.devices.router_settings import RoutedSourceFile, StreamFile
from headrace.site.folder import Folder
from headrace.site.journal import Journal
from headrace.site.troubles import Troubles

PROJECT, STREAM = "bench", "location"
COLUMNS = (("device", "bigint"), ("seq", "bigint"), ("at", "timestamp"), ("lat", "double"), ("lng", "double"))
READY_WITHIN_S = 60.0
SETTLED_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds per second, and MB at the end, by process; messages of rows per second, both ways."""

    cores: dict[str, float]
    megabytes: dict[str, float]
    messages_s: float

    @property
    def core(self) -> float:
        return sum(self.cores.values())

    @property
    def micros(self) -> float:
        """Processor microseconds per message."""
        return self.core / self.messages_s * 1e6


class World:
    """Devices in pairs, which note what they hear."""

    def __init__(self, count: int, rate_s: float, seconds: float, seed: int) -> None:
        self.devices = [str(number) for number in range(count)]
        self.rate_s, self.seconds, self.random = rate_s, seconds, random.Random(seed)
        self.sessions: list[Session] = []
        self.seq = [0] * count
        self.heard = [0] * count
        """The last number of its partner that each has heard."""
        self.messages = 0
        self.rows = 0

    def partner(self, number: int) -> int:
        return number ^ 1

    def hear(self, number: int, seq: int) -> None:
        self.heard[number] = max(self.heard[number], seq)
        self.rows += 1

    def send_one(self) -> None:
        number = self.random.randrange(len(self.devices))
        self.seq[number] += 1
        row = (self.random.uniform(39, 41), self.random.uniform(115, 117))
        body = write_sent((Sent(self.seq[number], round(time.time() * 1000), (row,)),))
        self.sessions[number].publish(up_topic(PROJECT, self.devices[number], "s", STREAM), body)
        self.messages += 1

    async def send(self) -> float:
        """Rows at an even pace; the seconds that it took."""
        began, sent = time.monotonic(), 0
        while (passed := time.monotonic() - began) < self.seconds:
            while sent < passed * self.rate_s:
                self.send_one()
                sent += 1
            await asyncio.sleep(0.01)
        return time.monotonic() - began

    async def settle(self) -> None:
        until = time.monotonic() + SETTLED_WITHIN_S
        while any(self.heard[self.partner(number)] != seq for number, seq in enumerate(self.seq)):
            if time.monotonic() > until:
                raise SystemExit("error: some partners did not get the last row")
            await asyncio.sleep(0.05)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    args = options.sessions // 2 * 2, options.messages / 2, options.seconds, options.seed
    with tempfile.TemporaryDirectory() as scratch:
        routed = _over_router(World(*args), Path(scratch) / "routed")
        plain = {qos: _over_broker(World(*args), Path(scratch) / f"plain{qos}", qos) for qos in (1, 0)}
    told = f"{options.messages:g} messages/s for {options.seconds:g} s, seed {options.seed}"
    print(f"{args[0]} sessions in pairs, {told}")
    print(f"{'':22}{'messages/s':>11}{'broker':>9}{'router':>9}{'together':>10}{'per message':>13}{'memory':>10}")
    print(_row("broker and router", routed))
    for qos, cost in plain.items():
        print(_row(f"broker alone, QoS {qos}", cost))
    ratios = ", ".join(f"{routed.micros / cost.micros:.2f} of QoS {qos}" for qos, cost in plain.items())
    print(f"ratio of processor time per message: {ratios}")
    print("every partner has the last row, and so has the source")


def _row(name: str, cost: Cost) -> str:
    shares = [f"{cost.cores[one]:.1%}" if one in cost.cores else "" for one in ("broker", "router")]
    memory = f"{sum(cost.megabytes.values()):.0f} MB"
    return (
        f"{name:22}{cost.messages_s:>11.0f}{shares[0]:>9}{shares[1]:>9}{cost.core:>10.1%}"
        f"{cost.micros:>10.0f} us{memory:>10}"
    )


def _over_router(world: World, directory: Path) -> Cost:
    folder = Folder(directory)
    folder.prepare()
    set_members(folder, {"phones": world.devices})
    kept = DeviceProcesses(folder, PROJECT, BrokerSettings(), Journal(), Troubles())
    inbox = directory / "inbox"
    source = RoutedSourceFile(inbox=inbox, columns=COLUMNS, key=("device",))
    kept.use((StreamFile(devices="phones", stream=STREAM, source=source),), ())
    with ExitStack() as stack:
        stack.enter_context(kept.running())
        _wait(lambda: len(kept.tell()) == 2 and all(one.state == "running" for one in kept.tell()))
        access = kept.access
        assert access is not None
        placer = CloudClient(access, "bench-placer", (cloud_topic(PROJECT, "rates"),))
        placer.start()
        stack.callback(placer.stop)
        for number, device in enumerate(world.devices):
            takes = (TakeStream(STREAM, world.devices[world.partner(number)], 0.0),)
            placer.publish(down_topic(PROJECT, device, "plan"), write_document(Document(1, take=takes)), retain=True)
        tokens = [one.token for one in find_tokens(folder, PROJECT, world.devices)]
        pids = {one.name: one.pid for one in kept.tell() if one.pid is not None}
        port = int(access.url.rpartition(":")[2])
        cost = asyncio.run(_run(world, pids, lambda number: _routed_session(world, number, port, tokens[number])))
        _check_source(world, inbox)
    return cost


def _routed_session(world: World, number: int, port: int, token: str) -> asyncio.Future[Session]:
    device = world.devices[number]
    rows_topic = down_topic(PROJECT, device, "s")

    def heard(topic: str, body: bytes) -> None:
        if topic == rows_topic:
            for one in read_taken(body):
                world.hear(number, one.sent.seq)

    subscription = down_topic(PROJECT, device) + "/#"
    return asyncio.ensure_future(open_session(port, device, token, client_id_of(token), subscription, 1, heard))


def _over_broker(world: World, directory: Path, qos: int) -> Cost:
    broker = EmbeddedBroker(directory)
    broker.start([BrokerUser("all", "all", (">",), (">",))])
    try:
        assert broker.pid is not None

        def open_one(number: int) -> asyncio.Future[Session]:
            def heard(_: str, body: bytes) -> None:
                world.hear(number, json.loads(body)[0][0])

            topic = up_topic(PROJECT, world.devices[world.partner(number)], "s", STREAM)
            return asyncio.ensure_future(open_session(broker.port, "all", "all", f"plain-{number}", topic, qos, heard))

        return asyncio.run(_run(world, {"broker": broker.pid}, open_one))
    finally:
        broker.stop()


async def _run(world: World, pids: dict[str, int], open_one: Callable[[int], asyncio.Future[Session]]) -> Cost:
    for number in range(len(world.devices)):
        world.sessions.append(await open_one(number))
    await asyncio.sleep(1.0)
    before, rows = {name: processes(pid) for name, pid in pids.items()}, world.rows
    took_s = await world.send()
    cores = {name: cpu_since(before[name], pid) / took_s for name, pid in pids.items()}
    down = world.rows - rows
    await world.settle()
    megabytes = {name: _resident_mb(pid) for name, pid in pids.items()}
    for session in world.sessions:
        session.close()
    return Cost(cores, megabytes, (world.messages + down) / took_s)


def _check_source(world: World, inbox: Path) -> None:
    """What the inbox's files come to is the last row of each device."""

    def is_there() -> bool:
        last: dict[int, int] = {}
        for name in list_files(inbox, 1_000_000):
            rows = read_file(inbox, name)
            last.update(zip(rows.column("device").to_pylist(), rows.column("seq").to_pylist(), strict=True))
        return last == {number: seq for number, seq in enumerate(world.seq) if seq}

    _wait(is_there)


def _wait(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + READY_WITHIN_S
    while not holds():
        if time.monotonic() > until:
            raise SystemExit(f"error: not ready after {READY_WITHIN_S:g} s")
        time.sleep(0.1)


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench device-router", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--messages", type=float, default=857.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
