"""A shell for the commands of a page, and what pages with commands are made of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

DONE = "that was all"


class Shell:
    """One shell for all commands, since they set variables."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={**os.environ, "PATH": path, "COLUMNS": "80"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> str:
        assert self._bash.stdin is not None and self._bash.stdout is not None
        self._bash.stdin.write(f"{command}\necho; echo {DONE}\n")
        self._bash.stdin.flush()
        lines = iter(self._bash.stdout.readline, f"{DONE}\n")
        said = "".join(lines)
        return said.removesuffix("\n") if said.endswith("\n\n") or said == "\n" else said

    def end(self, last: str) -> None:
        """After a last command."""
        self._bash.communicate(f"{last}\n", timeout=60)


def split_commands(block: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown
