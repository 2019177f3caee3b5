"""Looks at a broker of somebody else's: whether we may use it, and what one should know of it."""

from __future__ import annotations

import threading
from typing import Any

from headrace.connect.mqtt.client import BrokerAccess, make_tls, read_address
from headrace.connect.shared_port import is_loopback
from headrace.model.errors import Problem, Severity

ANSWERS_WITHIN_S = 10.0
TOLD_WITHIN_S = 1.0
VERSION = "$SYS/broker/version"
"""Where Mosquitto says what it is, to those who may read it."""


def look_at_broker(url: str, user: str, password: str, certificate: str | None = None) -> list[Problem]:
    """All findings; none if there is nothing to say. Waits for some seconds."""
    host, port, is_tls = read_address(url)
    found = []
    if not is_tls and not is_loopback(host):
        what = f'the broker at "{host}" is used without TLS: tokens can be read on the way'
        found.append(Problem(what, hint="mqtts://HOST:PORT", severity=Severity.WARNING))
    answer = _ask(host, port, user, password, make_tls(certificate) if is_tls else None)
    if isinstance(answer, Problem):
        return [*found, answer]
    if answer.lower().startswith("mosquitto"):
        what = (
            f"the broker is {answer[:50]}: queues of a Mosquitto that is killed are lost. Devices then send again what"
            " was not acknowledged, and get newest rows; rows of `keep` streams that were on their way down are missing"
        )
        hint = "set `persistence true` and a short `autosave_interval` in mosquitto.conf"
        found.append(Problem(what, hint=hint, severity=Severity.WARNING))
    return found


def is_signed_in(access: BrokerAccess) -> bool | None:
    """Whether a broker takes this user and password; None if it does not say. Ends nobody's session: it signs in under
    a name of its own, and leaves at once.
    """
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    host, port, is_tls = read_address(access.url)
    answered, said = threading.Event(), list[str]()
    client = Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set(access.user, access.password)
    if is_tls:
        client.tls_set_context(make_tls(access.certificate))

    def note_answer(_: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        said.append(str(reason))
        answered.set()

    client.on_connect = note_answer
    try:
        client.connect(host, port)
    except OSError:
        return None
    client.loop_start()
    try:
        answered.wait(ANSWERS_WITHIN_S)
    finally:
        client.disconnect()
        client.loop_stop()
    # Anything else, such as a broker that has no room, says nothing about the password.
    return {"Success": True, "Bad user name or password": False, "Not authorized": False}.get(said[0]) if said else None


def _ask(host: str, port: int, user: str, password: str, tls: Any) -> str | Problem:
    """What the broker calls itself, empty if it does not say; or why it is of no use."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    answered, told, said = threading.Event(), threading.Event(), dict[str, str]()
    client = Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set(user, password)
    if tls is not None:
        client.tls_set_context(tls)

    def note_answer(_: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        if reason.is_failure:
            said["refused"] = str(reason)
        else:
            client.subscribe(VERSION)
        answered.set()

    def note_version(_: Any, __: Any, message: Any) -> None:
        said["version"] = bytes(message.payload).decode(errors="replace")
        told.set()

    client.on_connect, client.on_message = note_answer, note_version
    try:
        client.connect(host, port)
    except OSError as error:
        return Problem(f'the broker at "{host}", port {port}, cannot be reached: {error.strerror or error}')
    client.loop_start()
    try:
        if not answered.wait(ANSWERS_WITHIN_S):
            return Problem(f'the broker at "{host}", port {port}, does not answer')
        if "refused" in said:
            hint = "its user and password are in `broker: {mqtt: URL}`"
            return Problem(f"the broker refuses us: {said['refused'].lower()}", hint=hint)
        told.wait(TOLD_WITHIN_S)
        return said.get("version", "")
    finally:
        client.disconnect()
        client.loop_stop()
