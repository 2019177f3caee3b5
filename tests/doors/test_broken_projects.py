"""Projects with mistakes, and what `headrace check` says about each: is it what a person needs?"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.doors.cli import main
from headrace.doors.cli.output import Exit
from tests.golden import check_golden

BROKEN = Path(__file__).parents[1] / "golden" / "broken"
PROJECTS = sorted(folder for folder in BROKEN.iterdir() if folder.is_dir())


def test_there_are_fifty_broken_projects() -> None:
    assert len(PROJECTS) >= 50


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_a_broken_project_is_told_what_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for variable in ("US_DSN", "DSN"):
        monkeypatch.delenv(variable, raising=False)
    assert main.run(["check"]) == Exit.NO
    out, err = capsys.readouterr()
    assert err == ""
    assert "hunter2" not in out
    check_golden(folder / "expected.txt", out)
