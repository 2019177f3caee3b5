"""Runs the commands of docs/devices.md that take somebody from nothing to a template that runs, in one shell.

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

PAGE = Path(__file__).parents[1] / "docs" / "devices.md"
SECTION = re.compile(r"(?<=## Ten minutes\n).*?(?=\n## )", re.DOTALL)
BLOCK = re.compile(r"```(console|sh)\n(.*?)```", re.DOTALL)
PROJECT = re.compile(r"```yaml\n# town/headrace.yml\n(.*?)```", re.DOTALL)
VIEW = re.compile(r"```sql\n-- town/views/nearby_friends.sql\n(.*?)```", re.DOTALL)
PORT = "1883"
SHOWN_WITHIN_S = {"headrace show": 60.0, "headrace devices status": 60.0}
"""A machine that runs other tests may need long."""

DIFFERS = (
    (re.compile(r"as of [\d.]+ m?s ago"), "as of SECONDS ago"),
    (re.compile(r"(?<= online )[\d.]+ \w+ +\d+ "), "SINCE PLAN "),
    (re.compile(r"[\d.]+(?= +-$)", re.MULTILINE), "RATE"),
    (re.compile(r" {2,}"), "  "),
)
"""What is different each time."""

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("awk") is None, reason="the page takes tokens apart with awk"),
]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    yield opened
    opened.end("kill $ANNAS_PHONE $BOBS_PHONE 2>/dev/null; headrace down town")


def test_the_page_leads_from_nothing_to_a_template_that_runs(shell: Shell, tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    section, declared, view = SECTION.search(text), PROJECT.search(text), VIEW.search(text)
    assert section is not None and declared is not None and view is not None
    (tmp_path / "town" / "views").mkdir(parents=True)
    (tmp_path / "town" / "headrace.yml").write_text(declared[1])
    (tmp_path / "town" / "views" / "nearby_friends.sql").write_text(view[1])
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
            said = shell.run(command.replace(PORT, port) + ("" if command.endswith("&") else " || echo FAILED"))
            assert "FAILED" not in said, f"{command}: {said}"
        return block
    return "".join(f"{command}\n{_run(command, shown, shell, port)}" for command, shown in split_commands(block))


def _run(command: str, shown: str, shell: Shell, port: str) -> str:
    """Asks again until the answer is as shown, as long as that may take."""
    within_s = next((seconds for words, seconds in SHOWN_WITHIN_S.items() if words in command), 0.0)
    until = time.monotonic() + (within_s if shown else 0.0)
    while True:
        said = shell.run(command.removeprefix("$ ").replace(PORT, port)).replace(port, PORT)
        if _settle(said) == _settle(shown) or time.monotonic() > until:
            return said
        time.sleep(0.5)


def _settle(text: str) -> str:
    for what, name in DIFFERS:
        text = what.sub(name, text)
    return text
