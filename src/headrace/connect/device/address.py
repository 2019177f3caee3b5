"""Where a device's broker is: `mqtt://HOST:PORT/PROJECT`, or `mqtts://` with TLS. Tokens name the project, too."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from headrace.model.device_messages import LONGEST_ID, read_token
from headrace.model.errors import UsageError, WireError
from headrace.run.device.agent import Identity

PORTS = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """`project` is None if the address names none."""

    host: str
    port: int
    tls: bool
    project: str | None = None


def read_address(text: str, without_tls: bool = False) -> BrokerAddress:
    """Raises `UsageError`; also for an address beyond this machine without TLS, unless that is asked for."""
    hint = "such as mqtt://127.0.0.1:1883, or mqtts://broker.example.com"
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise UsageError(f'"{text}" is no address of a broker: {error}', hint) from error
    if url.scheme not in PORTS or not url.hostname or url.query or url.fragment or url.username or url.password:
        raise UsageError(f'"{_without_secrets(text)}" is no address of a broker', hint)
    if url.scheme == "mqtt" and not without_tls and not _is_loopback(url.hostname):
        what = f'the token would travel to "{url.hostname}" for everybody to read'
        raise UsageError(what, "use mqtts://, or add --without-tls if the network is private")
    project = unquote(url.path.strip("/")) or None
    return BrokerAddress(url.hostname, port or PORTS[url.scheme], url.scheme == "mqtts", project)


def identify(device: str, address: BrokerAddress, token: str) -> Identity:
    """Who a device is, from what people give to it. The address's project counts before the token's."""
    if not 0 < len(device) <= LONGEST_ID:
        raise UsageError(f"the id of a device has 1 to {LONGEST_ID} characters, not {len(device)}")
    if not token.strip():
        raise UsageError("there is no token", "headrace devices tokens shows it; give it as HEADRACE_DEVICE_TOKEN")
    try:
        secret, project = read_token(token)
    except WireError as error:
        raise UsageError(f"the token names no project: {error}", "headrace devices tokens shows it") from error
    project = address.project or project
    if project is None:
        raise UsageError("nothing says which project the device is of", "write mqtt://HOST:PORT/PROJECT")
    return Identity(device, project, secret)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _without_secrets(text: str) -> str:
    """An address may have a password in it, which must not be shown."""
    return text if "@" not in text else f"{text.partition('://')[0]}://...@{text.rpartition('@')[2]}"
