"""The script `dev`: which Pythons it finds, and how it makes a release."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[1] / "dev"


@pytest.fixture(scope="module")
def dev() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("dev_script", str(FILE))
    spec = importlib.util.spec_from_loader("dev_script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = kept
    return module


def install(folder: Path, name: str, says: str) -> str:
    """A program that answers as a Python of some version would."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{says}\n")
    file.chmod(0o755)
    return str(file)


def test_every_python_of_the_path_that_is_recent_enough_is_found(dev: ModuleType, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    new = install(first, "python3", "echo 3 13 0")
    old = install(second, "python3", "echo 3 11 2")
    install(second, "python3.10", "echo 3 10 1")
    install(second, "python3.12", "exit 127")
    install(second, "python3-config", "echo 3 11 0")
    path = os.pathsep.join([str(first), str(tmp_path / "nowhere"), str(second)])
    assert dev.pythons_on(path) == {new: (3, 13, 0), old: (3, 11, 2)}


def test_where_the_path_has_none_the_python_that_runs_is_the_only_one(dev: ModuleType, tmp_path: Path) -> None:
    assert dev.pythons_on(str(tmp_path)) == {sys.executable: tuple(sys.version_info[:3])}


# Releases

PROJECT = '[project]\nname = "shop"\nversion = "0.1.0"\n\n[tool.other]\nversion = "7"\n'
FRAGMENTS = {
    "README.md": "# Changes\n",
    "b-plan.added.md": "`shop plan` says what\nit costs ([plan](../docs/plan.md)).\n",
    "a-check.added.md": "`shop check` checks.\n",
    "c-crash.fixed.md": f"It does not crash, {'and not at all, ' * 10}any more.\n",
}
SECTION = """\
## 0.2.0 (2026-11-17)

### Added

- `shop check` checks.
- `shop plan` says what it costs ([plan](docs/plan.md)).

### Fixed

- It does not crash, and not at all, and not at all, and not at all, and not at all, and not at all, and not at all, and
  not at all, and not at all, and not at all, and not at all, any more.
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project of its own with the script, two commits ago of a release."""
    (tmp_path / "changes").mkdir()
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    for name, text in FRAGMENTS.items():
        (tmp_path / "changes" / name).write_text(text)
    shutil.copy(FILE, tmp_path / "dev")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "everything")


def release(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "dev"), "release", *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_release_gathers_the_fragments_by_kind_and_sets_the_version(checkout: Path) -> None:
    ran = release(checkout, "0.2.0", "--date", "2026-11-17")
    assert ran.returncode == 0, ran.stderr
    assert (checkout / "CHANGELOG.md").read_text() == f"# Changelog\n\n{SECTION}"
    assert (checkout / "pyproject.toml").read_text() == PROJECT.replace("0.1.0", "0.2.0")
    assert [file.name for file in (checkout / "changes").iterdir()] == ["README.md"]
    assert "git commit" in ran.stdout and "git tag" in ran.stdout
    assert git(checkout, "log", "--oneline").count("\n") == 1, "committing is left to people"


def test_a_later_release_stands_above_an_earlier_one(checkout: Path) -> None:
    release(checkout, "0.2.0", "--date", "2026-11-17")
    (checkout / "changes" / "faster.changed.md").write_text("It is faster.\n")
    commit(checkout)
    assert release(checkout, "0.10.0", "--date", "2027-01-02").returncode == 0
    later = "## 0.10.0 (2027-01-02)\n\n### Changed\n\n- It is faster.\n"
    assert (checkout / "CHANGELOG.md").read_text() == f"# Changelog\n\n{later}\n{SECTION}"


def test_a_dry_run_prints_the_section_and_changes_nothing(checkout: Path) -> None:
    (checkout / "changes" / "d-more.removed.md").write_text("`shop old` is gone: use `shop new`.\n")
    before = {file: file.read_text() for file in checkout.glob("changes/*")}
    ran = release(checkout, "0.2.0", "--date", "2026-11-17", "--dry-run")
    assert ran.stdout == SECTION + "\n### Removed\n\n- `shop old` is gone: use `shop new`.\n"
    assert {file: file.read_text() for file in checkout.glob("changes/*")} == before
    assert not (checkout / "CHANGELOG.md").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "release needs a version"),
        (("0.1.0",), "0.1.0 is not newer than 0.1.0"),
        (("0.0.9",), "0.0.9 is not newer than 0.1.0"),
        (("2",), '"2" is not a version'),
        (("0.2.0", "--date", "soon"), '"soon" is not a date'),
        (("0.2.0", "--now"), '"--now"'),
    ],
)
def test_a_release_that_is_asked_for_wrongly_changes_nothing(checkout: Path, words: tuple[str, ...], said: str) -> None:
    ran = release(checkout, *words)
    assert ran.returncode == 2
    assert said in ran.stderr and "hint: " in ran.stderr
    assert git(checkout, "status", "--porcelain") == ""


def test_a_release_needs_everything_to_be_committed(checkout: Path) -> None:
    (checkout / "changes" / "late.fixed.md").write_text("It was forgotten.\n")
    ran = release(checkout, "0.2.0")
    assert ran.returncode == 1
    assert "changes/late.fixed.md" in ran.stderr and "commit" in ran.stderr
    assert not (checkout / "CHANGELOG.md").exists()


def test_there_is_no_release_without_changes(checkout: Path) -> None:
    release(checkout, "0.2.0")
    commit(checkout)
    ran = release(checkout, "0.3.0")
    assert ran.returncode == 1
    assert "changes/ holds no changes" in ran.stderr
