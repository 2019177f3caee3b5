"""A demo that cannot begin leaves nothing behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from headrace.app.demo import Demo


def test_a_demo_that_cannot_be_copied_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(FileNotFoundError):
        Demo(tmp_path / "missing", lambda *_: pytest.fail("nothing is served"), print)
    assert list(tmp_path.iterdir()) == []
