"""A token that was revoked is a trouble until a broker of somebody else's refuses it, through restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.connect.mqtt.broker import EmbeddedBroker
from headrace.connect.mqtt.client import BrokerAccess
from headrace.connect.mqtt.users import PLACER, ROUTER, cloud_user, device_user
from headrace.model.errors import UnreadableState
from headrace.site.devices.processes import BrokerSettings, DeviceProcesses
from headrace.site.devices.registry import Registry, find_tokens, revoke_device, set_members
from headrace.site.devices.revoked import FILE, KEY, RevokedTokens, find_unrefused
from headrace.site.folder import Folder
from headrace.site.journal import Journal
from headrace.site.troubles import Troubles
from tests.devices.clients import wait_for

PROJECT, PASSWORD = "city", "of this run"


class OtherBroker:
    """A broker that is told its users by hand, as one of somebody else's is."""

    def __init__(self, directory: Path) -> None:
        self.folder = Folder(directory)
        set_members(self.folder, {"phones": ["1", "2"]})
        self.broker = EmbeddedBroker(directory / "elsewhere")
        self.broker.start(self.users())

    def users(self):
        tokens = find_tokens(self.folder, PROJECT, ("1", "2"))
        cloud = [cloud_user(PROJECT, name, PASSWORD) for name in (ROUTER, PLACER)]
        return [*cloud, *(device_user(PROJECT, one.device, one.token) for one in tokens)]

    @property
    def access(self) -> BrokerAccess:
        return BrokerAccess(self.broker.url, ROUTER, PASSWORD)

    def look(self) -> str | None:
        """What a service that has just started tells."""
        troubles = Troubles()
        RevokedTokens(self.folder, PROJECT, self.access, troubles).look()
        found = troubles.get(KEY)
        return None if found is None else found.what


@pytest.fixture
def other(tmp_path: Path) -> Iterator[OtherBroker]:
    made = OtherBroker(tmp_path)
    yield made
    made.broker.stop()


def test_a_revoked_token_is_a_trouble_until_the_broker_refuses_it(other: OtherBroker):
    assert other.look() is None
    revoke_device(other.folder, "1")
    for _ in range(2):
        assert "the token of device 1 was revoked" in (other.look() or "")
    other.broker.reload(other.users())
    assert other.look() is None
    other.broker.stop()
    assert other.look() is None, "it was refused once, and is not tried again"


def test_a_token_between_the_first_and_the_last_is_watched_as_well(other: OtherBroker):
    revoke_device(other.folder, "1")
    other.broker.reload(other.users())
    revoke_device(other.folder, "1")
    assert other.look() is not None, "the broker takes the second token"
    other.broker.reload(other.users())
    assert other.look() is None
    revoke_device(other.folder, "1")
    assert other.look() is not None


def test_a_broker_that_does_not_answer_has_refused_nothing(other: OtherBroker):
    revoke_device(other.folder, "1")
    revoke_device(other.folder, "2")
    other.broker.stop()
    assert "2 devices (1, 2)" in (other.look() or "")


def test_the_running_service_tells_it_and_sees_when_it_is_over(other: OtherBroker):
    troubles = Troubles()
    processes = DeviceProcesses(other.folder, PROJECT, BrokerSettings(), Journal(), troubles, other.access)
    with processes.running():
        revoke_device(other.folder, "2")
        wait_for(lambda: troubles.get(KEY), "the trouble")
        other.broker.reload(other.users())
        set_members(other.folder, {"phones": ["1", "2", "3"]})  # looked at again without waiting for a minute
        wait_for(lambda: troubles.get(KEY) is None, "it is over")


def test_only_tokens_that_were_not_refused_yet_are_tried():
    registry = Registry({"phones": ("1", "2", "3")}, {"1": 2, "2": 4, "3": 3})
    assert find_unrefused(registry, {"2": 2, "3": 3}) == {"1": range(1, 2), "2": range(2, 4)}


def test_a_damaged_file_is_told(other: OtherBroker):
    revoke_device(other.folder, "1")
    (other.folder.root / FILE).write_text("[1]")
    with pytest.raises(UnreadableState):
        other.look()
