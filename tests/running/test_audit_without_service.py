"""`headrace audit --recompute` while its service goes down: it ends at once, and says what it could not compare."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.running.running_project import RunningProject


@pytest.mark.long
def test_an_audit_whose_service_goes_down_says_so(project: RunningProject) -> None:
    project.declare("by_pid", "named")
    project.up()
    with project.eu.transaction():
        project.eu.execute("INSERT INTO posts VALUES (5001, 1, 'open')")  # keeps the audit waiting for its lock
        command = [sys.executable, "-m", "headrace", "audit", str(project.folder), "--recompute"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as audit:
            assert audit.stderr is not None
            assert "waiting for a moment at which nobody writes" in audit.stderr.readline()
            project.headrace("down")
            said, complaints = audit.communicate(timeout=100)
    assert audit.returncode == 3, said + complaints
    assert "0 of 2 views could be compared" in said and "Traceback" not in said + complaints
    assert " ".join(said.split()).count("the service went down during the audit") == 2
    assert list((project.folder / ".headrace" / "audit").iterdir()) == []
