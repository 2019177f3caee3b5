"""A real broker for tests of devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.connect.mqtt.broker import EmbeddedBroker
from tests.devices.world import users_of


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """One with the devices of `tests.devices.world`."""
    made = EmbeddedBroker(tmp_path / "devices")
    made.start(users_of(1))
    try:
        yield made
    finally:
        made.stop()
