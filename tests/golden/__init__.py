"""Compares text with a golden file. `UPDATE_GOLDEN=1` rewrites the files; the diff is then the review."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest


def check_golden(path: Path, actual: str) -> None:
    """Fail with a unified diff when `actual` is not what the file at `path` holds."""
    __tracebackhide__ = True
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(actual, encoding="utf-8")
        return
    if not path.exists():
        pytest.fail(f"golden file {path} does not exist; UPDATE_GOLDEN=1 writes it", pytrace=False)
    expected = path.read_text(encoding="utf-8")
    if actual != expected:
        pytest.fail(f"{path} differs; UPDATE_GOLDEN=1 rewrites it\n{_difference(expected, actual)}", pytrace=False)


def _difference(expected: str, actual: str) -> str:
    lines = difflib.unified_diff(expected.splitlines(), actual.splitlines(), "golden", "actual", lineterm="")
    return "\n".join(lines) or "only the line ends or the last line's end differ"
