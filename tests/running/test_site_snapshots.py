"""What a view starts from comes from another site in parts, and a site that is killed goes on after the last one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.site.folder import Folder
from headrace.site.process import running_process
from headrace.site.site_folders import site_folder
from tests.running.running_project import RunningProject, until

ROWS = 400_000


@pytest.fixture
def large(project: RunningProject) -> Iterator[RunningProject]:
    project.us.execute(
        "INSERT INTO users SELECT i, md5(i::text) || md5((-i)::text), 'c' || i %% 3"
        " FROM generate_series(1000, 999 + %s) i",
        (ROWS,),
    )
    (project.folder / "views" / "everybody.sql").write_text("SELECT uid, name, country FROM users")
    project.declare("by_pid", more="  everybody: {view: everybody, at: eu, freshness: 10 s}\n")
    try:
        yield project
    finally:
        project.headrace("down")


def parts_of(project: RunningProject, site: str) -> dict[str, tuple[int, int]]:
    """Parts that a site has received: what they are, and when each was written."""
    root = site_folder(Folder(project.folder), site).root / "snapshots" / "received"
    found = [file for file in root.glob("*/*/*") if not file.name.startswith(".")]
    return {str(file): written(file) for file in found}


def written(file: Path) -> tuple[int, int]:
    about = file.stat()
    return about.st_ino, about.st_mtime_ns


@pytest.mark.long
def test_a_site_that_is_killed_while_it_receives_a_snapshot_goes_on_with_the_next_part(large: RunningProject) -> None:
    command = [sys.executable, "-m", "headrace", "up", str(large.folder), "--detach", "--engine=local"]
    starting = subprocess.Popen([*command, "--sites=processes"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: len(parts_of(large, "eu")) >= 2, "some parts have come", every_s=0.002)
    process = running_process(site_folder(Folder(large.folder), "eu"))
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    before = parts_of(large, "eu")
    assert starting.wait(120.0) == 0
    until(lambda: len(large.document("show", "everybody")["rows"]) == ROWS + 20, "all rows are there", every_s=1.0)
    after = parts_of(large, "eu")
    assert before.items() <= after.items(), "no part that had come was sent again"
    assert len(after) >= ROWS // 65_536
