"""State of Headrace 0.1: `up` names it, loads the views anew, and keeps what it has in databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from headrace.site.folder import Folder
from tests.running.running_project import RunningProject, until


def slots_of(session: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    """A slot that was dropped and made again would have another `restart_lsn` than one that nobody reads."""
    return session.execute("SELECT slot_name::text, restart_lsn::text FROM pg_replication_slots").fetchall()


def logs_of(folder: Path) -> set[str]:
    ledger = Folder(folder).ledger()
    try:
        return set(ledger.times())
    finally:
        ledger.close()


def as_headrace_0_1_left_it(folder: Path) -> None:
    state = folder / ".headrace"
    (state / "running.json").unlink()
    (state / "running.plan").write_bytes(b"\x80\x04\x95 a pickle of another version")


def test_up_names_the_state_of_headrace_0_1_and_loads_anew_keeping_slots(project: RunningProject) -> None:
    project.declare("named", "counts")
    project.up()
    project.until_equal("named", "counts")
    project.headrace("down")
    as_headrace_0_1_left_it(project.folder)
    slots = slots_of(project.us)
    loaded = logs_of(project.folder)
    project.change_something(1000)
    for command in (["show", "named"], ["changes", "named"], ["plan"], ["apply", "--dry-run"]):
        assert "running.plan" in project.headrace(*command, status=2)
    assert slots_of(project.us) == slots and slots

    assert "Headrace 0.1" in project.headrace("up", "--detach", "--engine=local")
    project.until_equal("named", "counts")
    copied = "SELECT name, pid, body FROM named_copy"
    until(lambda: sorted(project.eu.execute(copied)) == project.expected("named"), "it is delivered")
    assert {name for name, _ in slots_of(project.us)} == {name for name, _ in slots}
    log = (project.folder / ".headrace" / "service.log").read_text()
    assert "Headrace 0.1" in log
    assert not (project.folder / ".headrace" / "running.plan").exists()
    assert logs_of(project.folder) == loaded
    project.headrace("down")


def test_state_that_cannot_be_read_keeps_a_project_from_starting_until_it_is_moved_away(
    project: RunningProject,
) -> None:
    project.declare("counts")
    project.up()
    project.until_equal("counts")
    project.headrace("down")
    running = project.folder / ".headrace" / "running.json"
    running.write_text(running.read_text()[:-100])
    for command in (["show", "counts"], ["plan"], ["up", "--engine=local"], ["up", "--detach", "--engine=local"]):
        said = project.headrace(*command, status=2)
        assert "running.json" in said and "not JSON" in said and "hint: move it away" in said
    running.rename(project.folder / "kept-by-hand.json")
    project.change_something(1000)
    project.up()
    project.until_equal("counts")
    project.headrace("down")
