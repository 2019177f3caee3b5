"""Devices at a real broker: in Python and as a command, killed, offline, refused, and with TLS."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import queue
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.model.device_messages import write_token
from headrace_device import Device, DeviceResult, UsageError, WireError
from tests.connect.device.broker import PROJECT, Broker, LiveCloud, rss_mb, token_of, wait_for
from tests.connect.device.cloud import make_document
from tests.run.device.lifted import nearby

pytestmark = pytest.mark.live

NEAR = {"lat": 39.9, "lng": 116.4}
FAR = {"lat": 10.0, "lng": 10.0}
SEND = {"location": 0.0, "visits": 0.0}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path, ("1", "2"))
    yield made
    made.stop()


@pytest.fixture
def cloud(broker: Broker) -> Iterator[LiveCloud]:
    made = LiveCloud(broker)
    made.tell("1", make_document(1, {"near": nearby()}, SEND, partners=("2",)))
    made.tell("2", make_document(1, {}, SEND, partners=()))
    yield made
    made.close()


def open_device(broker: Broker, device: str, **options: Any) -> tuple[Device, list[DeviceResult], list[str]]:
    results: list[DeviceResult] = []
    told: list[str] = []
    state = broker.folder / f"state-{device}"
    token = options.pop("token", write_token(token_of(device), PROJECT))
    made = Device(device, broker.url, token, state=state, tell=told.append, **options)
    made.on_result(results.append)
    return made, results, told


def test_friends_that_come_near_each_other_are_found_on_a_phone_and_reported(broker: Broker, cloud: LiveCloud):
    anna, results, told = open_device(broker, "1")
    bob, _, _ = open_device(broker, "2")
    with anna, bob:
        anna.publish("location", NEAR)
        bob.publish("location", NEAR)
        found = wait_for(lambda: results)[0]
        assert (found.view, found.pair, found.op, found.row) == (
            "near",
            ("1", "2"),
            "insert",
            {"metres": 0.0, "lat": 39.9},
        )
        bob.publish("location", FAR)
        assert wait_for(lambda: results[1:])[0].op == "delete"
        assert anna.wait_sent() and bob.wait_sent()
        assert cloud.devices["1"].there() == {} and cloud.devices["1"].last["r/near"]
        assert cloud.devices["1"].tooks[0].plan == 1
        with pytest.raises(WireError, match="north"):
            anna.publish("location", {"lat": "north"})
    assert not told
    wait_for(lambda: sorted(cloud.gone) == ["1", "2"])


def test_rows_of_a_time_offline_arrive_and_nothing_is_told_twice(broker: Broker, cloud: LiveCloud):
    bob, _, _ = open_device(broker, "2")
    with bob:
        bob.publish("location", NEAR)
        assert bob.wait_sent(90)
        anna, results, _ = open_device(broker, "1")
        anna.publish("location", NEAR)
        wait_for(lambda: results)
        broker.kill()
        for number in range(50):
            anna.publish("visits", {"lat": float(number), "lng": 1.0})
        anna.close()
        anna, again, _ = open_device(broker, "1")
        with anna:
            anna.publish("visits", {"lat": 50.0, "lng": 1.0})
            broker.start()
            assert anna.wait_sent(90)  # it may be a while before the device and the cloud try to connect again
            assert [sent.rows[0][0] for sent in cloud.devices["1"].streams["visits"]] == [float(n) for n in range(51)]
            assert list(cloud.devices["1"].there()) == [("near", ("1", "2"), 0, (0.0, 39.9))] and not again


def test_a_wrong_token_is_told_and_a_project_must_be_known(broker: Broker, cloud: LiveCloud):
    device, _, told = open_device(broker, "1", token=write_token("hrd_1_wrong", PROJECT))
    with device:
        device.publish("location", NEAR)
        assert "refuses the device" in wait_for(lambda: told)[0]
    with pytest.raises(UsageError, match="which project"):
        Device("1", broker.url, token_of("1"), state=broker.folder / "x")
    with Device("1", f"{broker.url}/{PROJECT}", token_of("1"), state=broker.folder / "y") as named:
        wait_for(lambda: named.plan == 1)


class Command:
    """A running `headrace device`."""

    def __init__(self, broker: Broker, device: str, *more: str) -> None:
        words = ["device", "--id", device, "--broker", broker.url, "--state", str(broker.folder / f"state-{device}")]
        environment = {"PATH": "/usr/bin:/bin", "HEADRACE_DEVICE_TOKEN": write_token(token_of(device), PROJECT)}
        self.process = subprocess.Popen(
            [str(Path(sys.executable).parent / "headrace"), *words, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def kill(self) -> None:
        self.process.kill()
        self._close()

    def _close(self) -> None:
        self.process.wait(30)
        self._reader.join(30)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def say(self, line: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        return json.loads(self.lines.get(timeout=20))

    def end(self) -> str:
        """What it said to people; it must end well."""
        assert self.process.stdin is not None and self.process.stderr is not None
        self.process.stdin.close()
        said = self.process.stderr.read()
        self._close()
        assert self.process.returncode == 0, said
        return said


def test_the_command_reads_rows_and_prints_results_and_goes_on_after_a_kill(broker: Broker, cloud: LiveCloud):
    bob, _, _ = open_device(broker, "2")
    with bob:
        bob.publish("location", NEAR)
        anna = Command(broker, "1")
        anna.say({"stream": "location", "row": NEAR, "at": 1731844800000})
        assert anna.hear().items() >= {
            "view": "near", "pair": ["1", "2"], "op": "insert", "row": {"metres": 0.0, "lat": 39.9},
        }.items()  # fmt: skip
        for number in range(20):
            anna.say({"stream": "visits", "row": {"lat": float(number), "lng": 0}})
        wait_for(lambda: len(cloud.devices["1"].streams.get("visits", [])) >= 5)
        anna.kill()
        again = Command(broker, "1")
        for line in ("{", '{"stream": "location"}', '{"stream": "nowhere", "row": {}}', '{"stream": 1, "row": {}}', ""):
            again.say(line)
        again.say({"stream": "location", "row": FAR})
        assert again.hear()["op"] == "delete"
        assert rss_mb(again.process.pid) < 60
        said = again.end()
    refused = [line for line in said.splitlines() if "is refused" in line]
    assert len(refused) == 4 and "line 1 " in refused[0] and '"nowhere"' in refused[2]
    assert cloud.devices["1"].streams["location"][0].at_ms == 1731844800000
    numbers = [sent.rows[0][0] for sent in cloud.devices["1"].streams["visits"]]
    assert numbers == [float(number) for number in range(len(numbers))]
    assert cloud.devices["1"].there() == {}


def test_a_device_whose_disk_fails_leaves_and_its_command_ends(broker: Broker, cloud: LiveCloud):
    anna = Command(broker, "1", "--stay")
    anna.say({"stream": "location", "row": NEAR})
    bob, _, _ = open_device(broker, "2")
    with bob:
        bob.publish("location", NEAR)
        assert anna.hear()["op"] == "insert"
        with sqlite3.connect(broker.folder / "state-1" / "device.db", timeout=10) as db:
            db.execute("DROP TABLE held")
        db.close()
        bob.publish("location", FAR)
        assert anna.process.wait(20) == 2
        assert anna.process.stderr is not None
        assert "cannot be kept: no such table" in anna.process.stderr.read()
        wait_for(lambda: "1" in cloud.gone)
    anna.kill()


NOT_ON_DEVICES = ("numpy", "pyarrow", "pydantic", "typer", "rich", "sqlglot", "scipy", "asyncio", "pyspark")


def test_a_device_imports_nothing_that_only_the_cloud_needs():
    script = (
        "import sys; sys.argv = ['headrace', 'device', '--id', '1', '--broker', 'mqtt://127.0.0.1:1', '--token', 'x@p',"
        " '--state', sys.argv[1]]\n"
        "from headrace.doors.start import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print(end.code)\n"
        f"print([name for name in {NOT_ON_DEVICES} if name in sys.modules])"
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([sys.executable, "-c", script, folder], input="", capture_output=True, text=True)
    assert ran.stdout.splitlines() == ["0", "[]"], ran.stderr


def make_certificate(folder: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


# paho leaves the socket of a failed handshake to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_with_tls_a_device_trusts_only_the_certificates_it_was_given(tmp_path: Path):
    broker = Broker(tmp_path, ("1", "2"), make_certificate(tmp_path))
    cloud = LiveCloud(broker)
    try:
        cloud.tell("1", make_document(1, {}, SEND, partners=()))
        device, _, _ = open_device(broker, "1", ca_file=str(tmp_path / "certificate.pem"))
        with device:
            device.publish("location", NEAR)
            wait_for(lambda: cloud.devices["1"].streams)
        stranger, _, told = open_device(broker, "2")
        with stranger:
            stranger.publish("location", NEAR)
            assert "certificate verify failed" in wait_for(lambda: told)[0]
            assert not stranger.wait_sent(1) and stranger.plan == 0
    finally:
        cloud.close()
        broker.stop()
