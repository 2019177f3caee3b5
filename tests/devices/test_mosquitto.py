"""Mosquitto with the rights that `headrace devices tokens --acl mosquitto` prints keeps devices apart as our broker
does, and the router works with it. Where Mosquitto is not installed there is nothing to test.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.connect.free_port import free_port
from headrace.connect.mqtt.broker import EmbeddedBroker
from headrace.connect.mqtt.external import look_at_broker
from headrace.connect.mqtt.users import ROUTER, mosquitto_acl
from headrace.model.device_messages import client_id_of, down_topic, quote_id, up_topic
from headrace.site.devices.registry import find_tokens, set_members
from headrace.site.folder import Folder
from tests.devices.clients import signed_in, wait_for
from tests.devices.routers import PASSWORD, PROJECT, RouterWorld, TestDevice

pytestmark = pytest.mark.skipif(
    not (shutil.which("mosquitto") and shutil.which("mosquitto_passwd")), reason="there is no Mosquitto"
)


@dataclass
class Mosquitto:
    url: str
    folder: Folder

    def sign_in(self, device: str):
        (token,) = find_tokens(self.folder, PROJECT, (device,))
        return signed_in(self.url, quote_id(device), token.token, client_id=client_id_of(token.token))


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    folder, port = Folder(tmp_path), free_port()
    set_members(folder, {"phones": ["1", "2", "3"]})
    tokens = find_tokens(folder, PROJECT, ("1", "2", "3", "a b"))
    passwords = tmp_path / "passwords"
    passwords.write_text("".join(f"{one.user}:{one.token}\n" for one in tokens) + f"{ROUTER}:{PASSWORD}\n")
    subprocess.run(["mosquitto_passwd", "-U", str(passwords)], check=True, capture_output=True)
    (tmp_path / "acl").write_text(mosquitto_acl(PROJECT, ROUTER))
    lines = ["allow_anonymous false", f"password_file {passwords}", f"acl_file {tmp_path / 'acl'}"]
    (tmp_path / "conf").write_text("\n".join([*lines, f"listener {port} 127.0.0.1", "user root", ""]))
    command = ["mosquitto", "-c", str(tmp_path / "conf")]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            made = Mosquitto(f"mqtt://127.0.0.1:{port}", folder)
            wait_for(lambda: process.poll() is not None or answers(made), "Mosquitto answers")
            assert process.poll() is None, f"Mosquitto ended: {(tmp_path / 'log').read_text()}"
            yield made
        finally:
            process.terminate()


def answers(mosquitto: Mosquitto) -> bool:
    try:
        with signed_in(mosquitto.url, ROUTER, PASSWORD):
            return True
    except OSError:
        return False


def test_a_device_publishes_and_reads_its_own_only(mosquitto: Mosquitto):
    with (
        signed_in(mosquitto.url, ROUTER, PASSWORD, client_id="cloud") as cloud,
        mosquitto.sign_in("1") as one,
        mosquitto.sign_in("a b") as two,
    ):
        assert cloud.subscribe(f"hr/{PROJECT}/up/#")
        one.subscribe("#")  # Mosquitto grants it, and delivers what may be read
        two.subscribe(down_topic(PROJECT, "a b") + "/#")
        one.publish(up_topic(PROJECT, "a b", "s", "location"), b"foreign")
        one.publish(down_topic(PROJECT, "a b", "s"), b"foreign")
        one.publish(up_topic(PROJECT, "1", "s", "location"), b"own")
        cloud.publish(down_topic(PROJECT, "a b", "s"), b"for two")
        cloud.publish(down_topic(PROJECT, "1", "s"), b"for one")
        wait_for(lambda: one.got and two.got and cloud.got, "what each may read")
        assert cloud.got == [(up_topic(PROJECT, "1", "s", "location"), b"own")]
        assert two.got == [(down_topic(PROJECT, "a b", "s"), b"for two")]
        assert one.got == [(down_topic(PROJECT, "1", "s"), b"for one")]


def test_a_wrong_token_is_refused(mosquitto: Mosquitto):
    with signed_in(mosquitto.url, "1", "hrd_1_0", client_id="guess") as guest:
        assert guest.answer == "Not authorized"


def test_the_router_works_with_it(mosquitto: Mosquitto):
    directory = mosquitto.folder.project
    world = RouterWorld(directory, EmbeddedBroker(directory / "unused"), 3, url=mosquitto.url)
    world.start_router()
    try:
        world.wait_connected()
        with closing(TestDevice(world, "1")) as one:
            for number in range(20):
                one.visit(float(number))
            one.settle()
        wait_for(lambda: len(world.net_rows("visits", [0, 1])) == 20, "all rows")
    finally:
        world.end_router()


def test_what_to_know_of_a_broker_is_said(mosquitto: Mosquitto):
    found = look_at_broker(mosquitto.url, ROUTER, PASSWORD)
    assert any("Mosquitto" in one.message and "killed" in one.message for one in found), found
    assert PASSWORD not in str(found)
    (refused,) = look_at_broker(mosquitto.url, ROUTER, "wrong")
    assert "refuses" in refused.message
    (unreachable,) = look_at_broker(f"mqtt://127.0.0.1:{free_port()}", ROUTER, PASSWORD)
    assert "cannot be reached" in unreachable.message
