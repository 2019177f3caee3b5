"""Modules that happen to lie in the folder from which Headrace is started are never executed.

The service and its captures are started from such a folder by `test_secrets.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.declare.starter import FILES
from tests.declare.projects import write_project
from tests.running.trapped_folder import executed


def test_a_command_that_is_started_as_a_module_imports_nothing_from_the_current_folder(
    trapped: Path, tmp_path: Path
) -> None:
    write_project(tmp_path, FILES["headrace.yml"], sales_by_country=FILES["views/sales_by_country.sql"])
    command = [sys.executable, "-m", "headrace", "plan", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=trapped)
    assert (ran.returncode, executed(trapped)) == (0, []), ran.stderr


SCRIPT = """
import sys
from pathlib import Path
from headrace.connect.spark.items import warm_up
from headrace.connect.spark.properties import SparkSettings
from headrace.connect.spark.session import start_session
session = start_session(SparkSettings(Path(sys.argv[1]), short_lived=True))
warm_up(session)
"""


@pytest.mark.long
@pytest.mark.live
def test_workers_of_spark_import_nothing_from_the_current_folder(trapped: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", SCRIPT, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=trapped)
    assert (ran.returncode, executed(trapped)) == (0, []), ran.stderr


DECLARED = """
project: p
sites: {us: {}}
sources:
  t: {kind: table, at: us, rows: 10, rate: 1 /s, columns: {x: bigint}, key: [x]}
functions:
  scaled: {python: "psycopg:scaled", arguments: [bigint], returns: bigint, deterministic: true}
contracts:
  c: {view: v, at: us, freshness: 30 s}
"""


def test_a_project_that_is_only_checked_executes_nothing_of_its_own(trapped: Path) -> None:
    write_project(trapped, DECLARED, v="SELECT x, scaled(x) AS y FROM t")
    command = [sys.executable, "-m", "headrace", "check", str(trapped)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=trapped)
    assert (ran.returncode, executed(trapped)) == (0, []), ran.stdout + ran.stderr
