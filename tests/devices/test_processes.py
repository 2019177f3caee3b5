"""The service keeps a broker and a router running, and tells what becomes of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.connect.mqtt.broker import EmbeddedBroker
from headrace.connect.mqtt.users import ROUTER
from headrace.model.device_messages import client_id_of, quote_id
from headrace.model.push_events import DeviceProcessEnded
from headrace.site.devices.processes import BrokerSettings, DeviceProcesses, DeviceProcessState
from headrace.site.devices.registry import find_tokens, revoke_device, set_members
from headrace.site.devices.router_settings import RoutedSourceFile, StreamFile
from headrace.site.folder import Folder
from headrace.site.journal import Journal
from headrace.site.troubles import BROKER, Troubles
from tests.devices.clients import signed_in, wait_for

PROJECT = "city"


class Told(Journal):
    """Remembers what was told."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[object] = []

    def emit(self, event) -> None:
        self.events.append(event)


def make(directory: Path, devices: tuple[str, ...] = ("1", "2")) -> DeviceProcesses:
    folder = Folder(directory)
    set_members(folder, {"phones": devices})
    made = DeviceProcesses(folder, PROJECT, BrokerSettings(), Told(), Troubles())
    columns = (("device", "bigint"), ("seq", "bigint"), ("at", "timestamp"), ("x", "double"))
    source = RoutedSourceFile(inbox=directory / "inbox", columns=columns, key=("device",))
    made.use((StreamFile(devices="phones", stream="location", source=source),), ())
    return made


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[DeviceProcesses]:
    made = make(tmp_path)
    with made.running():
        wait_for(lambda: is_running(made), "both run")
        yield made


def is_running(processes: DeviceProcesses) -> bool:
    told = processes.tell()
    return len(told) == 2 and all(one.state is DeviceProcessState.RUNNING for one in told)


def pid_of(processes: DeviceProcesses, name: str) -> int:
    (pid,) = (one.pid for one in processes.tell() if one.name == name)
    assert pid is not None
    return pid


def sign_in(processes: DeviceProcesses, device: str):
    (token,) = find_tokens(processes.folder, PROJECT, (device,))
    assert processes.url is not None
    return signed_in(processes.url, quote_id(device), token.token, client_id=client_id_of(token.token))


@pytest.mark.parametrize("name", ["broker", "router"])
def test_whichever_is_killed_comes_back(processes: DeviceProcesses, name: str):
    url, before = processes.url, pid_of(processes, name)
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: any(one.restarts for one in processes.tell()), "it is seen")
    wait_for(lambda: is_running(processes) and pid_of(processes, name) != before, "another runs")
    assert processes.url == url
    journal = processes.journal
    assert isinstance(journal, Told)
    (event,) = journal.events
    assert isinstance(event, DeviceProcessEnded) and event.process == name and event.pid == before
    assert event.reason == "it was killed (signal 9)"
    with sign_in(processes, "1") as device:
        assert device.answer == "Success"


def test_a_router_that_hangs_is_replaced(processes: DeviceProcesses, monkeypatch):
    monkeypatch.setattr("headrace.site.devices.processes.SILENT_S", 3.0)
    before = pid_of(processes, "router")
    os.kill(before, signal.SIGSTOP)
    wait_for(lambda: is_running(processes) and pid_of(processes, "router") != before, "another runs")


def test_a_broker_that_hangs_is_told_and_replaced(processes: DeviceProcesses, monkeypatch):
    monkeypatch.setattr("headrace.site.devices.processes.UNANSWERED_S", 9.0)
    before = pid_of(processes, "broker")
    os.kill(before, signal.SIGSTOP)
    wait_for(lambda: any("broker" in key for key in processes.troubles.all()), "the trouble is told", 60)
    wait_for(lambda: is_running(processes) and pid_of(processes, "broker") != before, "another runs", 60)
    wait_for(lambda: not any("broker" in key for key in processes.troubles.all()), "the trouble is over", 60)


def test_a_revoked_device_is_signed_out_within_a_second(processes: DeviceProcesses):
    with sign_in(processes, "1") as revoked, sign_in(processes, "2") as other:
        revoke_device(processes.folder, "1")
        wait_for(lambda: revoked.ended, "its session ends", 5)
        assert not other.ended
    with sign_in(processes, "1") as again:
        assert again.answer == "Success", "with its new token"


def test_new_members_may_sign_in(processes: DeviceProcesses):
    set_members(processes.folder, {"phones": ["1", "2", "3"]})

    def may_sign_in() -> bool:
        with sign_in(processes, "3") as device:
            return bool(device.answer == "Success")

    wait_for(may_sign_in, "a new device may sign in")


def test_devices_with_ids_that_no_topic_can_hold_are_named_and_the_others_served(tmp_path: Path):
    made = make(tmp_path, ("1", "", "cloud"))
    with made.running():
        wait_for(lambda: is_running(made), "both run")
        assert made.troubles.get(f"{BROKER}ids") is not None
        with sign_in(made, "1") as device:
            assert device.answer == "Success"


def test_both_end_with_the_service(tmp_path: Path):
    made = make(tmp_path)
    with made.running():
        wait_for(lambda: is_running(made), "both run")
        pids = [pid_of(made, name) for name in ("broker", "router")]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_password_of_this_run_is_in_no_command_line_and_no_log(processes: DeviceProcesses):
    (password,) = (one.password for one in [processes._access_of(ROUTER)] if one is not None)
    for pid in (pid_of(processes, name) for name in ("broker", "router")):
        assert password.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert password.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    for file in processes.folder.root.rglob("*.log"):
        assert password not in file.read_text()


def test_a_disk_that_is_full_for_a_while_is_told_and_ends_no_watching(processes: DeviceProcesses, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(EmbeddedBroker, "_write_config", fail)
        set_members(processes.folder, {"phones": ["1", "2", "77"]})
        wait_for(lambda: f"{BROKER}users" in processes.troubles.all(), "the trouble")
    wait_for(lambda: f"{BROKER}users" not in processes.troubles.all(), "it goes on")
