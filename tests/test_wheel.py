"""The wheel, installed by pip in fresh environments: without extras it plans, with `spark` it runs the demo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def pip(python: Path | str, *words: str) -> None:
    ran = subprocess.run([str(python), "-m", "pip", *words], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


def install(wheel: Path, extras: str, folder: Path) -> Path:
    """The command `headrace` of a fresh environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip(folder / "bin" / "python", "install", f"headrace{extras} @ {wheel.as_uri()}")
    return folder / "bin" / "headrace"


def test_without_extras_the_wheel_plans_and_names_what_it_cannot_do(wheel: Path, tmp_path: Path) -> None:
    command, shop = install(wheel, "", tmp_path / "venv"), str(tmp_path / "shop")
    for words in (["init", shop], ["check", shop], ["plan", shop], ["why", "sales", shop]):
        ran = subprocess.run([command, *words], capture_output=True, text=True, cwd=tmp_path)
        assert (ran.returncode, ran.stderr) == (0, ""), words
    ran = subprocess.run([command, "demo"], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 2 and "pip install 'headrace[spark]'" in ran.stderr


def test_with_spark_the_wheel_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    command = install(wheel, "[spark]", tmp_path / "venv")
    ran = subprocess.run([command, "demo", "--for", "5s", "--json"], capture_output=True, text=True, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["ok"]
