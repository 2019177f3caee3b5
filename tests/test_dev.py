"""The script `dev`: which Pythons it finds."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
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
