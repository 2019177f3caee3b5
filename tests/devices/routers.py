"""A real broker and a real router process over a project's folder, and devices that send again until acknowledged."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.connect.mqtt.broker import EmbeddedBroker
from headrace.connect.mqtt.users import PLACER, ROUTER, cloud_user, device_user
from headrace.connect.written.inbox import DELETE, OPERATION, list_files, read_file
from headrace.model.device_messages import (
    NO_MORE,
    Document,
    Reported,
    Sent,
    client_id_of,
    down_topic,
    quote_id,
    read_acks,
    read_taken,
    up_topic,
    write_document,
    write_reported,
    write_sent,
)
from headrace.run.rows.arrow import rows_of_arrow
from headrace.site.devices.registry import find_tokens, set_members
from headrace.site.folder import Folder
from headrace.site.process import module_command
from tests.devices.clients import Client, open_client, wait_for

PROJECT = "city"
PASSWORD = "of this run"
STREAM = [["device", "bigint"], ["seq", "bigint"], ["at", "timestamp"], ["x", "double"], ["note", "string"]]
SPOT = [["device", "bigint"], ["position", "bigint"], ["name", "string"]]
REPORTED = [["reporter", "bigint"], ["a", "bigint"], ["b", "bigint"], ["row_id", "string"], ["near", "double"]]
MODULE = "headrace.site.devices.router"
BEGAN_MS = time.time_ns() // 1_000_000
"""Rows of `keep` streams are from after this: older ones are deleted."""


@dataclass
class RouterWorld:
    """Devices 1 to `count` with a latest-row stream `location`, a `keep` stream `visits` and a derived stream `spot`;
    and a template `near`.
    """

    directory: Path
    broker: EmbeddedBroker
    count: int
    router: subprocess.Popen[bytes] | None = None
    beats: list[dict[str, Any]] = field(default_factory=list)
    url: str | None = None
    """Of another broker than our own."""

    @property
    def folder(self) -> Folder:
        return Folder(self.directory)

    @property
    def devices(self) -> list[str]:
        return [str(number) for number in range(1, self.count + 1)]

    def inbox(self, name: str) -> Path:
        return self.directory / "inboxes" / name

    def start_broker(self) -> None:
        tokens = find_tokens(self.folder, PROJECT, self.devices)
        users = [device_user(PROJECT, one.device, one.token) for one in tokens]
        self.broker.start([*(cloud_user(PROJECT, name, PASSWORD) for name in (ROUTER, PLACER)), *users])

    def settings(self) -> dict[str, Any]:
        def source(name: str, columns: list[list[str]], *key: str) -> dict[str, Any]:
            return {"inbox": str(self.inbox(name)), "columns": columns, "key": list(key)}

        return {
            "project": PROJECT,
            "directory": str(self.directory),
            "broker": {
                "url": self.url or self.broker.url,
                "user": ROUTER,
                "password": PASSWORD,
                "log": str(self.broker.log_file),
            },
            "streams": [
                {"devices": "phones", "stream": "location", "source": source("location", STREAM, "device")},
                {
                    "devices": "phones",
                    "stream": "visits",
                    "keep_s": 3600.0,
                    "source": source("visits", STREAM, "device", "seq"),
                },
                {
                    "devices": "phones",
                    "stream": "spot",
                    "derived": True,
                    "source": source("spot", SPOT, "device", "position"),
                },
            ],
            "templates": [
                {"template": "near", "sides": 2, "source": source("near", REPORTED, "reporter", "a", "b", "row_id")}
            ],
        }

    def start_router(self) -> None:
        with (self.directory / "router.log").open("ab") as output:
            self.router = subprocess.Popen(
                module_command(MODULE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output
            )
        assert self.router.stdin is not None
        self.router.stdin.write(json.dumps(self.settings()).encode() + b"\n")
        self.router.stdin.flush()
        threading.Thread(target=self._hear, args=(self.router,), daemon=True).start()

    def _hear(self, router: subprocess.Popen[bytes]) -> None:
        assert router.stdout is not None
        with suppress(ValueError, OSError):
            for line in router.stdout:
                self.beats.append(json.loads(line))

    def wait_connected(self) -> None:
        self.beats.clear()
        wait_for(lambda: any(beat.get("connected") for beat in list(self.beats)), "the router is connected")

    def kill_router(self) -> None:
        assert self.router is not None
        self.router.kill()
        self._close_router()

    def end_router(self) -> int:
        """As the service ends it: its input ends."""
        assert self.router is not None and self.router.stdin is not None
        self.router.stdin.close()
        status = self.router.wait(20)
        self._close_router()
        return status

    def _close_router(self) -> None:
        assert self.router is not None
        self.router.wait()
        for pipe in (self.router.stdin, self.router.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self.router = None

    def net_rows(self, name: str, key: Sequence[int]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """What the files in an inbox come to, applied in order: rows by key."""
        rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for file in list_files(self.inbox(name), 1_000_000):
            table = read_file(self.inbox(name), file)
            operations = table.column(OPERATION).to_pylist()
            for row, operation in zip(rows_of_arrow(table.drop_columns([OPERATION])), operations, strict=True):
                found = tuple(row[position] for position in key)
                if operation == DELETE:
                    rows.pop(found, None)
                else:
                    rows[found] = row
        return rows

    def publish_document(self, cloud: Client, device: str, document: Document) -> None:
        cloud.publish(down_topic(PROJECT, device, "plan"), write_document(document), retain=True)


@contextmanager
def router_world(directory: Path, count: int = 3) -> Iterator[RouterWorld]:
    world = RouterWorld(directory, EmbeddedBroker(directory / ".headrace" / "devices"), count)
    set_members(world.folder, {"phones": world.devices})
    world.start_broker()
    world.start_router()
    try:
        world.wait_connected()
        yield world
    finally:
        if world.router is not None:
            world.end_router()
        world.broker.stop()


class TestDevice:
    """A device that keeps numbered messages until they are acknowledged, and sends them again from the oldest."""

    __test__ = False

    def __init__(self, world: RouterWorld, device: str, resend_s: float = 1.0) -> None:
        self.world, self.device, self._resend_s = world, device, resend_s
        (token,) = find_tokens(world.folder, PROJECT, (device,))
        self.token = token.token
        self.waiting: dict[str, dict[int, bytes]] = {}
        self.numbers: dict[str, int] = {}
        self._sent_s: dict[str, float] = {}
        self.client = self._sign_in()

    def _sign_in(self) -> Client:
        client = open_client(
            self.world.url or self.world.broker.url,
            quote_id(self.device),
            self.token,
            client_id=client_id_of(self.token),
            will=up_topic(PROJECT, self.device, "gone"),
        )
        assert client.subscribe(down_topic(PROJECT, self.device) + "/#")
        return client

    def put(self, queue: str, body_of: Any, step: int = 1) -> int:
        """RowNumbers something, and sends it."""
        number = self.numbers[queue] = self.numbers.get(queue, 0) + step
        self.waiting.setdefault(queue, {})[number] = body_of(number)
        self._publish(queue, self.waiting[queue][number])
        return number

    def visit(self, x: float, step: int = 1) -> int:
        return self.put("visits", lambda seq: write_sent([Sent(seq, BEGAN_MS + seq, ((x, "v"),))]), step)

    def move(self, x: float) -> int:
        return self.put("location", lambda seq: write_sent([Sent(seq, 1000 + seq, ((x, None),))]))

    def report(self, other: str, weight: int, near: float, copy: int = 0) -> int:
        pair = (self.device, other)
        return self.put("r/near", lambda seq: write_reported([Reported(seq, 1000 + seq, pair, weight, copy, (near,))]))

    def _publish(self, queue: str, body: bytes) -> None:
        kind = ("r", queue.removeprefix("r/")) if queue.startswith("r/") else ("s", queue)
        self.client.mqtt.publish(up_topic(PROJECT, self.device, *kind), body, 0)
        self._sent_s.setdefault(queue, time.monotonic())

    def hear(self) -> None:
        """Forgets what was acknowledged, and sends again what was not in time."""
        for body in self.client.bodies(down_topic(PROJECT, self.device, "ack")):
            for queue, seq in read_acks(body).items():
                before = self.waiting.get(queue, {})
                self.waiting[queue] = {number: body for number, body in before.items() if number > seq}
                if len(self.waiting[queue]) < len(before):
                    self._sent_s.pop(queue, None)
        for queue, waiting in self.waiting.items():
            if waiting and time.monotonic() - self._sent_s.get(queue, 0.0) > self._resend_s:
                self._sent_s[queue] = time.monotonic()
                for number in sorted(waiting):
                    self._publish(queue, waiting[number])
        if self.client.ended:
            self.reconnect()

    def reconnect(self) -> None:
        self.close()
        with suppress(OSError, AssertionError):
            self.client = self._sign_in()
            for queue, waiting in self.waiting.items():
                for number in sorted(waiting):
                    self._publish(queue, waiting[number])

    def settle(self, within_s: float = 60.0) -> None:
        """Returns when everything was acknowledged."""

        def is_acknowledged() -> bool:
            self.hear()
            return not any(self.waiting.values())

        wait_for(is_acknowledged, f"device {self.device} is acknowledged", within_s)

    def taken(self) -> list[tuple[str, str, int]]:
        """What came down: device, stream and number."""
        bodies = self.client.bodies(down_topic(PROJECT, self.device, "s"))
        found = (one for body in bodies for one in read_taken(body) if one.sent != NO_MORE)
        return [(one.device, one.stream, one.sent.seq) for one in found]

    def close(self) -> None:
        self.client.mqtt.disconnect()
        self.client.mqtt.loop_stop()

    def vanish(self) -> None:
        """Its connection is lost: the broker tells its last will."""
        connection: Any = self.client.mqtt.socket()
        assert connection is not None
        self.client.mqtt.loop_stop()
        with suppress(OSError):
            connection.shutdown(2)
