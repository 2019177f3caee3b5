"""Projects over folders of files: what cannot be read is said, and goes on by itself; lag is that of the files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.doors.cli import main
from tests.running.running_project import RunningProject, until

PROJECT = """
project: clicks
sites: {us: {}}
sources:
  clicks:
    kind: stream
    at: us
    time: at
    retention: 1 h
    rate: 1 /s
    columns: {id: bigint, at: timestamp, n: int}
    files: {path: "${CLICKS}/in", format: csv}
contracts:
  totals: {view: totals, at: us, freshness: 5 s}
"""


@pytest.fixture
def clicks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[RunningProject]:
    folder = tmp_path / "project"
    (folder / "views").mkdir(parents=True)
    (folder / "headrace.yml").write_text(PROJECT)
    (folder / "views" / "totals.sql").write_text("SELECT n, count(*) AS c FROM clicks GROUP BY n")
    monkeypatch.setenv("CLICKS", str(tmp_path / "data"))
    project = RunningProject(folder, None, None, capsys)  # type: ignore[arg-type]
    yield project
    main.run(["down", str(folder)])


def write_file(folder: Path, name: str, *numbers: int) -> None:
    lines = [f"{number},2026-02-28T01:02:03Z,{number}\n" for number in numbers]
    (folder / f"{name}.tmp").write_text("id,at,n\n" + "".join(lines))
    (folder / f"{name}.tmp").rename(folder / name)


def test_a_folder_that_does_not_exist_is_named_and_read_once_it_is_there(
    clicks: RunningProject, tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "in"
    missing = f'source "clicks" cannot be read: folder "{folder}" does not exist'
    assert missing in clicks.headrace("check")
    assert missing in clicks.headrace("doctor", status=1)
    folder.mkdir(parents=True)
    write_file(folder, "a.csv", 1, 1)
    assert "does not exist" not in clicks.headrace("check")
    clicks.up()
    until(lambda: clicks.rows("totals") == [(1, 2)], "the file is in the view")
    folder.rename(tmp_path / "away")
    until(lambda: [one["what"] for one in clicks.document("status")["troubles"]] == [missing], "status says it")
    until(lambda: clicks.document("status")["contracts"][0]["state"] == "late", "the promise is broken")
    assert missing in clicks.document("status")["contracts"][0]["reason"]
    (tmp_path / "away").rename(folder)
    write_file(folder, "b.csv", 2)
    until(lambda: clicks.rows("totals") == [(1, 2), (2, 1)], "it goes on, and takes each file once")
    until(lambda: clicks.document("status")["troubles"] == [], "the trouble is over")
    until(lambda: clicks.document("status")["contracts"][0]["state"] == "kept", "a folder that is read is kept again")
    assert clicks.document("status")["contracts"][0]["violations"] >= 1


def test_a_file_that_is_not_as_declared_is_named_while_others_are_taken(clicks: RunningProject, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "in"
    folder.mkdir(parents=True)
    (folder / "bad.csv").write_text("id,at\n1,2026-02-28T01:02:03Z\n")
    write_file(folder, "good.csv", 1)
    assert 'the file has no column "n"' in clicks.headrace("check")
    clicks.headrace("up", "--detach", "--engine=local")
    until(lambda: clicks.rows("totals") == [(1, 1)], "the good file is in the view")
    left_out = 'source "clicks" leaves out file "bad.csv": the file has no column "n"'
    until(lambda: [one["what"] for one in clicks.document("status")["troubles"]] == [left_out], "it is named")
    (folder / "bad.csv").unlink()
    until(lambda: clicks.document("status")["troubles"] == [], "the trouble goes with the file")


def test_a_variable_in_a_path_that_is_not_set_is_a_warning_and_an_error_for_who_reads(
    clicks: RunningProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLICKS")
    assert 'warning: variable "CLICKS" is not set' in clicks.headrace("check")
    assert 'error: variable "CLICKS" is not set' in clicks.headrace("up", "--engine=local", status=2)


@pytest.mark.long
def test_a_view_over_folders_falls_behind_when_the_service_dies(clicks: RunningProject, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "in"
    folder.mkdir(parents=True)
    write_file(folder, "a.csv", 1)
    clicks.up()
    until(lambda: clicks.rows("totals") == [(1, 1)], "the file is in the view")
    assert clicks.document("show", "totals")["lag_s"] > 0
    until(lambda: clicks.document("status")["contracts"][0]["lag_s"] is not None, "its lag is known")
    os.kill(clicks.process()["pid"], signal.SIGKILL)
    write_file(folder, "b.csv", 2)
    until(lambda: clicks.document("status")["contracts"][0]["state"] == "stopped", "it is dead")
    until(lambda: clicks.document("show", "totals")["lag_s"] > 6, "show tells how old it is", 30.0)
    assert clicks.document("status")["contracts"][0]["lag_s"] > 5
    before = clicks.document("status")["contracts"][0]["violations"]
    clicks.up()
    until(lambda: clicks.rows("totals") == [(1, 1), (2, 1)], "it goes on")
    until(lambda: clicks.document("status")["contracts"][0]["violations"] > before, "that was late, and counts")
