"""Runs the README's commands in an empty folder and compares what they print. `UPDATE_GOLDEN=1` rewrites it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
CONSOLE = re.compile(r"```console\n(\$ .*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_commands_of_the_readme_print_what_it_shows(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    shown = CONSOLE.sub(lambda block: f"```console\n{_replayed(block[1], tmp_path)}```", text)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        README.write_text(shown, encoding="utf-8")
    elif shown != text:
        pytest.fail(f"the README shows something else; UPDATE_GOLDEN=1 rewrites it\n{shown}", pytrace=False)
    for code in PYTHON.findall(text):
        assert _run(f"{sys.executable} - <<'END'\n{code}END", tmp_path) == "300.0\n"


def _replayed(block: str, folder: Path) -> str:
    """The commands of a block, each followed by what it prints."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{_run(command[2:], folder)}" for command in commands)


def _run(command: str, folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ended = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr == ""
    return ended.stdout
