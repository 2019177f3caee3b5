"""Files of a project that are no plain texts: each is a mistake, and nothing waits for one or shows what it holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.declare.project_text import MOST_BYTES, digest_files
from headrace.declare.read import read_project
from headrace.model.errors import InputError
from tests.declare.projects import MINIMAL, mistakes, write_project

HINT = "keep the text itself in the project's folder"


def test_a_view_that_is_a_pipe_is_a_mistake_and_nobody_waits_for_it(tmp_path: Path) -> None:
    write_project(tmp_path, MINIMAL)
    os.mkfifo(tmp_path / "views" / "v.sql")
    (problem,) = mistakes(tmp_path, "")
    assert (problem.message, problem.hint) == (f"{tmp_path}/views/v.sql is not a regular file", HINT)
    assert digest_files(tmp_path)


@pytest.mark.parametrize("name", ["views/v.sql", "headrace.yml"])
def test_a_link_to_a_file_outside_of_the_project_is_a_mistake_that_shows_nothing_of_it(
    tmp_path: Path, name: str
) -> None:
    folder = write_project(tmp_path / "project", MINIMAL)
    (tmp_path / "secret").write_text("hunter2 is the password")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "secret")
    with pytest.raises(InputError) as raised:
        read_project(folder, {})
    (problem,) = raised.value.problems
    assert (problem.message, problem.hint) == (f"{folder / name} is a link that leads out of the project", HINT)
    assert "hunter2" not in str(raised.value)


def test_a_link_within_the_project_is_followed(tmp_path: Path) -> None:
    write_project(tmp_path, MINIMAL)
    (tmp_path / "shared.sql").write_text("SELECT 1 AS x")
    (tmp_path / "views" / "v.sql").symlink_to("../shared.sql")
    assert "v" in read_project(tmp_path, {}).views


def test_a_view_that_is_a_folder_or_leads_nowhere_is_a_mistake(tmp_path: Path) -> None:
    write_project(tmp_path, MINIMAL)
    (tmp_path / "views" / "a.sql").mkdir()
    (tmp_path / "views" / "b.sql").symlink_to("c.sql")
    assert [problem.message.partition(".sql ")[2] for problem in mistakes(tmp_path, "")] == [
        "cannot be read: Is a directory",
        "cannot be read: No such file or directory",
    ]


@pytest.mark.parametrize("name", ["views/v.sql", "headrace.yml"])
def test_a_file_that_is_too_large_is_a_mistake_and_is_not_read(tmp_path: Path, name: str) -> None:
    write_project(tmp_path, MINIMAL, v="SELECT 1 AS x")
    os.truncate(tmp_path / name, MOST_BYTES + 1)
    with pytest.raises(InputError) as raised:
        read_project(tmp_path, {})
    (problem,) = raised.value.problems
    assert problem.message == f"{tmp_path / name} is larger than 1 MB"
