"""Tables of a running project are dropped, swapped, migrated and published otherwise, and it knows."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.running.running_project import RunningProject, recomputed, until

LIKE_BEFORE = "CREATE TABLE users (uid bigint PRIMARY KEY, name text, country text)"
FAULTS = {
    "created again": (
        f"BEGIN; DROP TABLE users; {LIKE_BEFORE};"
        "INSERT INTO users SELECT i, 'name ' || i, 'new' FROM generate_series(0, 9) i; COMMIT"
    ),
    "row filter": (
        "ALTER PUBLICATION {publication} SET TABLE users WHERE (uid > 5); UPDATE users SET country = 'c' || uid % 2"
    ),
    "rewritten": "ALTER TABLE users ALTER country TYPE text USING upper(country)",
    "publication dropped": "DROP PUBLICATION {publication}; UPDATE users SET country = 'd' || uid % 3",
    "slot dropped": (
        "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE database = current_database();"
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database();"
        "UPDATE users SET country = 'e' || uid % 3"
    ),
}


def execute(project: RunningProject, statements: str) -> None:
    query = "SELECT pubname FROM pg_publication WHERE pubname NOT LIKE '%streams%'"
    publication = next((name for (name,) in project.us.execute(query)), "")
    project.us.execute(statements.replace("{publication}", f'"{publication}"').encode())


def rereads(project: RunningProject) -> list[dict[str, Any]]:
    return [one for one in project.events() if one["kind"] == "read again"]


def until_kept_and_right(project: RunningProject) -> None:
    """From the moment at which a change is told, a view that is called kept is right."""
    told = time.time()

    def is_kept() -> bool:
        status = project.document("status")
        states = {one["id"]: one["state"] for one in status["contracts"]}
        if states["counts"] != "kept" or status["service"]["written"] <= told:
            return False
        assert project.rows("counts") == project.expected("counts"), "kept, and wrong"
        return True

    until(is_kept, "it is kept again")


@pytest.mark.long
def test_a_running_project_reads_again_what_the_log_did_not_tell(project: RunningProject) -> None:
    project.declare("counts", "by_pid")
    project.up()
    project.until_equal("counts")
    for fault, statements in FAULTS.items():
        known = len(rereads(project))
        execute(project, statements)
        until(lambda known=known: len(rereads(project)) > known, f"it is told: {fault}", 30.0)  # type: ignore[misc]
        until_kept_and_right(project)
    project.us.execute("VACUUM FULL users")
    project.change_something(1001)
    project.until_equal("counts")
    told = rereads(project)
    project.headrace("down")
    execute(project, FAULTS["created again"])
    project.up()
    until(lambda: len(rereads(project)) == len(told) + 1, "what was done while it was down is seen")
    until_kept_and_right(project)
    assert all(one["equal"] for one in recomputed(project))


@pytest.mark.long
def test_a_source_without_a_declared_key_follows_the_key_of_its_table(project: RunningProject) -> None:
    project.declare("counts", "by_pid")
    file = project.folder / "headrace.yml"
    file.write_text(file.read_text().replace(", key: [uid]", ""))
    project.up()
    project.until_equal("counts")
    project.us.execute("ALTER TABLE users DROP CONSTRAINT users_pkey, ADD PRIMARY KEY (uid, name)")
    project.us.execute("INSERT INTO users SELECT uid, 'second ' || name, country FROM users")
    until(lambda: all(one["equal"] for one in recomputed(project)), "it is read with the new key", 300.0)
    project.us.execute("ALTER TABLE users DROP CONSTRAINT users_pkey, REPLICA IDENTITY FULL")
    project.us.execute("INSERT INTO users SELECT * FROM users WHERE uid < 3")
    until(lambda: all(one["equal"] for one in recomputed(project)), "it is read without a key", 300.0)
    assert project.document("status")["troubles"] == []


@pytest.mark.long
def test_a_trigger_comes_and_goes_with_what_the_files_say(project: RunningProject) -> None:
    def count_triggers() -> int:
        return len(project.us.execute("SELECT FROM pg_event_trigger").fetchall())

    file = project.folder / "headrace.yml"
    project.declare("counts")
    plain = file.read_text()
    watched = plain.replace("table: public.users", "table: public.users, watch: trigger")
    project.up()
    project.until_equal("counts")
    assert count_triggers() == 0
    file.write_text(watched)
    project.headrace("apply")
    until(lambda: count_triggers() == 2, "the trigger is made")
    assert rereads(project) == [], "nothing is read again for it"
    project.us.execute("ALTER TABLE users RENAME TO x; ALTER TABLE x RENAME TO users")
    until(lambda: len(rereads(project)) == 1, "what was undone is told", 30.0)
    until_kept_and_right(project)
    project.us.execute("DROP SCHEMA " + project.us.execute(SCHEMA_OF_TRIGGER).fetchall()[0][0] + " CASCADE")
    until(lambda: count_triggers() == 2, "it is put back", 30.0)
    file.write_text(plain)
    project.headrace("apply")
    until(lambda: count_triggers() == 0, "nobody asks for it")
    file.write_text(watched)
    project.headrace("apply")
    until(lambda: count_triggers() == 2, "it is asked for again")
    file.write_text(watched[: watched.index("contracts:")] + "contracts: {}\n")
    project.headrace("apply")
    until(lambda: count_triggers() == 0, "it goes with slot and publications", 60.0)
    assert project.us.execute("SELECT FROM pg_replication_slots WHERE database = current_database()").fetchall() == []


SCHEMA_OF_TRIGGER = """
SELECT quote_ident(n.nspname) FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid
JOIN pg_namespace n ON n.oid = p.pronamespace
"""
