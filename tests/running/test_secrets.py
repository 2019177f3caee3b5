"""A password of the project's file is nowhere else: not in state, logs, answers or commands."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from headrace.model.password import hide_password
from tests.running.running_project import RunningProject, children, until
from tests.running.trapped_folder import executed

ROLE, SECRET = "keeper", "Tr0ub4dor+3"
WRITTEN = "Tr0ub4dor%2B3"
"""As a URL holds it."""
PROJECT = """
project: shop
sites: {{us: {{cpu: 0.34 $/core-hour}}}}
sources:
  users: {{kind: table, at: us, postgres: {{dsn: "{users}", table: public.users}}, key: [uid]}}
  posts: {{kind: table, at: us, postgres: {{dsn: "{posts}", table: public.posts}}, key: [pid]}}
contracts:
  by_pid: {{view: by_pid, at: us, freshness: 4 s, deliver: {{postgres: {{dsn: "{posts}", table: by_pid_copy}}}}}}
  some_users: {{view: some_users, at: us, freshness: 4 s}}
"""


@pytest.fixture
def kept(project: RunningProject) -> Iterator[RunningProject]:
    """A project whose file names a role and its password: as a URL for one database, in words for the other."""
    project.us.execute(f"CREATE ROLE {ROLE} LOGIN SUPERUSER REPLICATION PASSWORD '{SECRET}'".encode())
    us, eu = (conninfo_to_dict(os.environ[name]) for name in ("US_DSN", "EU_DSN"))
    address = f"postgresql://{ROLE}:{WRITTEN}@{us['host']}:{us['port']}/{us['dbname']}"
    words = f"host={eu['host']} port={eu['port']} dbname={eu['dbname']} user={ROLE} password='{SECRET}'"
    (project.folder / "headrace.yml").write_text(PROJECT.format(users=address, posts=words))
    for view in (project.folder / "views").iterdir():
        if view.stem not in ("by_pid", "some_users"):
            view.unlink()
    yield project
    project.headrace("down")
    for session in (project.us, project.eu):
        session.execute(f"DROP OWNED BY {ROLE} CASCADE".encode())
    project.us.execute(f"DROP ROLE {ROLE}".encode())


def holds(content: bytes) -> bool:
    return SECRET.encode() in content or WRITTEN.encode() in content


def files_with_secret(folder: Path) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 10
    return sorted(str(file.relative_to(folder)) for file in files if holds(file.read_bytes()))


def answers(project: RunningProject) -> str:
    """All that commands say about the project."""
    said = [project.headrace(command, "--json") for command in ("status", "audit", "events", "apply")]
    said += [project.headrace(command) for command in ("status", "events", "plan", "check")]
    said += [project.headrace("why", name, "--json") for name in ("users", "by_pid")]
    said += [project.headrace("plan", "--json"), project.headrace("apply", "--dry-run", "--json")]
    return "\n".join(said)


def is_delivered(project: RunningProject) -> bool:
    made = project.eu.execute("SELECT to_regclass('by_pid_copy') IS NOT NULL").fetchone()
    return made == (True,) and project.eu.execute("SELECT count(*) FROM by_pid_copy").fetchone() == (160,)


def test_a_password_in_the_project_file_is_nowhere_else(
    kept: RunningProject, trapped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started from a folder whose modules must not be executed either."""
    monkeypatch.chdir(trapped)
    (kept.folder / ".headrace").mkdir(mode=0o755)
    assert "it is closed to them now" in kept.headrace("up", "--detach", "--engine=local")
    until(lambda: is_delivered(kept), "it is delivered")
    assert len(kept.rows("by_pid")) == 160 and len(kept.rows("some_users")) == 7
    pid = kept.process()["pid"]
    for process in (pid, *children(pid)):
        assert not holds(Path(f"/proc/{process}/cmdline").read_bytes())
    assert not holds(answers(kept).encode())
    for session in (kept.us, kept.eu):  # errors of the driver, about the role and about its password
        session.execute(f"ALTER ROLE {ROLE} PASSWORD 'another' NOLOGIN".encode())
        session.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (ROLE,))
    until(lambda: len(kept.document("status")["troubles"]) >= 2, "both databases are told to be away")
    assert not holds(answers_without_databases(kept).encode())
    kept.us.execute(f"ALTER ROLE {ROLE} PASSWORD '{SECRET}' LOGIN".encode())
    until(lambda: kept.document("status")["troubles"] == [], "all is well again")
    kept.headrace("down")
    kept.up()
    assert len(kept.rows("by_pid")) == 160
    assert executed(trapped) == []
    assert files_with_secret(kept.folder / ".headrace") == []
    files = [file for file in (kept.folder / ".headrace").rglob("*") if file.is_file()]
    assert [str(file) for file in files if file.stat().st_mode & 0o077] == []


def store_as_before(kept: RunningProject) -> None:
    """Puts the passwords where version 0.2.0 stored them: into notes, the running plan and, for good measure, a log."""
    root, text = kept.folder / ".headrace", (kept.folder / "headrace.yml").read_text()
    addresses = {hide_password(one): one for one in re.findall(r'dsn: "([^"]+)"', text)}
    with closing(sqlite3.connect(root / "ledger.db")) as ledger, ledger:
        for name, value in ledger.execute("SELECT name, value FROM notes").fetchall():
            written = put_back(value, addresses)
            if written != value:
                ledger.execute("DELETE FROM notes WHERE name = ?", (name,))
                renamed = f"{name[:-12]}{'0' * 12}" if name.startswith("copy:") else name
                ledger.execute("INSERT INTO notes VALUES (?, ?)", (renamed, written))
    running = root / "running.json"
    running.write_text(put_back(running.read_text(), addresses))
    with (root / "service.log").open("a") as log:
        log.writelines(f"connects to {one}\n" for one in addresses.values())


def put_back(text: str, addresses: dict[str, str]) -> str:
    for hidden, address in addresses.items():
        text = text.replace(hidden, address)
    return text


@pytest.mark.long
def test_passwords_that_an_earlier_version_stored_are_removed_and_said_so_and_the_copy_stays(
    kept: RunningProject,
) -> None:
    kept.up()
    until(lambda: is_delivered(kept), "it is delivered")
    kept.headrace("down")
    copy = kept.eu.execute("SELECT 'by_pid_copy'::regclass::oid").fetchone()
    root = kept.folder / ".headrace"
    store_as_before(kept)
    assert len(files_with_secret(root)) >= 3
    assert "an earlier version had stored passwords" in kept.headrace("up", "--detach", "--engine=local")
    assert files_with_secret(root) == []
    kept.eu.execute("INSERT INTO posts VALUES (9001, 5, 'later')")
    found = "SELECT count(*) FROM by_pid_copy WHERE pid = 9001"
    until(lambda: kept.eu.execute(found).fetchone() == (1,), "the copy goes on")
    assert kept.eu.execute("SELECT 'by_pid_copy'::regclass::oid").fetchone() == copy
    with closing(sqlite3.connect(root / "ledger.db")) as ledger:
        assert ledger.execute("SELECT count(*) FROM notes WHERE name LIKE 'copy:%'").fetchone() == (1,)
    kept.headrace("down")
    assert "an earlier version" not in kept.headrace("up", "--detach", "--engine=local")


def answers_without_databases(project: RunningProject) -> str:
    said = [project.headrace("status"), project.headrace("events"), project.headrace("doctor", status=1)]
    return "\n".join([*said, project.headrace("check", "--connect", status=1)])
