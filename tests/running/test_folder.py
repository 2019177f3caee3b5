"""The state of a project: the running plan comes back as it was, and a file that cannot be read is named."""

from __future__ import annotations

import logging
import os
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.app.planning import plan_document, plan_project
from headrace.app.running import log_to
from headrace.coordinate.doctor import look_at_state
from headrace.coordinate.measured import read_measured, running_to_plan_on
from headrace.model.errors import UnreadableState, UsageError
from headrace.model.plan import PlanOptions
from headrace.site.folder import Folder
from headrace.site.forced import ForcedTerms, read_forced, read_forced_promises, write_forced
from headrace.site.last_status import last_status
from headrace.site.private_folder import close_to_others
from headrace.site.process import read_process, running_process
from headrace.site.reading import open_reader

CITY = Path(__file__).parents[2] / "examples" / "city"


@pytest.fixture
def folder(tmp_path) -> Folder:
    made = Folder(tmp_path)
    made.prepare()
    return made


@pytest.fixture
def plan(folder):
    """Of the project in this folder, which a plan names."""
    made = plan_project(CITY, {}, PlanOptions())
    return replace(made, catalogue=replace(made.catalogue, directory=str(folder.project)))


def test_the_running_plan_comes_back(folder, plan):
    assert folder.running() is None
    folder.save_running(plan, plan_document(plan))
    assert folder.running() == plan
    assert (folder.root / "running.json").stat().st_mode & 0o077 == 0


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


@pytest.mark.parametrize("file", ["running.json", "running.plan"])
def test_nothing_runs_whatever_is_in_the_file_of_the_plan(file, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder.root / file).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UnreadableState, match=file):
        folder.running()
    assert not (tmp_path / "evil").exists()


READERS = {
    "running.json": (Folder.running, running_to_plan_on),
    "forced.json": (read_forced, read_forced_promises),
    "service.json": (read_process, running_process, last_status),
    "status.json": (last_status,),
}
DAMAGE = {
    "empty": b"",
    "cut off": b'{"format": "headrace/1", "entries": [{"is": "Sim',
    "bytes": b"\x80\x04\x95",
    "something else": b"[1]",
    "of another kind": b'{"colour": 7}',
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", READERS)
def test_a_damaged_file_is_named_with_what_to_do(file, damage, folder):
    (folder.root / "status.json").write_text('{"service": {"state": "stopped"}, "contracts": []}')
    (folder.root / file).write_bytes(DAMAGE[damage])
    for read in READERS[file]:
        with pytest.raises(UnreadableState) as refused:
            read(folder)
        assert str(folder.root / file) in refused.value.message
        assert refused.value.hint


@pytest.mark.parametrize("file", READERS)
def test_a_file_that_the_system_does_not_give_is_named(file, folder):
    (folder.root / "status.json").write_text('{"service": {"state": "stopped"}, "contracts": []}')
    (folder.root / file).unlink(missing_ok=True)
    (folder.root / file).mkdir()
    for read in READERS[file]:
        with pytest.raises(UnreadableState, match="Is a directory") as refused:
            read(folder)
        assert refused.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_only_others_may_read_is_named(folder):
    (folder.root / "running.json").write_text("{}")
    (folder.root / "running.json").chmod(0)
    with pytest.raises(UnreadableState, match="Permission denied"):
        folder.running()


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_was_measured_is_set_aside_with_a_warning_if_it_cannot_be_read(damage, folder, plan, caplog):
    folder.save_running(plan, plan_document(plan))
    (folder.root / "measured.json").write_bytes(DAMAGE[damage])
    assert read_measured(folder) is None
    assert "measured.json" in caplog.text
    assert running_to_plan_on(folder) == plan


def test_doctor_names_every_file_that_cannot_be_read_once(folder):
    for file in READERS:
        (folder.root / file).write_text("{")
    found = [looked.problem.message for looked in look_at_state(folder) if looked.problem is not None]
    assert len(found) == len(READERS)
    assert all(any(file in message for message in found) for file in READERS)


def test_rows_are_not_looked_for_where_the_plan_cannot_be_read(folder):
    folder.ledger().close()
    (folder.root / "running.json").write_text("{")
    with pytest.raises(UnreadableState, match=r"running\.json"):
        open_reader(folder)


def test_what_forced_contracts_were_promised_comes_back(folder, plan):
    write_forced(folder, plan, {"nearby": 5.0})
    assert read_forced(folder) == {"nearby": ForcedTerms(5.0, 30.0)}
    assert read_forced_promises(folder) == {"nearby": 5.0}


def test_a_folder_that_others_can_read_is_closed_to_them_with_all_that_it_holds(tmp_path):
    root, outside = tmp_path / ".headrace", tmp_path / "mine"
    (root / "data" / "us").mkdir(parents=True)
    for file in (root / "ledger.db", root / "data" / "us" / "piece.arrow", outside):
        file.write_text("x")
        file.chmod(0o664)
    (root / "data").chmod(0o775)
    root.chmod(0o755)
    (root / "link").symlink_to(outside)
    folder = Folder(tmp_path)
    assert folder.prepare() is True
    modes = {str(path.relative_to(root)): path.stat().st_mode & 0o777 for path in (root, *root.rglob("*"))}
    assert {name: mode for name, mode in modes.items() if name != "link"} == {
        **dict.fromkeys((".", "data", "data/us"), 0o700),
        **dict.fromkeys(("ledger.db", "data/us/piece.arrow", ".gitignore"), 0o600),
    }
    assert outside.stat().st_mode & 0o777 == 0o664
    assert folder.prepare() is False


def test_files_that_are_made_in_a_project_are_for_its_owner_alone(folder):
    root = logging.getLogger()
    before, handlers, level = os.umask(0), list(root.handlers), root.level
    try:
        ledger = folder.ledger()
        folder.store().write("us", pa.table({"x": [1]}), "x")
        log_to(folder.root / "service.log")
        wide = {str(path.relative_to(folder.root)) for path in folder.root.rglob("*") if path.stat().st_mode & 0o077}
        ledger.close()
    finally:
        os.umask(before)
        root.setLevel(level)
        for handler in [one for one in root.handlers if one not in handlers]:
            root.removeHandler(handler)
            handler.close()
    assert wide <= {"data", "data/us"}, "folders are closed by the one that they lie in"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_folder_of_another_user_that_cannot_be_closed_is_named():
    with tempfile.TemporaryDirectory() as folder:  # not below pytest's folders, which are closed to other users
        Path(folder).chmod(0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(UsageError, match="cannot be closed to them: Operation not permitted"):
                close_to_others(Path(folder))
        finally:
            os.seteuid(0)
