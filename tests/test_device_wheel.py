"""The package of devices, installed by pip in a fresh environment: nothing but paho beside it, and a device runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.device_messages import write_token
from tests.connect.device.broker import PROJECT, Broker, LiveCloud, rss_mb, token_of, wait_for
from tests.connect.device.cloud import make_document
from tests.run.device.lifted import nearby
from tests.test_wheel import pip

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.long, pytest.mark.live, pytest.mark.timeout(600)]

NEAR = {"lat": 39.9, "lng": 116.4}
IN_PYTHON = """
import sys, headrace, headrace_device
device = headrace_device.Device("2", sys.argv[1], sys.argv[2], state=sys.argv[3])
device.publish("location", {"lat": 39.9, "lng": 116.4})
assert device.wait_sent(20)
device.close()
print(headrace.__version__, *sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[4:])))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("device")
    wheels = folder / "wheels"
    pip(sys.executable, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(wheels), str(ROOT / "device"))
    (wheel,) = wheels.glob("headrace_device-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    pip(folder / "venv" / "bin" / "python", "install", str(wheel))
    return folder / "venv"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path, ("1", "2"))
    yield made
    made.stop()


def test_it_needs_paho_alone(environment: Path):
    listed = subprocess.run(
        [environment / "bin" / "python", "-m", "pip", "list", "--format", "json"], capture_output=True, check=True
    )
    names = {one["name"] for one in json.loads(listed.stdout)}
    assert names - {"pip", "setuptools"} == {"headrace-device", "paho-mqtt"}


def test_a_device_runs_from_it(environment: Path, broker: Broker):
    cloud = LiveCloud(broker)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        cloud.tell("1", make_document(1, {"near": nearby()}, {"location": 0.0}, partners=("2",)))
        cloud.tell("2", make_document(1, {}, {"location": 0.0}, partners=()))
        words = [str(environment / "bin" / "headrace-device"), "--id", "1", "--broker", broker.url]
        anna = subprocess.Popen(
            [*words, "--state", str(broker.folder / "1")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**clean, "HEADRACE_DEVICE_TOKEN": write_token(token_of("1"), PROJECT)},
            text=True,
            cwd=broker.folder,
        )
        assert anna.stdin is not None and anna.stdout is not None
        with anna, anna.stdin:
            anna.stdin.write(json.dumps({"stream": "location", "row": NEAR}) + "\n")
            anna.stdin.flush()
            said = subprocess.run(
                [environment / "bin" / "python", "-c", IN_PYTHON, broker.url, write_token(token_of("2"), PROJECT),
                 str(broker.folder / "2"), "numpy", "pyarrow", "pydantic", "typer", "rich", "sqlglot", "paho"],
                capture_output=True, text=True, check=True, env=clean, cwd=broker.folder,
            )  # fmt: skip
            assert said.stdout.split()[1:] == ["paho"]
            assert json.loads(anna.stdout.readline())["pair"] == ["1", "2"]
            assert rss_mb(anna.pid) < 60
        assert anna.returncode == 0
        wait_for(lambda: cloud.devices["1"].there())
    finally:
        cloud.close()
