"""Runs the commands of docs/feeds.md that take somebody from nothing to a feed that is served, in one shell.

What they print must be what the page shows, up to times and the like. `UPDATE_GOLDEN=1` rewrites the page. Of commands
in blocks without output only that they work is asked.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.connect.free_port import free_port
from tests.page_shell import Shell, split_commands

PAGE = Path(__file__).parents[1] / "docs" / "feeds.md"
SECTION = re.compile(r"(?<=## Ten minutes\n).*?(?=\n## )", re.DOTALL)
BLOCK = re.compile(r"```(console|sh)\n(.*?)```", re.DOTALL)
PROJECT = re.compile(r"```yaml\n# social/headrace.yml\n(.*?)```", re.DOTALL)
PORT = "8080"
SHOWN_WITHIN_S = 60.0
"""The feed promises two seconds; a machine that runs other tests may need more."""

DIFFERS = (
    (re.compile(r'"next":"[^"]+"'), '"next":CURSOR'),
    (re.compile(r'"origin":"\w+"'), '"origin":EITHER'),
    (re.compile(r'"stored":\d+,"pulled":\d+'), '"stored":SOME,"pulled":OTHERS'),
    (re.compile(r'"lag_s":[\d.e-]+'), '"lag_s":SECONDS'),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"[\d.]+ m?s ago"), "SECONDS ago"),
)
"""What is different each time."""

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("curl") is None, reason="the page shows how to ask with curl"),
]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    yield opened
    opened.end("headrace down social")


def test_the_page_leads_from_nothing_to_a_feed_that_is_served(shell: Shell, tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    section, declared = SECTION.search(text), PROJECT.search(text)
    assert section is not None and declared is not None
    (tmp_path / "social").mkdir()
    (tmp_path / "social" / "headrace.yml").write_text(declared[1])
    port = str(free_port())
    shown = BLOCK.sub(lambda block: f"```{block[1]}\n{_replay(block[1], block[2], shell, port)}```", section[0])
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PAGE.write_text(text.replace(section[0], shown), encoding="utf-8")
    elif _settle(shown) != _settle(section[0]):
        pytest.fail(f"the page shows something else; UPDATE_GOLDEN=1 rewrites it\n{shown}", pytrace=False)


def _replay(kind: str, block: str, shell: Shell, port: str) -> str:
    """The commands of a block, each followed by what it prints; or as they are, if their output is not shown."""
    if kind == "sh":
        for command in block.splitlines():
            said = shell.run(command.replace(PORT, port) + " || echo FAILED")
            assert "FAILED" not in said, said
        return block
    return "".join(f"{command}\n{_run(command, shown, shell, port)}" for command, shown in split_commands(block))


def _run(command: str, shown: str, shell: Shell, port: str) -> str:
    """A page is asked for again until it has what was posted, as long as that may take."""
    is_page = "feeds show" in command or "/anna" in command
    until = time.monotonic() + (SHOWN_WITHIN_S if shown and is_page else 0.0)
    while True:
        said = shell.run(command.removeprefix("$ ").replace(PORT, port)).replace(port, PORT)
        if _settle(said) == _settle(shown) or time.monotonic() > until:
            return said
        time.sleep(0.2)


def _settle(text: str) -> str:
    for what, name in DIFFERS:
        text = what.sub(name, text)
    return text
