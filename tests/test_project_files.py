"""Keeps what surrounds the code in order: locks, licence, change fragments, the scripts that CI runs."""

from __future__ import annotations

import ast
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
KINDS = {"added", "changed", "fixed", "removed", "security"}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(lock: Path) -> dict[str, list[Requirement]]:
    """The requirements of a lock by name; a name has several when its version depends on the Python."""
    lines = re.findall(r"^([A-Za-z0-9].*?) *\\?$", lock.read_text(), re.MULTILINE)
    found: dict[str, list[Requirement]] = {}
    for requirement in map(Requirement, lines):
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def version(requirement: Requirement) -> Version:
    (pin,) = requirement.specifier
    assert pin.operator == "==", f"{requirement} is not pinned"
    return Version(pin.version)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_holds_versions_and_hashes_and_nothing_else(lock: Path):
    pinned = r"[a-z0-9][a-z0-9.-]*==[^\s;/:@]+( ; [^/:@\\]+)? \\"
    a_hash = r"    --hash=sha256:[0-9a-f]{64}( \\)?"
    wrong = [line for line in lock.read_text().splitlines() if not re.fullmatch(f"{pinned}|{a_hash}", line)]
    assert not wrong


def test_the_locks_answer_every_requirement_of_the_project():
    wanted = [*project()["project"]["dependencies"]]
    for extra in project()["project"]["optional-dependencies"].values():
        wanted += extra
    check_answered(wanted, ROOT / "requirements" / "run.txt")
    check_answered([*wanted, *project()["dependency-groups"]["dev"]], ROOT / "requirements" / "dev.txt")
    check_answered(project()["build-system"]["requires"], ROOT / "requirements" / "build.txt")


def check_answered(wanted: list[str], lock: Path) -> None:
    have = locked(lock)
    stale = [
        text
        for text, requirement in ((text, Requirement(text)) for text in wanted)
        for pinned in have.get(canonicalize_name(requirement.name), [None])
        if pinned is None or not requirement.specifier.contains(version(pinned))
    ]
    assert not stale, f"{lock.name} is older than pyproject.toml: ./dev lock"


@pytest.mark.parametrize("smaller", ["run.txt", "build.txt"])
def test_the_development_lock_contains_the_others(smaller: str):
    def lines(name: str) -> set[str]:
        return {str(r) for rs in locked(ROOT / "requirements" / name).values() for r in rs}

    assert lines(smaller) <= lines("dev.txt")


def test_the_set_up_script_needs_only_the_standard_library():
    tree = ast.parse((ROOT / "dev").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_set_up_script_without_arguments_says_what_it_can_do_and_sets_up_nothing(tmp_path: Path):
    copy = tmp_path / "dev"
    copy.write_text((ROOT / "dev").read_text())
    ran = subprocess.run([sys.executable, copy], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(f"./dev {command}" in ran.stdout for command in ("demo", "test", "check", "run", "lock", "release"))
    assert [file.name for file in tmp_path.iterdir()] == ["dev"]


def test_an_unknown_command_of_the_set_up_script_is_wrong_use():
    ran = subprocess.run([sys.executable, ROOT / "dev", "tset"], capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith('error: "tset" is not a command\n  hint: ')


@pytest.mark.parametrize("name", ["dev", ".ci/run"])
def test_scripts_can_be_executed(name: str):
    assert (ROOT / name).stat().st_mode & stat.S_IXUSR


def test_ci_runs_the_checks_and_the_tests():
    text = (ROOT / ".ci" / "run").read_text()
    assert "./dev check" in text
    assert "./dev test" in text


def test_the_licence_is_there_in_full():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_every_change_fragment_has_a_name_a_kind_and_a_text():
    for fragment in sorted((ROOT / "changes").iterdir()):
        if fragment.name != "README.md":
            name = re.fullmatch(r"[a-z0-9-]+\.([a-z]+)\.md", fragment.name)
            assert name is not None, f"{fragment.name} is not NAME.KIND.md"
            assert name[1] in KINDS, f"{fragment.name} is none of {sorted(KINDS)}"
            assert fragment.read_text().strip(), f"{fragment.name} is empty"


def test_no_committed_file_names_a_folder_of_somebodys_machine():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    private = re.compile(rb"(?<![\w.~}])/(?:work|root|home/\w+|Users/\w+)/")
    files = [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    named = [
        str(file.relative_to(ROOT)) for file in files if file != Path(__file__) and private.search(file.read_bytes())
    ]
    assert not named
