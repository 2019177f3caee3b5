"""A site's process listens to people from the start, and loads what answers them with the first question."""

from __future__ import annotations

import subprocess
import sys
import urllib.request

import pytest

from headrace.app.late_server import LateServer, ListeningPort
from headrace.app.running import Server

ASKED = """
import sys, urllib.error, urllib.request
from types import SimpleNamespace
from headrace.doors.cli.agent import _serve_when_asked as serve
from headrace.model.errors import UsageError

troubles = SimpleNamespace(standstill=lambda: None)
service = SimpleNamespace(site="eu", troubles=troubles, feed_door=None)
host = SimpleNamespace(service=service, calibrate_feed=None, state=SimpleNamespace(value="running"))

server = serve(host, "t", 0)
try:
    serve(host, "t", server.port)
except UsageError as error:
    print(str(error).replace(str(server.port), "PORT"))
print(server.is_asked, "fastapi" in sys.modules)
address = f"http://127.0.0.1:{server.port}"
for path in ("/healthz", "/healthz", "/status"):
    try:
        print(urllib.request.urlopen(address + path).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code)
print(server.is_asked)
server.stop()
try:
    urllib.request.urlopen(address)
except urllib.error.URLError as error:
    print(type(error.reason).__name__)
idle = serve(host, "t", server.port)
idle.stop()
print(idle.is_asked)
"""


def test_the_first_question_is_answered_and_before_it_nothing_is_loaded() -> None:
    said = subprocess.run([sys.executable, "-c", ASKED], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == [
        "port PORT of this machine is in use",
        "False False",
        '{"state":"running"}',
        '{"state":"running"}',
        "401",
        "True",
        "ConnectionRefusedError",
        "False",
    ]


def test_nobody_waits_for_what_cannot_answer(caplog: pytest.LogCaptureFixture) -> None:
    def begin(_: ListeningPort) -> Server:
        raise MemoryError("no room for what answers")

    server = LateServer(0, begin)
    try:
        with pytest.raises(OSError, match=r"refused|reset") as found:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=20.0)
        assert not isinstance(found.value, TimeoutError)
        assert "no room for what answers" in caplog.text
    finally:
        server.stop()
