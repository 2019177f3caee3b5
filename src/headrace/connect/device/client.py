"""A device at its broker: one MQTT 3.1.1 session that the broker keeps while the device is away.

Rows are taken and results are told whether there is a connection or not; what is to be sent waits in the outbox. Three
threads take turns with one lock: whoever publishes, paho's, and one that looks at the clock. Messages are sent while
the lock is held, so they leave in the order in which the agent says them.
"""

from __future__ import annotations

import ssl
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from headrace.connect.device.address import BrokerAddress
from headrace.meaning.evaluate import Python
from headrace.model.device_messages import client_id_of, quote_id
from headrace.model.errors import ConnectError
from headrace.model.wire_values import Json
from headrace.run.device.agent import Agent, Identity, Result, Subscription
from headrace.run.device.store import DeviceStore

KEEP_ALIVE_S = 60
TICK_S = 0.1
SOONEST_S, LATEST_S = 1, 60
"""Between two attempts to connect."""
MOST_AT_ONCE = 100
CLOSED_WITHIN_S = 5.0
TOKENS = "its id, token and project must be those of `headrace devices tokens`; it goes on trying"

OnFailure = Callable[[ConnectError], None]
OnResult = Callable[[Result], None]
Tell = Callable[[str], None]


class DeviceClient:
    """`on_result` and `tell` are called one at a time, and may publish. Use `close` to leave in order.

    `on_failure` is called once, in a thread of ours, if the device cannot go on: it has left the broker then.
    """

    def __init__(
        self,
        identity: Identity,
        address: BrokerAddress,
        store: DeviceStore,
        on_result: OnResult,
        tell: Tell,
        functions: Python | None = None,
        ca_file: str | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        self._identity, self._address = identity, address
        self._on_result, self._tell, self._on_failure = on_result, tell, on_failure
        self._lock, self._ending = threading.RLock(), threading.Event()
        self._said_last = ""
        self._greeting: int | None = None
        self._wanted: tuple[Subscription, ...] = ()
        self._subscribed: tuple[Subscription, ...] | None = None
        self._changing: int | None = None
        self._is_known = True
        self._failure: ConnectError | None = None
        self._agent = Agent(identity, store, functions, _now_ms())
        self._mqtt = self._make_client(ca_file)
        self._clock = threading.Thread(target=self._watch_clock, name="clock of the device", daemon=True)

    def start(self) -> None:
        """Connects, now or whenever that is possible."""
        with self._lock:
            self._hand_over()
        self._mqtt.connect_async(self._address.host, self._address.port, KEEP_ALIVE_S)
        self._mqtt.loop_start()
        self._clock.start()

    def publish(self, stream: str, row: Json, at_ms: int | None = None) -> None:
        """Returns when the row is kept. Raises `WireError` if it does not fit its stream."""
        self._do(lambda now_ms: self._agent.publish(stream, row, at_ms, now_ms))

    def wait_idle(self, seconds: float) -> bool:
        """Whether all that was to be sent is in the cloud, at the latest after this long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self._lock:
                if self._agent.is_idle:
                    return True
            time.sleep(TICK_S / 5)
        return False

    @property
    def waiting_bytes(self) -> int:
        with self._lock:
            return self._agent.waiting_bytes

    @property
    def plan(self) -> int:
        with self._lock:
            return self._agent.plan

    def close(self) -> None:
        """Says that the device is gone, and ends. What was not sent stays in the outbox."""
        if self._ending.is_set():
            return
        self._ending.set()
        if self._clock.is_alive() and self._clock is not threading.current_thread():
            self._clock.join()
        with self._lock:
            self._agent.disconnect()
            if self._mqtt.is_connected():
                info = self._mqtt.publish(*self._agent.last_will(), qos=1)
        if self._mqtt.is_connected():
            # paho's thread delivers it, and needs the lock for whatever comes in meanwhile
            info.wait_for_publish(CLOSED_WITHIN_S)
        self._mqtt.disconnect()
        self._mqtt.loop_stop()
        with self._lock:
            self._agent.close()

    # Inside

    def _make_client(self, ca_file: str | None) -> mqtt.Client:
        made = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id_of(self._identity.token),
            clean_session=False,
            protocol=mqtt.MQTTv311,
        )
        made.username_pw_set(quote_id(self._identity.device), self._identity.token)
        if self._address.tls:
            made.tls_set_context(_tls(ca_file))
        made.max_inflight_messages_set(MOST_AT_ONCE)
        made.reconnect_delay_set(SOONEST_S, LATEST_S)
        made.on_pre_connect = self._on_pre_connect
        made.on_connect, made.on_disconnect = self._on_connect, self._on_disconnect
        made.on_connect_fail = self._on_connect_fail
        made.on_subscribe, made.on_message = self._on_subscribe, self._on_message
        return made

    def _do(self, work: Callable[[int], None]) -> None:
        """One event, then what it gave: results to the app, messages to the broker."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            now_ms = _now_ms()
            try:
                work(now_ms)
                out = self._agent.outgoing(now_ms)
            except ConnectError as error:
                self._failure = error
                self._leave()
                raise
            for topic, body in out:
                self._mqtt.publish(topic, body, qos=1)
            self._subscribe_changes()
            self._hand_over()

    def _subscribe_changes(self) -> None:
        """A document may ask for other streams than the one before."""
        wanted = self._agent.subscriptions()
        if self._subscribed is not None and wanted != self._subscribed:
            changed = [one for one in wanted if one not in self._subscribed]
            self._subscribed = wanted
            self._changing = self._mqtt.subscribe(changed)[1]

    def _hand_over(self) -> None:
        results, self._agent.results = self._agent.results, []
        told, self._agent.told = self._agent.told, []
        for text in told:
            self._tell(text)
        for result in results:
            self._on_result(result)

    def _watch_clock(self) -> None:
        while self._failure is None and not self._ending.wait(TICK_S):
            self._quietly(self._agent.tick)

    def _quietly(self, work: Callable[[int], None]) -> None:
        """An event in a thread of ours, where nobody would see an error: it is told, and whoever publishes gets it."""
        if self._failure is not None:
            return
        try:
            self._do(work)
        except Exception as error:
            if self._ending.is_set():
                return
            known = error if isinstance(error, ConnectError) else ConnectError(f"the device fails: {error!r}")
            with self._lock:
                self._failure = known
            self._leave()
            if self._on_failure is None:
                self._tell(f"the device stops: {known}")
            else:
                self._on_failure(known)

    def _leave(self) -> None:
        """A device that cannot keep anything takes nothing: the broker, and so the cloud, is told that it is gone."""
        self._agent.disconnect()
        if self._mqtt.is_connected():
            self._mqtt.publish(*self._agent.last_will(), qos=1)
            self._mqtt.disconnect()

    def _on_pre_connect(self, client: mqtt.Client, data: Any) -> None:
        with self._lock:
            topic, body = self._agent.begin_connection(_now_ms())
        client.will_set(topic, body, qos=1)

    def _on_connect(self, client: mqtt.Client, data: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        if reason.is_failure:
            self._say_once(f"the broker refuses the device: {str(reason).lower()}")
            return
        with self._lock:
            self._is_known = bool(flags.session_present)
            wanted = self._agent.subscriptions()
            self._greeting = client.subscribe(list(wanted))[1]
            self._wanted = wanted

    def _on_subscribe(self, client: mqtt.Client, data: Any, mid: int, codes: list[ReasonCode], properties: Any) -> None:
        if any(code.is_failure for code in codes):
            topics = ", ".join(topic for topic, _ in self._agent.subscriptions())
            self._say_once(f"the broker does not let the device read all of {topics}")
        elif mid == self._greeting:
            self._said_last = ""
            with self._lock:
                self._subscribed = self._wanted
            self._quietly(lambda now_ms: self._agent.connect(self._is_known))
        elif mid == self._changing:
            self._quietly(lambda now_ms: self._agent.note_subscribed())

    def _on_connect_fail(self, client: mqtt.Client, data: Any) -> None:
        why = sys.exc_info()[1]  # paho calls this where it caught the error
        where = f"{self._address.host}, port {self._address.port}"
        self._say_once(f"the broker at {where} cannot be reached: {why}", "rows are kept meanwhile; it goes on trying")

    def _say_once(self, text: str, hint: str = TOKENS) -> None:
        """Says something unless it was the last that was said since a connection."""
        if text != self._said_last:
            self._said_last = text
            with self._lock:
                self._tell(f"{text}\n  hint: {hint}")

    def _on_disconnect(self, client: mqtt.Client, data: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        with self._lock:
            self._subscribed = None
            self._agent.disconnect()

    def _on_message(self, client: mqtt.Client, data: Any, message: mqtt.MQTTMessage) -> None:
        self._quietly(lambda now_ms: self._agent.receive(message.topic, bytes(message.payload), now_ms))


def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConnectError(
            f'the certificates in "{ca_file}" cannot be read: {error}', "give a file in PEM with --ca"
        ) from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
