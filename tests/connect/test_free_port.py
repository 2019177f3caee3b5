from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace.connect import free_port as module
from headrace.connect.free_port import free_port


def test_a_port_is_never_one_that_an_outgoing_connection_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    setting = tmp_path / "range"
    setting.write_text("11500\t60999\n")
    monkeypatch.setattr(module, "SETTING", setting)
    assert all(module.LOWEST <= free_port() < 11_500 for _ in range(50))


def test_where_nothing_is_left_below_any_port_that_is_free_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    setting = tmp_path / "range"
    setting.write_text("10001\t60999\n")
    monkeypatch.setattr(module, "SETTING", setting)
    assert len({free_port() for _ in range(20)}) > 1, "two that start together do not meet"


def test_a_port_that_is_taken_is_not_offered(monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("random.randrange", lambda *_: port)
        assert free_port() != port


def test_a_machine_that_does_not_tell_its_range_has_a_usual_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SETTING", tmp_path / "missing")
    assert module.LOWEST <= free_port() < module.OUTGOING
