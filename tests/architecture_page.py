"""What `docs/architecture.md` says about modules: all that it names, and those that each of its lives passes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
LIVES = ("declaration", "contract", "change", "crash")
PATH = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|md))?)`")


def named_paths(text: str) -> list[str]:
    """Modules (`run/push/push.py`), folders of modules (`run/operators/`), tests and documents."""
    return list(dict.fromkeys(PATH.findall(text)))


def lives() -> dict[str, str]:
    """The sections that follow one thing through the code, by what that is."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {life: found[f"The life of a {life}"] for life in LIVES}


def not_passed(life: str, ran: set[str]) -> list[str]:
    """What the page says of a life that did not run; a folder is passed when one of its modules is."""
    return [path for path in named_paths(lives()[life]) if not any(one.startswith(path) for one in ran)]
