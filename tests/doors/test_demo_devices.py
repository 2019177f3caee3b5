"""The demo of devices, as a newcomer starts it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from headrace.app.checking import check_project
from headrace.app.demo_devices import DevicesClosing, DevicesLook, PhoneLook
from headrace.app.project import sample_project
from headrace.doors.cli.demo_devices_text import closing_text, look_lines, look_table
from headrace.model.errors import Severity

LOOK = DevicesLook(
    phones=(PhoneLook("anna", True, 12, ("bela", "cem")), PhoneLook("bela", False, 3, ())),
    near=(("anna", "bela", 120),),
    on_devices=1,
    pairs=2,
    messages_s=1.5,
    all_cloud_messages_s=3.0,
)


def leftovers() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("headrace-demo-*")}


def test_the_sample_of_devices_has_no_mistakes_but_an_address_that_is_not_known_yet() -> None:
    folder = sample_project("friends")
    assert folder is not None
    report = check_project(folder, {})
    assert report.of(Severity.ERROR) == ()


def test_a_look_says_who_runs_what_and_how_many_messages_that_takes() -> None:
    assert look_table(LOOK)[1:] == ["anna   yes        12    bela, cem", "bela   NO         3"]
    assert list(look_lines(7.0, LOOK)) == [
        "  7 s  1 of 2 pairs run on phones; 1.5 messages/s instead of 3.0",
        "       near: anna and bela 120 m",
    ]


@pytest.mark.parametrize("missing", [(), ((1, 2, 120),)])
def test_the_end_says_whether_the_view_is_what_the_phones_say(missing: tuple[tuple[int, int, int], ...]) -> None:
    closing = DevicesClosing(60.0, 9.0, "generated walks", 15, 1, missing, (), 0.4, LOOK)
    said = closing_text(closing)
    assert closing.ok is not bool(missing)
    assert ("the view equals what" in said) is closing.ok
    assert ("missing: (1, 2, 120)" in said) is bool(missing)


@pytest.mark.live
@pytest.mark.long
def test_twenty_phones_walk_and_the_view_is_right_in_the_end() -> None:
    before = leftovers()
    demo = [sys.executable, "-m", "headrace", "demo", "--devices", "--for", "15s", "--json"]
    ended = subprocess.run(demo, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    document = json.loads(ended.stdout)
    assert document["ok"] and document["pairs"] == 14 and len(document["phones"]) == 20
    assert all(one["connected"] and one["rows"] for one in document["phones"])
    assert leftovers() == before
