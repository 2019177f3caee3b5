"""A real broker for devices: nats-server with rights as devices have them, and a cloud that knows all of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from headrace.connect.free_port import free_port
from headrace.model.device_messages import (
    Document,
    Sent,
    Taken,
    TakeStream,
    down_topic,
    quote_id,
    read_document,
    read_hello,
    read_topic,
    sign,
    write_document,
    write_taken,
)
from tests.connect.device.cloud import Cloud

PROJECT = "town"


def token_of(device: str) -> str:
    return f"hrd_1_{device}"


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)
    return found


class Broker:
    """Keeps its port and its queues when it is killed and started again."""

    def __init__(self, folder: Path, devices: Sequence[str], certificate: tuple[Path, Path] | None = None) -> None:
        self.folder, self.devices, self._certificate = folder, devices, certificate
        self.port = free_port()
        self.start()

    @property
    def url(self) -> str:
        return f"{'mqtts' if self._certificate else 'mqtt'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        config = self.folder / "nats.conf"
        config.write_text(self._config())
        server = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or "nats-server"
        with (self.folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen([server, "-c", str(config)], stdout=log, stderr=log)
        wait_for(self._answers)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _config(self) -> str:
        users = []
        for device in self.devices:
            up, down = (f"hr.{PROJECT}.{way}.{quote_id(device)}" for way in ("up", "down"))
            rights = {"publish": [f"{up}.>"], "subscribe": [down, f"{down}.>", "$MQTT.sub.>"]}
            users.append({"user": quote_id(device), "password": token_of(device), "permissions": rights})
        users.append({"user": "cloud", "password": "cloud"})
        tls = ""
        if self._certificate:
            tls = f'tls {{ cert_file: "{self._certificate[0]}", key_file: "{self._certificate[1]}" }}'
        return (
            "server_name: test\nhost: 127.0.0.1\nport: -1\n"
            f'jetstream {{ store_dir: "{self.folder / "queues"}" }}\n'
            f"mqtt {{ host: 127.0.0.1, port: {self.port}, ack_wait: 5s, max_ack_pending: 1000\n {tls} }}\n"
            f"authorization {{ users = {json.dumps(users)} }}\n"
        )


class LiveCloud:
    """Acknowledges what devices send and passes their rows on, as documents say, in the plainest way."""

    def __init__(self, broker: Broker) -> None:
        self.devices = {device: Cloud() for device in broker.devices}
        self.gone: list[str] = []
        self._takers: dict[str, tuple[TakeStream, ...]] = {}
        self._told: dict[str, Document] = {}
        self._lock = threading.RLock()
        self._mqtt = mqtt.Client(CallbackAPIVersion.VERSION2, "cloud", clean_session=False, protocol=mqtt.MQTTv311)
        self._mqtt.username_pw_set("cloud", "cloud")
        if broker.url.startswith("mqtts"):
            self._mqtt.tls_set(str(broker.folder / "certificate.pem"))
        self._mqtt.reconnect_delay_set(1, 2)
        self._mqtt.on_connect = lambda client, *rest: client.subscribe(f"hr/{PROJECT}/up/#", qos=1) and None
        self._mqtt.on_message = lambda client, data, message: self._receive(message.topic, bytes(message.payload))
        self._mqtt.connect("127.0.0.1", broker.port)
        self._mqtt.loop_start()

    def tell(self, device: str, document: bytes) -> None:
        """A document that was signed for somebody is signed for this device."""
        told: Document = read_document(document)
        with self._lock:
            self._takers[device], self._told[device] = told.take, told
            self._publish_document(device)
            self._send_latest(device)

    def _publish_document(self, device: str) -> None:
        body = write_document(sign(self._told[device], token_of(device)))
        self._mqtt.publish(down_topic(PROJECT, device, "plan"), body, qos=1, retain=True)

    def _send_latest(self, device: str) -> None:
        for one in self._takers.get(device, ()):
            sent = self.devices[one.device].streams.get(one.stream) if one.device in self.devices else None
            last = sent[-1] if sent else Sent(0, 0, ())
            self._pass_on(device, Taken(one.device, one.stream, last))

    def close(self) -> None:
        self._mqtt.disconnect()
        self._mqtt.loop_stop()

    def _receive(self, topic: str, body: bytes) -> None:
        found = read_topic(topic)
        with self._lock:
            if found.rest == ("gone",):
                self.gone.append(found.device)
                return
            cloud = self.devices[found.device]
            if found.rest == ("hello",):  # what was sent before it was there is lost, perhaps its document as well
                if found.device in self._told and read_hello(body).plan < self._told[found.device].plan:
                    self._publish_document(found.device)
                self._send_latest(found.device)
            before = {stream: len(rows) for stream, rows in cloud.streams.items()}
            cloud.receive((topic, body))
            for stream, rows in cloud.streams.items():
                for sent in rows[before.get(stream, 0) :]:
                    for device, takes in self._takers.items():
                        if any((one.stream, one.device) == (stream, found.device) for one in takes):
                            self._pass_on(device, Taken(found.device, stream, sent))
            if cloud.last:
                acks = cloud.acks()[1]
                self._mqtt.publish(down_topic(PROJECT, found.device, "ack"), acks, qos=1)

    def _pass_on(self, device: str, taken: Taken) -> None:
        self._mqtt.publish(down_topic(PROJECT, device, "s"), write_taken([taken]), qos=1)


def rss_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
