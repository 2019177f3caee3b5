"""Background checks of views whose rows come from several sites that run apart."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.site.folder import Folder
from headrace.site.site_folders import site_folder
from tests.running.joined_sites import lose_row
from tests.running.running_project import RunningProject, until

UP = ("--detach", "--engine=local", "--sites=processes")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_view_over_rows_of_other_sites_is_checked_and_mended(project: RunningProject) -> None:
    project.declare("named", "counts", "by_pid")
    project.document("up", *UP)
    try:
        project.until_equal("named", "counts")
        until(lambda: {one["found"] for one in checked(project)} == {"equal"}, "all views are checked", 180)
        project.headrace("down")
        lose_row(site_folder(Folder(project.folder), "eu"), "named")
        project.document("up", *UP)
        until(lambda: "view differs" in kinds(project), "it is found", 180)
        until(lambda: "view repaired" in kinds(project), "it is mended", 180)
        project.until_equal("named", "counts")
    finally:
        project.headrace("down")


def checked(project: RunningProject) -> list[dict[str, Any]]:
    subjects: list[dict[str, Any]] = project.document("status")["checks"]["subjects"]
    return [one for one in subjects if one["kind"] == "view"]


def kinds(project: RunningProject) -> list[str]:
    return [one["kind"] for one in project.events()]
