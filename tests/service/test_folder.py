"""The state of a project: the running plan comes back as it was, and nothing else comes out of its file."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from headrace.app.planning import plan_document, plan_project
from headrace.model.plan import PlanOptions
from headrace.service.folder import Folder, _version

CITY = Path(__file__).parents[2] / "examples" / "city"


def test_the_running_plan_comes_back(tmp_path):
    plan = plan_project(CITY, {}, PlanOptions())
    folder = Folder(tmp_path)
    folder.prepare()
    folder.save_running(plan, plan_document(plan))
    assert folder.running() == plan
    assert (folder.root / "running.plan").stat().st_mode & 0o077 == 0


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


def test_a_file_that_would_run_something_is_no_plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Folder(tmp_path)
    folder.prepare()
    (folder.root / "running.plan").write_bytes(pickle.dumps((_version(), Evil())))
    assert folder.running() is None
    assert not (tmp_path / "evil").exists()


def test_the_plan_of_another_version_is_not_read(tmp_path):
    folder = Folder(tmp_path)
    folder.prepare()
    (folder.root / "running.plan").write_bytes(pickle.dumps((("running/0", "0", (3, 11)), None)))
    assert folder.running() is None
