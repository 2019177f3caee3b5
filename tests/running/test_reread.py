"""`headrace sources reread`: a source is read anew with all that is made from it, and everything else goes on."""

from __future__ import annotations

from headrace.doors.cli import main
from tests.running.running_project import RunningProject, recomputed


def test_a_source_is_read_anew_with_all_that_is_made_from_it(project: RunningProject) -> None:
    project.declare("counts", "by_pid")
    project.up()
    project.until_equal("counts")
    project.us.execute("UPDATE users SET country = 'nowhere' WHERE uid < 5")
    answer = project.document("sources", "reread", "users")
    assert answer["source"] == "users" and answer["contracts"] == ["counts"] and answer["failing"] == {}
    project.until_equal("counts")
    project.change_something(1001)
    project.until_equal("counts")
    assert all(one["equal"] for one in recomputed(project))
    said = project.headrace("sources", "reread", "posts")
    assert 'source "posts" was read again in ' in said and "by_pid" in said
    project.until_equal("counts")
    told = [(one["kind"], one["about"]) for one in project.events()]
    assert told[0] == ("started", {})
    assert ("plan applied", {"contracts": ["by_pid", "counts"]}) in told
    assert [about["sources"] for kind, about in told if kind == "read again"] == [["users"], ["posts"]]
    left_out = [kind for kind, about in told if about == {"contracts": ["counts"]} and kind in ("left out", "loaded")]
    assert left_out == ["left out", "loaded"] * 2
    assert [about for kind, about in told if kind == "compared"] == [{}]


def test_an_unknown_source_or_a_project_that_does_not_run_is_wrong_use(project: RunningProject) -> None:
    project.declare("counts")
    assert "`headrace up`" in project.headrace("sources", "reread", "users", status=2)
    project.up()
    assert 'did you mean "users"?' in project.headrace("sources", "reread", "usres", status=2)
    assert main.run(["sources", "reread", "usres", str(project.folder), "--json"]) == 2
