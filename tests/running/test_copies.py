"""Copies of views in a running project, to which other people do something: nobody is told `kept` meanwhile."""

from __future__ import annotations

import shutil
from typing import Any

import psycopg
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tests.running.running_project import RunningProject, until

CONTRACTS = """
  in_table: {view: by_pid, at: eu, freshness: 3 s, deliver: {postgres: {dsn: "${EU_DSN}", table: table_copy}}}
  in_folder: {view: by_pid, at: eu, freshness: 3 s, deliver: {delta: out/by_pid}}
"""


def contract(project: RunningProject, name: str) -> Any:
    return next(one for one in project.document("status")["contracts"] if one["id"] == name)


def until_kept(project: RunningProject, *names: str) -> None:
    until(lambda: {contract(project, name)["state"] for name in names} == {"kept"}, f"{names} are kept")


def expected(project: RunningProject) -> list[tuple[Any, ...]]:
    return project.eu.execute("SELECT pid, body FROM posts WHERE uid > 3 ORDER BY pid").fetchall()


def in_table(project: RunningProject) -> list[tuple[Any, ...]]:
    """The rows of the copy; none while there is no table."""
    try:
        return project.eu.execute("SELECT pid, body FROM table_copy ORDER BY pid").fetchall()
    except psycopg.errors.UndefinedTable:
        return []


def in_folder(project: RunningProject) -> list[tuple[Any, ...]]:
    """The rows of the copy; none while files are missing."""
    try:
        rows = DeltaTable(str(project.folder / "out" / "by_pid")).to_pyarrow_table().to_pylist()
    except (DeltaError, OSError):
        return []
    return sorted((row["pid"], row["body"]) for row in rows)


def failures(project: RunningProject, name: str) -> list[str]:
    """What was told of the copy of a contract that failed."""
    told = project.events(f"--contract={name}")
    return [str(one["text"]) for one in told if one["kind"] == "copy failed"]


def test_promises_are_about_copies_and_what_others_do_to_these_is_noticed(project: RunningProject) -> None:
    project.declare("by_pid", more=CONTRACTS)
    project.up()
    until_kept(project, "by_pid", "in_table", "in_folder")
    check_a_locked_table(project)
    check_changed_tables(project)
    check_changed_folders(project)
    check_what_is_done_while_the_service_is_down(project)


def check_a_locked_table(project: RunningProject) -> None:
    with psycopg.connect(project.eu.info.dsn, password=project.eu.info.password) as other:
        other.execute("LOCK TABLE table_copy")
        pid = other.info.backend_pid
        project.eu.execute("INSERT INTO posts VALUES (3000, 5, 'new')")
        until(lambda: contract(project, "in_table")["lag_s"] > 3.0, "its copy is old")
        assert contract(project, "in_table")["state"] in ("late", "failing")
        until(lambda: f"is locked by process {pid}" in contract(project, "in_table")["reason"], "the process is named")
        assert contract(project, "in_table")["violations"] >= 1
        assert [one["hint"] for one in project.document("status")["troubles"] if "table_copy" in one["what"]]
        assert {contract(project, name)["state"] for name in ("by_pid", "in_folder")} == {"kept"}
        assert "in_table" in project.headrace("audit", status=1)
        late = [one for one in project.events("--contract=in_table") if one["kind"] == "late"]
        assert "table_copy" in late[-1]["reason"]
        other.rollback()
    until_kept(project, "in_table")
    until(lambda: in_table(project) == expected(project), "the copy has the row")


def check_changed_tables(project: RunningProject) -> None:
    for number, statement in enumerate(
        (
            "UPDATE table_copy SET body = 'edited' WHERE pid = 9",
            "TRUNCATE table_copy",
            "DROP TABLE table_copy",
            "ALTER TABLE table_copy ADD COLUMN mine int",
        ),
        start=2,
    ):
        project.eu.execute(statement.encode())
        until(lambda number=number: len(failures(project, "in_table")) >= number, f"it is told: {statement}")  # type: ignore[misc]
        assert "was changed by someone else" in failures(project, "in_table")[-1]
        until(lambda: in_table(project) == expected(project), f"it is filled again: {statement}")
        until_kept(project, "in_table")


def check_changed_folders(project: RunningProject) -> None:
    out = project.folder / "out" / "by_pid"
    for file in out.glob("*.parquet"):
        file.unlink()
    until(lambda: len(failures(project, "in_folder")) == 1, "it is told")
    assert "was deleted" in failures(project, "in_folder")[-1]
    until(lambda: in_folder(project) == expected(project), "it is filled again")
    until_kept(project, "in_folder")


def check_what_is_done_while_the_service_is_down(project: RunningProject) -> None:
    project.headrace("down")
    project.eu.execute("DELETE FROM table_copy WHERE pid > 50")
    shutil.rmtree(project.folder / "out" / "by_pid")
    project.up()
    until(lambda: in_table(project) == expected(project), "the table is filled again")
    until(lambda: in_folder(project) == expected(project), "the folder is filled again")
    until_kept(project, "by_pid", "in_table", "in_folder")
