"""The broker lets a device publish below its own topic and read what is sent to it, and nothing else."""

from __future__ import annotations

import signal
import socket
import ssl
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from headrace.connect.mqtt.broker import BrokerSettings, EmbeddedBroker
from headrace.connect.mqtt.broker_log import BrokerRefusal, GrowingLog, Violation, read_refusal
from headrace.connect.mqtt.users import ROUTER
from headrace.model.device_messages import client_id_of, down_topic, quote_id, up_topic
from headrace.model.errors import ConnectError, UsageError
from tests.devices.clients import signed_in, wait_for
from tests.devices.world import CLOUD_PASSWORD, DEVICES, PROJECT, token_of, users_of

ONE, TWO, THREE = DEVICES


def as_device(broker: EmbeddedBroker, device: str, generation: int = 1):
    token = token_of(device, generation)
    return signed_in(broker.url, quote_id(device), token, client_id=client_id_of(token))


def as_cloud(broker: EmbeddedBroker):
    return signed_in(broker.url, ROUTER, CLOUD_PASSWORD, client_id="test-cloud")


def read_refusals(broker: EmbeddedBroker) -> list[BrokerRefusal]:
    with closing(GrowingLog(broker.log_file, True)) as log:
        return [found for line in log.lines() if (found := read_refusal(line))]


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_publishes_below_its_own_topic_only(broker: EmbeddedBroker, device: str):
    (other, *_) = (one for one in DEVICES if one != device)
    with as_cloud(broker) as cloud, as_device(broker, device) as sender:
        assert cloud.subscribe(f"hr/{quote_id(PROJECT)}/#")
        sender.publish(up_topic(PROJECT, other, "s", "location"), b"foreign")
        sender.publish(down_topic(PROJECT, other, "s"), b"foreign")
        sender.publish(down_topic(PROJECT, device, "plan"), b"foreign", retain=True)
        sender.publish("elsewhere", b"foreign")
        sender.publish(up_topic(PROJECT, device, "s", "location"), b"own")
        wait_for(lambda: cloud.got, "what the device may publish")
        assert cloud.got == [(up_topic(PROJECT, device, "s", "location"), b"own")]
    assert read_refusals(broker) == [BrokerRefusal(Violation.PUBLISH, client_id_of(token_of(device)))] * 4


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_reads_only_what_is_sent_to_it(broker: EmbeddedBroker, device: str):
    (other, *_) = (one for one in DEVICES if one != device)
    with as_cloud(broker) as cloud, as_device(broker, device) as reader:
        assert reader.subscribe(down_topic(PROJECT, device, "") + "#")
        for foreign in (down_topic(PROJECT, other, "") + "#", "hr/#", "#", up_topic(PROJECT, other, "hello")):
            assert not reader.subscribe(foreign), foreign
        cloud.publish(down_topic(PROJECT, other, "s"), b"not yours")
        cloud.publish(down_topic(PROJECT, device, "s"), b"yours")
        wait_for(lambda: reader.got, "what was sent to it")
        assert reader.got == [(down_topic(PROJECT, device, "s"), b"yours")]
    told = read_refusals(broker)
    assert told == [BrokerRefusal(Violation.SUBSCRIBE, client_id_of(token_of(device)))] * 4


def test_a_wrong_token_is_refused_and_appears_in_no_log(broker: EmbeddedBroker):
    with signed_in(broker.url, quote_id(ONE), token_of(TWO), client_id="guess") as guest:
        assert guest.answer == "Not authorized"
    assert BrokerRefusal(Violation.SIGN_IN, "guess") in read_refusals(broker)
    said = broker.log_file.read_text()
    assert "hrd_" not in said and CLOUD_PASSWORD not in said


def test_a_client_id_of_another_device_gives_nothing_of_its_queue(broker: EmbeddedBroker):
    """Even somebody who has found out a client id may not read, nor take, what waits for its owner."""
    with as_device(broker, ONE) as owner:
        owner.subscribe(down_topic(PROJECT, ONE, "") + "#")
    with as_cloud(broker) as cloud:
        cloud.publish(down_topic(PROJECT, ONE, "s"), b"for one")
    with signed_in(broker.url, quote_id(TWO), token_of(TWO), client_id=client_id_of(token_of(ONE))) as thief:
        thief.publish(up_topic(PROJECT, TWO, "s", "location"), b"still works")
        assert thief.got == []
    with as_device(broker, ONE) as owner:
        wait_for(lambda: owner.got, "what waited")
        assert owner.got == [(down_topic(PROJECT, ONE, "s"), b"for one")]


def test_a_new_generation_of_tokens_ends_sessions_and_those_alone(broker: EmbeddedBroker):
    with as_device(broker, ONE) as revoked, as_device(broker, TWO) as stays:
        users = {user.name: user for user in users_of(1)} | {quote_id(ONE): users_of(2, (ONE,))[-1]}
        broker.reload(list(users.values()))
        wait_for(lambda: revoked.ended, "the session ends")
        stays.publish(up_topic(PROJECT, TWO, "hello"), b"")
        assert not stays.ended
    with as_device(broker, ONE) as old:
        assert old.answer == "Not authorized"
    with as_device(broker, ONE, 2) as new:
        assert new.answer == "Success"


def test_a_device_that_is_gone_from_the_users_is_signed_out(broker: EmbeddedBroker):
    with as_device(broker, ONE) as gone:
        broker.reload(users_of(1, (TWO, THREE)))
        wait_for(lambda: gone.ended, "the session ends")


def test_a_killed_broker_comes_back_at_its_port_with_its_queues(broker: EmbeddedBroker):
    port = broker.port
    with as_device(broker, ONE) as reader:
        reader.subscribe(down_topic(PROJECT, ONE, "") + "#")
    with as_cloud(broker) as cloud:
        for number in range(100):
            cloud.publish(down_topic(PROJECT, ONE, "s"), b"%d" % number)
        cloud.publish(down_topic(PROJECT, ONE, "plan"), b"document", retain=True)
    broker.kill()
    assert broker.poll() == -signal.SIGKILL
    broker.start(users_of(1))
    assert broker.port == port
    with as_device(broker, ONE) as reader:
        wait_for(lambda: len(reader.got) >= 101, "all that waited")
        assert reader.bodies(down_topic(PROJECT, ONE, "s")) == [b"%d" % number for number in range(100)]
    with as_cloud(broker) as cloud:
        cloud.subscribe(down_topic(PROJECT, ONE, "plan"))
        wait_for(lambda: cloud.bodies(down_topic(PROJECT, ONE, "plan")) == [b"document"], "the document is kept")


def test_the_port_stays_the_same_for_another_broker_over_the_folder(broker: EmbeddedBroker):
    broker.stop()
    again = EmbeddedBroker(broker.folder)
    again.start(users_of(1))
    try:
        assert again.port == broker.port
    finally:
        again.stop()


def test_only_the_owner_reads_what_the_broker_keeps(broker: EmbeddedBroker):
    for path in [broker.folder, *broker.folder.rglob("*")]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_a_broker_ends_with_a_process_that_is_killed(tmp_path: Path):
    script = (
        "import sys, time; from pathlib import Path\n"
        "from headrace.connect.mqtt.broker import EmbeddedBroker\n"
        "broker = EmbeddedBroker(Path(sys.argv[1])); broker.start([])\n"
        "print(broker.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert Path(f"/proc/{pid}/comm").read_text().strip() == "nats-server"
        owner.kill()
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the broker ends")


def test_a_port_that_somebody_else_has_is_named(tmp_path: Path, broker: EmbeddedBroker, monkeypatch):
    monkeypatch.setattr("headrace.connect.mqtt.broker.FREE_WITHIN_S", 0.0)
    other = EmbeddedBroker(tmp_path / "other", BrokerSettings(port=broker.port))
    with pytest.raises(ConnectError, match=f"port {broker.port}"):
        other.start(users_of(1))


def test_beyond_loopback_there_is_no_broker_without_tls(tmp_path: Path):
    with pytest.raises(UsageError, match="tokens need TLS"):
        EmbeddedBroker(tmp_path, BrokerSettings(host="0.0.0.0"))
    with pytest.raises(UsageError, match="no file"):
        EmbeddedBroker(tmp_path, BrokerSettings(host="0.0.0.0", certificate="a.pem", key="b.pem"))
    with pytest.raises(UsageError, match="certificate and its key"):
        EmbeddedBroker(tmp_path, BrokerSettings(certificate="a.pem"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate of "localhost", which signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder


def test_with_tls_devices_see_who_the_broker_is_and_plain_text_is_refused(tmp_path: Path, certificate: Path):
    files = str(certificate / "cert.pem"), str(certificate / "key.pem")
    broker = EmbeddedBroker(tmp_path, BrokerSettings("0.0.0.0", 0, *files))
    broker.start(users_of(1))
    try:
        assert broker.url == f"mqtts://127.0.0.1:{broker.port}"
        with signed_in(broker.url, quote_id(ONE), token_of(ONE), client_id="x", ca=files[0]) as device:
            assert device.answer == "Success"
            device.publish(up_topic(PROJECT, ONE, "hello"), b"")
        asking = socket.create_connection(("127.0.0.1", broker.port), 10)
        with asking, pytest.raises(ssl.SSLCertVerificationError):
            ssl.create_default_context().wrap_socket(asking, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", broker.port), 10) as plain:
            plain.sendall(b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd")  # CONNECT, as MQTT has it
            assert not plain.recv(100).startswith(b"\x20"), "it was answered without TLS"
    finally:
        broker.stop()


def test_a_log_is_followed_when_it_is_begun_anew(tmp_path: Path):
    file = tmp_path / "log"
    log = GrowingLog(file, True)
    assert list(log.lines()) == []
    file.write_text("one\ntwo\nhal")
    assert list(log.lines()) == ["one", "two"]
    with file.open("a") as more:
        more.write("f\n")
    file.rename(tmp_path / "log.1")
    file.write_text("three\n")
    assert list(log.lines()) == ["half", "three"]
    log.close()
