"""Tokens are made from the project's secret; revoking one survives everything and touches no other."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.connect.mqtt.users import refuse_id
from headrace.doors.cli.main import run
from headrace.model.device_messages import quote_id, read_token
from headrace.model.errors import UnknownName, UnreadableState
from headrace.site.devices.registry import FILE, find_tokens, read_registry, revoke_device, set_members
from headrace.site.devices.tokens import KEY_FILE, make_client_id, make_token
from headrace.site.folder import Folder
from tests.declare.projects import MINIMAL, write_project

KEY = bytes(range(32))


def ask(capsys: pytest.CaptureFixture[str], *words: str):
    status = run(["devices", *words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_tokens_differ_by_project_device_generation_and_key():
    made = {
        make_token(key, project, device, generation).token
        for key in (KEY, bytes(32))
        for project, device in (("p", "1"), ("p", "2"), ("q", "1"), ("p|1", "1"), ("p", "1|1"))
        for generation in (1, 2)
    }
    assert len(made) == 20
    assert make_token(KEY, "p", "1", 1) == make_token(KEY, "p", "1", 1)
    token = make_token(KEY, "p", "1", 3).token
    prefix, generation, digits = token.split("_")
    assert (prefix, generation, len(digits)) == ("hrd", "3", 48)
    assert token not in repr(make_token(KEY, "p", "1", 3))


def test_revoking_raises_the_generation_of_one_device(tmp_path: Path):
    folder = Folder(tmp_path)
    assert set_members(folder, {"phones": ["2", "1"], "vans": ["7"]})
    assert not set_members(folder, {"phones": ["1", "2", "2"], "vans": ["7"]})
    before = {one.device: one.token for one in find_tokens(folder, "p", ("1", "2", "7"))}
    assert revoke_device(folder, "2") == 2
    assert revoke_device(folder, "2") == 3
    after = {one.device: one.token for one in find_tokens(folder, "p", ("1", "2", "7"))}
    assert {device for device in before if before[device] != after[device]} == {"2"}
    set_members(folder, {"phones": ["1"]})
    assert read_registry(folder).devices == ("1",)
    assert read_registry(folder).generation_of("2") == 3, "a device that comes back has no old token"


def test_those_who_revoke_at_once_do_not_lose_each_other(tmp_path: Path):
    folder = Folder(tmp_path)
    set_members(folder, {"phones": [str(number) for number in range(40)]})
    with ThreadPoolExecutor(8) as many:
        list(many.map(lambda number: revoke_device(folder, str(number)), range(40)))
    assert read_registry(folder).generations == {str(number): 2 for number in range(40)}
    assert [path.name for path in folder.root.iterdir() if path.name.startswith(f".{FILE}")] == []


def test_a_damaged_registry_lets_no_old_token_count(tmp_path: Path):
    folder = Folder(tmp_path)
    set_members(folder, {"phones": ["1"]})
    for text in ("", "{}", "[]", '{"groups": [], "generations": {}}', '{"groups": {}, "generations": {"1": "x"}}'):
        (folder.root / FILE).write_text(text)
        with pytest.raises(UnreadableState):
            read_registry(folder)


def test_ids_that_no_topic_can_hold_are_refused():
    assert all(refuse_id(device) for device in ("", "cloud", "\ud800", "x" * 700))
    assert not any(refuse_id(device) for device in ("1", "a/b", "+", "#", "~router", "ü" * 66))


def test_the_command_shows_tokens_of_any_device_and_revokes_known_ones(tmp_path: Path, capsys):
    here = ["--directory", str(write_project(tmp_path, MINIMAL))]
    status, answer = ask(capsys, "tokens", "17", "a b", *here)
    assert status == 0
    assert [(one["device"], one["user"], one["generation"]) for one in answer["devices"]] == [
        ("17", "17", 1),
        ("a b", quote_id("a b"), 1),
    ]
    for one in answer["devices"]:
        assert read_token(one["token"]) == (one["password"], "p")
    key = tmp_path / ".headrace" / KEY_FILE
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert ask(capsys, "tokens", *here) == (0, {"devices": []})
    set_members(Folder(tmp_path), {"phones": ["17", "18"]})
    status, revoked = ask(capsys, "revoke", "17", *here)
    assert (status, revoked["generation"]) == (0, 2)
    status, all_of_them = ask(capsys, "tokens", *here)
    assert [one["device"] for one in all_of_them["devices"]] == ["17", "18"]
    assert all_of_them["devices"][0]["token"] == revoked["token"] != answer["devices"][0]["token"]


def test_unknown_devices_and_odd_ids_are_refused_by_name(tmp_path: Path, capsys):
    here = ["--directory", str(write_project(tmp_path, MINIMAL))]
    status, answer = ask(capsys, "revoke", "99", *here)
    assert status != 0 and '"99"' in answer["errors"][0]["message"]
    status, answer = ask(capsys, "tokens", "cloud", *here)
    assert status != 0 and "no id of a device" in answer["errors"][0]["message"]
    status, answer = ask(capsys, "tokens", "--directory", str(tmp_path / "nowhere"))
    assert status != 0 and "no project" in answer["errors"][0]["message"]
    with pytest.raises(UnknownName, match="99"):
        revoke_device(Folder(tmp_path), "99")


def test_the_rights_for_mosquitto_are_printed(tmp_path: Path, capsys):
    here = ["--directory", str(write_project(tmp_path, MINIMAL))]
    status, answer = ask(capsys, "tokens", "--acl", "mosquitto", "--cloud", "us", *here)
    assert status == 0
    lines = [line for line in answer["acl"].splitlines() if not line.startswith("#")]
    assert lines == [
        "pattern write hr/p/up/%u/#",
        "pattern read hr/p/down/%u/#",
        "user us",
        "topic readwrite hr/p/#",
        "topic read $SYS/broker/version",
    ]


def test_nobody_can_guess_what_parts_of_the_cloud_are_called_at_the_broker():
    made = {make_client_id(key, "p", part) for key in (KEY, bytes(32)) for part in ("router", "placer")}
    assert len(made) == 4
    assert make_client_id(KEY, "p", "router") == make_client_id(KEY, "p", "router"), "its session outlives a connection"


def test_revoking_says_what_to_change_at_a_broker_of_somebody_elses(tmp_path: Path, capsys):
    devices = """
sources: {people: {kind: table, at: us, key: uid, columns: {uid: bigint}}}
devices:
  phones:
    table: people
    id: uid
    broker: {mqtt: "mqtt://box:word@127.0.0.1:1"}
    streams: {location: {columns: {lat: double}}}
"""
    write_project(tmp_path, MINIMAL + devices)
    set_members(Folder(tmp_path), {"phones": ["1"]})
    run(["devices", "revoke", "1", "--directory", str(tmp_path)])
    assert "the old token still signs in there until you change" in capsys.readouterr().out
