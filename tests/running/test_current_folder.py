"""Modules that happen to lie in the folder from which Headrace is started are never executed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.declare.starter import FILES
from tests.declare.projects import write_project
from tests.running.running_project import RunningProject

SHADOWED = (
    *("psycopg", "pyarrow", "numpy", "sqlglot", "typer", "pydantic", "ruamel", "uvicorn", "fastapi", "pyspark", "py4j"),
    *("json", "subprocess", "logging", "secrets", "sqlite3"),
)
TRAP = "import pathlib\npathlib.Path(__file__).with_suffix('.executed').touch()\nraise SystemExit('executed')\n"


@pytest.fixture
def trapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with modules that leave a trace when they are imported."""
    folder = tmp_path_factory.mktemp("trapped")
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(TRAP)
    return folder


def executed(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.executed"))


def test_a_command_that_is_started_as_a_module_imports_nothing_from_the_current_folder(
    trapped: Path, tmp_path: Path
) -> None:
    write_project(tmp_path, FILES["headrace.yml"], sales_by_country=FILES["views/sales_by_country.sql"])
    command = [sys.executable, "-m", "headrace", "plan", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=trapped)
    assert (ran.returncode, executed(trapped)) == (0, []), ran.stderr


def test_a_service_and_its_captures_import_nothing_from_the_current_folder(
    project: RunningProject, trapped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trapped)
    project.declare("counts")
    project.up()
    project.change_something(300)
    project.until_equal("counts")
    assert executed(trapped) == []


SCRIPT = """
import sys
from pathlib import Path
from headrace.connect.spark.items import warm_up
from headrace.connect.spark.session import SparkSettings, start_session
session = start_session(SparkSettings(Path(sys.argv[1]), short_lived=True))
warm_up(session)
"""


@pytest.mark.long
@pytest.mark.live
def test_workers_of_spark_import_nothing_from_the_current_folder(trapped: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", SCRIPT, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=trapped)
    assert (ran.returncode, executed(trapped)) == (0, []), ran.stderr
