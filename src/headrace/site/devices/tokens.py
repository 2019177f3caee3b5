"""Tokens of devices: made from the project's secret, so none is stored, and any can be shown again.

    hrd_GENERATION_HMAC      HMAC-SHA256(devices.key, project | device | generation), 48 hexadecimal digits

A token is the password of the device's MQTT user, and signs its documents. Revoking raises the generation.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from pathlib import Path

from headrace.model.device_messages import quote_id, write_token
from headrace.site.secret_key import find_secret

KEY_FILE = "devices.key"
PREFIX = "hrd_"
DIGITS = 48


@dataclass(frozen=True, slots=True)
class DeviceToken:
    """What a device signs in with: `user` is its MQTT user, `token` the password."""

    device: str
    generation: int
    token: str = field(repr=False)
    project: str

    @property
    def user(self) -> str:
        return quote_id(self.device)

    @property
    def shown(self) -> str:
        """The token as people give it to a device: with the project, which a device has to know before it connects."""
        return write_token(self.token, self.project)


def find_device_key(folder: Path) -> bytes:
    """The secret that tokens are made from, in the project's `.headrace`."""
    return find_secret(folder / KEY_FILE, "remove it: a new key is made, and all devices need new tokens")


def make_client_id(key: bytes, project: str, part: str) -> str:
    """The MQTT client id of a part of the cloud. Nobody else can know it: a broker ends the session of whoever has the
    same id. It stays the same, since a session outlives its connection.
    """
    return "hrp_" + hmac.new(key, f"client|{quote_id(project)}|{part}".encode(), hashlib.sha256).hexdigest()[:32]


def make_token(key: bytes, project: str, device: str, generation: int) -> DeviceToken:
    # Quoted, so that no two projects and devices are the same text.
    said = f"{quote_id(project)}|{quote_id(device)}|{generation}"
    digest = hmac.new(key, said.encode(), hashlib.sha256).hexdigest()
    return DeviceToken(device, generation, f"{PREFIX}{generation}_{digest[:DIGITS]}", project)
