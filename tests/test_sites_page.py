"""Runs the commands of docs/sites.md that take somebody from nothing to a view at another site, in one shell.

Two addresses of this machine stand for the two machines. What `show` prints must be what the page shows, up to ages; of
commands whose output the page does not show, only that they work is asked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.connect.free_port import free_port
from tests.page_shell import Shell

PAGE = Path(__file__).parents[1] / "docs" / "sites.md"
SECTION = re.compile(r"(?<=## Ten minutes, two machines\n).*?(?=\n## )", re.DOTALL)
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
FILE = re.compile(r"```(?:yaml\n#|sql\n--) (\S+)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^(?:us|eu)\$ (.*)\n((?:(?!us\$ |eu\$ ).*\n)*)", re.MULTILINE)
TOKEN = re.compile(r"--site (\w+) .*?--token (\S+)", re.DOTALL)
AGE = re.compile(r"as of [\d.]+ m?s ago")
SHOWN_WITHIN_S = 60.0
"""The view promises five seconds; a machine that runs other tests may need more."""

pytestmark = pytest.mark.live


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    yield opened
    opened.end("for folder in eu us shop; do headrace down $folder; done")


def test_the_page_leads_from_nothing_to_a_view_at_another_site(shell: Shell, tmp_path: Path) -> None:
    section = SECTION.search(PAGE.read_text(encoding="utf-8"))
    assert section is not None
    for name, text in FILE.findall(section[0]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    port, tokens = str(free_port()), dict[str, str]()
    for command, shown in (found for block in BLOCK.findall(section[0]) for found in COMMAND.findall(block)):
        _run(_fill(command, port, tokens), shown, shell, tokens)
    assert set(tokens) == {"us", "eu"}


def _fill(command: str, port: str, tokens: dict[str, str]) -> str:
    """The command for this machine: its addresses, a free port, and the token of the site that joins."""
    here = command.replace("10.0.0.1", "127.0.0.1").replace("10.0.0.2", "127.0.0.2").replace("7433", port)
    joins = re.search(r"agent --site (\w+)", here)
    return here if joins is None else here.replace("TOKEN", tokens[joins[1]]).replace(" &", " > /dev/null 2>&1 &")


def _run(command: str, shown: str, shell: Shell, tokens: dict[str, str]) -> None:
    """A view is asked for again until it has what was written, as long as that may take."""
    until = time.monotonic() + (SHOWN_WITHIN_S if shown else 0.0)
    while True:
        said = shell.run(command if command.endswith("&") else f"{command} || echo FAILED")
        if (not shown or AGE.sub("AGE", said) == AGE.sub("AGE", shown)) or time.monotonic() > until:
            break
        time.sleep(0.3)
    tokens |= dict(TOKEN.findall(said))
    if shown:
        assert AGE.sub("AGE", said) == AGE.sub("AGE", shown)
    assert "FAILED" not in said, f"{command}: {said}"
