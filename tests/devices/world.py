"""Three devices of one project, with ids that need quoting, and the cloud's users."""

from __future__ import annotations

from headrace.connect.mqtt.users import PLACER, ROUTER, BrokerUser, cloud_user, device_user
from headrace.site.devices.tokens import make_token

PROJECT = "city.x"
KEY = b"k" * 32
DEVICES = ("1", "b.2/x", "drei ü")
CLOUD_PASSWORD = "of this run"


def token_of(device: str, generation: int = 1) -> str:
    return make_token(KEY, PROJECT, device, generation).token


def users_of(generation: int, devices: tuple[str, ...] = DEVICES) -> tuple[BrokerUser, ...]:
    """The users of a broker, if the tokens of devices have a generation."""
    cloud = [cloud_user(PROJECT, name, CLOUD_PASSWORD) for name in (ROUTER, PLACER)]
    return (*cloud, *(device_user(PROJECT, device, token_of(device, generation)) for device in devices))
