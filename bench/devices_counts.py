"""Counts every message at the broker, by kind: a reader of its own beside the router, which it is compared with.

It signs in as a part of the cloud does, with the password of this run (`broker.conf`), and reads all topics of the
project. Bytes are those of MQTT packets: fixed header, topic, number and body of each PUBLISH, and its PUBACK.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bench.devices_report import Counted
from headrace.model.device_messages import ROOT, quote_id

USER = "~placer"
CONNECTED_WITHIN_S = 30.0
PASSWORD = re.compile(r'user: "' + re.escape(USER) + r'", password: "([^"]+)"')
PUBACK_BYTES = 4


def packet_bytes(topic: str, body: bytes) -> int:
    """A PUBLISH of QoS 1 and its PUBACK."""
    rest = 2 + len(topic.encode()) + 2 + len(body)
    length = 1 if rest < 128 else 2 if rest < 16_384 else 3 if rest < 2_097_152 else 4
    return 1 + length + rest + PUBACK_BYTES


@dataclass
class Deployed:
    """When a device was first told what to do, and when it said that it does; seconds of `time.monotonic`."""

    told_s: dict[str, float] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    bytes: int = 0
    documents: int = 0


class BrokerCount:
    """Counts from `start` on. `up` and `down` are messages by kind: `s`, `r`, and each control message by its name."""

    def __init__(self, project: str, config: Path, port: int) -> None:
        self._project, self._config, self._port = project, config, port
        self._lock = threading.Lock()
        self._connected = threading.Event()
        self._messages: Counter[tuple[str, str]] = Counter()
        self._bytes: Counter[str] = Counter()
        self.deployed = Deployed()
        self.rates: dict[str, Any] = {}
        self.last_at = time.monotonic()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"count-{id(self)}")
        self._client.on_connect = self._subscribe
        self._client.on_connect_fail = lambda *_: self._sign_in()
        self._client.on_disconnect = lambda *_: self._sign_in()
        self._client.on_message = self._count
        self._client.reconnect_delay_set(1, 2)

    def start(self) -> None:
        self._sign_in()
        self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        if not self._connected.wait(CONNECTED_WITHIN_S):
            raise TimeoutError(f"the broker was not reached within {CONNECTED_WITHIN_S:g} s")

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def look(self) -> Counted:
        """All messages until now."""
        with self._lock:
            seen, size = dict(self._messages), dict(self._bytes)

        def add(direction: str, is_counted: Callable[[str], bool]) -> int:
            return sum(number for (way, kind), number in seen.items() if way == direction and is_counted(kind))

        return Counted(
            s_up=add("up", lambda kind: kind == "s"),
            s_down=add("down", lambda kind: kind == "s"),
            r_up=add("up", lambda kind: kind == "r"),
            control_up=add("up", lambda kind: kind not in ("s", "r")),
            control_down=add("down", lambda kind: kind != "s"),
            bytes_up=size.get("up", 0),
            bytes_down=size.get("down", 0),
        )

    def reset_deployed(self) -> None:
        with self._lock:
            self.deployed = Deployed()

    def publish_as_other(self, topic: str, body: bytes, user: str, password: str) -> None:
        """What a device that is somebody else's would send."""
        other = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"other-{user}")
        other.username_pw_set(user, password)
        other.connect("127.0.0.1", self._port)
        other.loop_start()
        other.publish(topic, body, 1).wait_for_publish(5)
        other.disconnect()
        other.loop_stop()

    # The client's own thread

    def _sign_in(self) -> None:
        """The password is another one after the service was started again."""
        try:
            found = PASSWORD.search(self._config.read_text())
        except OSError:
            return
        if found is not None:
            self._client.username_pw_set(USER, found[1])

    def _subscribe(self, client: mqtt.Client, *_: Any) -> None:
        client.subscribe(f"{ROOT}/{quote_id(self._project)}/#", 0)
        self._connected.set()

    def _count(self, _client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:
        if message.retain:  # an earlier document, told because this reader is new
            return
        levels = message.topic.split("/")
        way, who = levels[2], levels[3]
        now = time.monotonic()
        with self._lock:
            self.last_at = now
            if way == "cloud":
                if who == "rates":
                    self.rates = json.loads(message.payload)
                return
            kind = levels[4]
            size = packet_bytes(message.topic, bytes(message.payload))
            self._messages[way, kind] += 1
            self._bytes[way] += size
            self._note_deployed(way, who, kind, size, now)

    def _note_deployed(self, way: str, who: str, kind: str, size: int, now: float) -> None:
        if (way, kind) == ("down", "plan"):
            self.deployed.told_s.setdefault(who, now)
            self.deployed.documents += 1
            self.deployed.bytes += size
        elif (way, kind) == ("up", "took"):
            self.deployed.took_s[who] = now
