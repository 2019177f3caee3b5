"""Keeps the page on troubleshooting true: every message that it explains is one that the code can print."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "troubleshooting.md"
CODE = ROOT / "src" / "headrace"
ANY = "\0"
"""Stands for what a message fills in."""
ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def test_every_message_that_the_page_explains_is_one_that_the_code_prints() -> None:
    printed = "\n".join(text for file in sorted(CODE.rglob("*.py")) for text in _texts(ast.parse(file.read_text())))
    messages = ROW.findall(PAGE.read_text())
    assert len(messages) > 50
    unknown = [message for message in messages if not all(part in printed for part in _fixed_parts(message))]
    assert not unknown


def _texts(tree: ast.AST) -> list[str]:
    """All texts of a module, also of f-strings, with what these fill in left open."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr():
                found.append("".join(str(one.value) if isinstance(one, ast.Constant) else ANY for one in node.values))
            case ast.Constant(str() as text):
                found.append(text)
    return found


def _fixed_parts(message: str) -> list[str]:
    """The parts of a message between those that are filled in, without names in quotes, which are filled in too."""
    return [part for piece in message.split("...") for part in [piece.strip(' "')] if part]
