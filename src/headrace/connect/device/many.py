"""Many devices in one process: each has its own session, engine and outbox, and all share one thread.

It is for measuring and for demonstrations: the same agent as a device's own process runs, with the broker between. One
lock guards all of them, so `publish` may be called from any thread; it returns when the row is kept.
"""

from __future__ import annotations

import heapq
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.connect.device.address import BrokerAddress, identify, read_address
from headrace.connect.device.outbox import open_outbox
from headrace.connect.device.packets import Publication
from headrace.connect.device.session import MqttSession, SessionCounts, SessionState
from headrace.meaning.evaluate import Python
from headrace.model.device_messages import quote_id
from headrace.model.errors import UsageError
from headrace.model.wire_values import Json
from headrace.run.device.agent import Agent, Result

TICK_S = 0.5
"""How often a device looks at its clock."""
MOST_CONNECTING, SOON_S = 200, 0.02

OnDeviceResult = Callable[[str, Result], None]
TellOf = Callable[[str, str], None]


@dataclass(slots=True)
class _Member:
    agent: Agent
    session: MqttSession
    is_away: bool = False
    registered: tuple[socket.socket, int] | None = None


class ManyDevices:
    """`on_result` and `tell` are called with the id of the device, one at a time.

    `state` is a folder in which each device has its own; without one, what devices keep is gone when they end.
    """

    def __init__(
        self,
        broker: str,
        project: str | None = None,
        state: Path | None = None,
        on_result: OnDeviceResult | None = None,
        tell: TellOf | None = None,
        functions: Python | None = None,
    ) -> None:
        address = read_address(broker)
        if address.tls:
            raise UsageError("many devices in one process do not use TLS", "give an address on this machine")
        self._address = BrokerAddress(address.host, address.port, False, project or address.project)
        self._state, self._functions = state, functions
        self._on_result = on_result or (lambda device, result: None)
        self._tell = tell or (lambda device, text: None)
        self._members: dict[str, _Member] = {}
        self._due: list[tuple[float, str]] = []
        self._lock = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_out, False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="many devices", daemon=True)
        self._is_ending = False

    def add(self, device: str, token: str) -> None:
        """Has a device connect, soon after `start`."""
        identity = identify(device, self._address, token)
        folder = None if self._state is None else self._state / quote_id(device)
        agent = Agent(identity, open_outbox(folder), self._functions, _now_ms())
        session = MqttSession(identity, self._address, agent.subscriptions(), agent.last_will())
        with self._lock:
            self._members[device] = _Member(agent, session)
            heapq.heappush(self._due, (time.monotonic(), device))
        self._wake()

    def start(self) -> None:
        self._thread.start()

    def wait_connected(self, seconds: float) -> bool:
        """Whether all devices that are not unplugged are connected, at the latest after this long."""
        return self._wait(seconds, lambda one: one.is_away or one.session.state is SessionState.READY)

    def wait_idle(self, seconds: float) -> bool:
        """Whether the cloud has all that devices have to send, at the latest after this long."""
        return self._wait(seconds, lambda one: one.agent.is_idle)

    def publish(self, device: str, stream: str, row: Json, at_ms: int | None = None) -> None:
        """Returns when the row is kept. Raises `WireError` if it does not fit its stream."""
        with self._lock:
            member = self._members[device]
            member.agent.publish(stream, row, at_ms, _now_ms())
            self._flush(device, member, time.monotonic())

    def unplug(self, device: str) -> None:
        """The device is out of reach: its session ends without a word."""
        with self._lock:
            member = self._members[device]
            member.is_away = True
            member.session.drop()
            member.agent.disconnect()
            self._follow(device, member)

    def plug_in(self, device: str) -> None:
        with self._lock:
            self._members[device].is_away = False
            self._members[device].session.retry_s = 0.0
        self._wake()

    def plans(self) -> dict[str, int]:
        """The numbers of the documents that run."""
        with self._lock:
            return {device: member.agent.plan for device, member in self._members.items()}

    def counts(self) -> SessionCounts:
        """All sessions together."""
        with self._lock:
            each = [member.session.counts for member in self._members.values()]
        return SessionCounts(
            sum(one.sent for one in each),
            sum(one.sent_bytes for one in each),
            sum(one.received for one in each),
            sum(one.received_bytes for one in each),
        )

    def stop(self) -> None:
        """All devices say that they are gone."""
        self._is_ending = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            for member in self._members.values():
                member.session.leave(time.monotonic())
                member.agent.close()
            self._selector.close()
            os.close(self._wake_out)
            os.close(self._wake_in)

    # The thread

    def _run(self) -> None:
        while not self._is_ending:
            with self._lock:
                wait_s = self._due[0][0] - time.monotonic() if self._due else TICK_S
            ready = self._selector.select(max(0.0, min(wait_s, TICK_S)))
            with self._lock:
                now_s = time.monotonic()
                for key, events in ready:
                    if key.data is None:
                        os.read(self._wake_out, 4096)
                    else:
                        self._serve(key.data, events, now_s)
                self._look_at_clocks(now_s)

    def _serve(self, device: str, events: int, now_s: float) -> None:
        member = self._members[device]
        session, was, subscribed = member.session, member.session.state, member.session.subscribed
        if session.socket is None:
            return
        if events & selectors.EVENT_WRITE:
            session.write(now_s)
        if events & selectors.EVENT_READ and session.socket is not None:
            session.read(now_s, lambda found: self._receive(member, found))
        self._note_state(device, member, was)
        if session.subscribed > subscribed:
            member.agent.note_subscribed()
        self._flush(device, member, now_s)

    def _receive(self, member: _Member, found: Publication) -> None:
        plan = member.agent.plan
        member.agent.receive(found.topic, found.payload, _now_ms())
        if member.agent.plan != plan:
            member.session.subscribe(member.agent.subscriptions(), time.monotonic())

    def _note_state(self, device: str, member: _Member, was: SessionState) -> None:
        state = member.session.state
        if state is SessionState.READY and was is not SessionState.READY:
            member.agent.connect(member.session.is_known)
        elif state is SessionState.AWAY and was is not SessionState.AWAY:
            member.agent.disconnect()
            self._tell(device, member.session.failure)

    def _look_at_clocks(self, now_s: float) -> None:
        if not self._due or self._due[0][0] > now_s:
            return
        connecting = sum(one.session.is_connecting for one in self._members.values())
        while self._due and self._due[0][0] <= now_s:
            _, device = heapq.heappop(self._due)
            member = self._members[device]
            session, was = member.session, member.session.state
            if session.state is not SessionState.AWAY:
                session.look_at_clock(now_s)
            elif not member.is_away and session.retry_s <= now_s:
                if connecting >= MOST_CONNECTING:
                    heapq.heappush(self._due, (now_s + SOON_S, device))
                    continue
                session.will = member.agent.begin_connection(_now_ms())
                session.connect(now_s)
                connecting += 1
            member.agent.tick(_now_ms())
            self._note_state(device, member, was)
            self._flush(device, member, now_s)
            heapq.heappush(self._due, (now_s + TICK_S, device))

    def _flush(self, device: str, member: _Member, now_s: float) -> None:
        """Results to whoever listens, messages to the broker."""
        agent, session = member.agent, member.session
        if session.state is SessionState.READY:
            session.send(agent.outgoing(_now_ms()), now_s)
            self._note_state(device, member, SessionState.READY)
        self._follow(device, member)
        if agent.told:
            told, agent.told = agent.told, []
            for text in told:
                self._tell(device, text)
        if agent.results:
            results, agent.results = agent.results, []
            for result in results:
                self._on_result(device, result)

    def _follow(self, device: str, member: _Member) -> None:
        """Has the selector wait for what the session waits for."""
        wanted = None
        session = member.session
        if session.socket is not None:
            writing = selectors.EVENT_WRITE if session.wants_to_write else 0
            wanted = (session.socket, selectors.EVENT_READ | writing)
        if wanted == member.registered:
            return
        if member.registered is not None and (wanted is None or wanted[0] is not member.registered[0]):
            self._selector.unregister(member.registered[0])
            member.registered = None
        if wanted is not None:
            change = self._selector.register if member.registered is None else self._selector.modify
            change(wanted[0], wanted[1], device)
        member.registered = wanted

    def _wait(self, seconds: float, holds: Callable[[_Member], bool]) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self._lock:
                if all(map(holds, self._members.values())):
                    return True
            time.sleep(0.05)
        return False

    def _wake(self) -> None:
        os.write(self._wake_in, b"!")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
