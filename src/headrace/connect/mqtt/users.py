"""Who may do what at a broker, as text for the broker that is told: NATS, or Mosquitto.

A device publishes below its own topic and reads what is sent to it; nothing else is open to it. Parts of the cloud read
and write everything of their project. Their names begin with `~`, which no device's does (`quote_id`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.model.device_messages import CLOUD, ROOT, quote_id, unquote_id
from headrace.model.errors import WireError

ROUTER, PLACER = "~router", "~placer"


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """A user with a password, and NATS subjects: topics with `.` in place of `/`."""

    name: str
    password: str = field(repr=False)
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def device_user(project: str, device: str, token: str) -> BrokerUser:
    name, root = quote_id(device), f"{ROOT}.{quote_id(project)}"
    # MQTT's `down/D/#` covers `down/D` as well, and is refused unless both are allowed.
    down = f"{root}.down.{name}"
    return BrokerUser(name, token, (f"{root}.up.{name}.>",), (down, f"{down}.>"))


def cloud_user(project: str, name: str, password: str) -> BrokerUser:
    root = f"{ROOT}.{quote_id(project)}"
    return BrokerUser(name, password, (f"{root}.>",), (root, f"{root}.>"))


def refuse_id(device: str) -> str | None:
    """Why nothing can have this id at a broker; None if something can."""
    if device == CLOUD:
        return f'"{CLOUD}" stands for no device'
    try:
        unquote_id(quote_id(device))
    except (WireError, UnicodeEncodeError):
        return f'"{device[:50]}" is empty, too long, or no text'
    return None


def nats_users(users: Iterable[BrokerUser]) -> str:
    """The `authorization` of a NATS server. A session needs `$MQTT.sub.>` for its own queue."""
    return "authorization { users = [\n" + "".join(map(_nats_user, users)) + "] }\n"


def _nats_user(user: BrokerUser) -> str:
    quoted = json.dumps  # NATS reads texts as JSON does
    publish, subscribe = json.dumps(user.publish), json.dumps((*user.subscribe, "$MQTT.sub.>"))
    return (
        f"  {{user: {quoted(user.name)}, password: {quoted(user.password)}, "
        f'allowed_connection_types: ["MQTT"], permissions: {{publish: {publish}, subscribe: {subscribe}}}}}\n'
    )


def mosquitto_acl(project: str, cloud: str) -> str:
    """The `acl_file` of a Mosquitto whose user `cloud` is the one in the project's `broker: {mqtt: URL}`."""
    root = f"{ROOT}/{quote_id(project)}"
    return (
        f"# Devices of project {quote_id(project)}: user names are quoted ids, passwords are tokens up to the @.\n"
        '#   headrace devices tokens | awk \'{split($NF, token, "@"); print $(NF-1) ":" token[1]}\' > passwords\n'
        "#   mosquitto_passwd -U passwords\n"
        "# mosquitto.conf: allow_anonymous false, password_file, acl_file, listener with certfile and keyfile,\n"
        "#   persistence true. Queues of a Mosquitto that is killed are lost up to autosave_interval (30 minutes):\n"
        "#   devices then send again what Headrace has not acknowledged.\n"
        f"pattern write {root}/up/%u/#\n"
        f"pattern read {root}/down/%u/#\n"
        f"user {cloud}\n"
        f"topic readwrite {root}/#\n"
        "topic read $SYS/broker/version\n"
    )
