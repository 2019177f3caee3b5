"""Finds what is missing or wrong on this machine and with the sources of a project, and says how to fix it."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from headrace.connect.postgres.checkup import Checkup, check_up
from headrace.connect.spark.java import find_java
from headrace.declare.variables import fill
from headrace.model.amounts import format_bytes, format_seconds
from headrace.model.catalogue import Catalogue, FileFolder
from headrace.model.errors import ConnectError, InputError, Problem, UnreadableState
from headrace.site.folder import Folder
from headrace.site.forced import read_forced
from headrace.site.last_status import last_status
from headrace.site.process import read_process
from headrace.site.sources.captures import names_of
from headrace.site.sources.databases import SourceDatabase, databases_of
from headrace.site.sources.folder_sources import folder_problems

MEND_FAILING = "it resumes by itself once this is fixed; `headrace show` shows its last good rows"
LEAST_MEMORY = 1.5e9
LEAST_DISK = 2e9
MOST_KEPT = 1e9
MOST_SKEW_S = 1.0
PACKAGES = ("headrace", "pyspark", "pyarrow", "psycopg", "numpy", "sqlglot")


@dataclass(frozen=True, slots=True)
class Looked:
    """One thing that was looked at: what was seen, and what is wrong with it, if anything."""

    at: str
    seen: str
    problem: Problem | None = None


def look_at_machine(environment: Mapping[str, str], directory: Path) -> Iterator[Looked]:
    yield _versions()
    yield _java(environment)
    yield _memory()
    yield _disk(directory)


def _versions() -> Looked:
    found, missing = [f"Python {sys.version.split()[0]}"], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            missing.append(package)
    hint = "pip install 'headrace[spark]'"
    problem = Problem(f"not installed: {', '.join(missing)}", None, hint) if missing else None
    return Looked("versions", ", ".join(found), problem)


def _java(environment: Mapping[str, str]) -> Looked:
    try:
        java = find_java(environment)
    except ConnectError as error:
        return Looked("java", "none", Problem(error.message, None, error.hint))
    return Looked("java", f"Java {java.major} of {java.origin.value}")


def _memory() -> Looked:
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    available = next((int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"), 0)
    problem = None
    if available < LEAST_MEMORY:
        hint = f"Spark and captures need about {format_bytes(LEAST_MEMORY)}; `headrace up --engine local` needs less"
        problem = Problem(f"only {format_bytes(available)} of memory is free", None, hint)
    return Looked("memory", f"{format_bytes(available)} free", problem)


def _disk(directory: Path) -> Looked:
    free = shutil.disk_usage(directory).free
    problem = None
    if free < LEAST_DISK:
        hint = ".headrace holds views, their changes and Spark's scratch files: make room, or move the project"
        problem = Problem(f'only {format_bytes(free)} of disk is free at "{directory}"', None, hint)
    return Looked("disk", f"{format_bytes(free)} free", problem)


def look_at_state(folder: Folder) -> Iterator[Looked]:
    """What is left of runs."""
    if not folder.root.exists():
        return
    mode = stat.S_IMODE(folder.root.stat().st_mode)
    problem = None
    if mode & 0o077:
        problem = Problem(f'other users can read "{folder.root}"', None, f"chmod 700 {folder.root}")
    yield Looked("state", f"{folder.root} with mode {mode:o}", problem)
    unreadable = list(_look_at_files(folder))
    yield from unreadable
    if not unreadable:
        yield from _look_at_service(folder)


def _look_at_files(folder: Folder) -> Iterator[Looked]:
    """Those that cannot be read, each once: who asks for the status asks who runs the project as well."""
    found: dict[str, str | None] = {}
    for read in (Folder.running, read_forced, read_process, last_status):
        try:
            read(folder)
        except UnreadableState as error:
            found[error.message] = error.hint
    yield from (Looked("state", "cannot be read", Problem(message, None, hint)) for message, hint in found.items())


def _look_at_service(folder: Folder) -> Iterator[Looked]:
    process = read_process(folder)
    if process is not None and not process.is_alive:
        hint = "`headrace up` continues from its last commit"
        gone = Problem(f"the service (process {process.pid}) ended unexpectedly", None, hint)
        yield Looked("service", "gone", gone)
    elif process is not None:
        yield Looked("service", f"runs as process {process.pid}")
        last = last_status(folder)
        if last is not None:
            yield from _repeat_told(last)


def _repeat_told(last: Mapping[str, Any]) -> Iterator[Looked]:
    """What the service itself says is wrong."""
    for trouble in last.get("troubles", ()):
        yield Looked("service", "in trouble", Problem(trouble["what"], None, trouble["hint"]))
    for contract in last["contracts"]:
        if contract["state"] == "failing":
            what = f'contract "{contract["id"]}" is failing: {contract["reason"]}'
            yield Looked(contract["id"], "failing", Problem(what, None, MEND_FAILING))


def look_at_folders(catalogue: Catalogue, environment: Mapping[str, str], folder: Folder) -> Iterator[Looked]:
    wrong = list(folder_problems(catalogue, folder.project, environment))
    yield from (Looked("folder", "cannot be read", problem) for problem in wrong)
    count = sum(isinstance(source.origin, FileFolder) for source in catalogue.sources.values())
    if count and not wrong:
        yield Looked("folders", f"{count} can be read")


def look_at_databases(catalogue: Catalogue, environment: Mapping[str, str], folder: Folder) -> Iterator[Looked]:
    """Of sources that can be reached; what keeps one from being captured is found when the project is loaded."""
    used = frozenset(name for name, source in catalogue.sources.items() if source.origin is not None)
    for database in databases_of(catalogue, used):
        try:
            yield from _database(catalogue, database, fill(database.dsn, environment), folder)
        except InputError as error:
            yield from (Looked(database.name, "not known", problem) for problem in error.problems)


def _database(catalogue: Catalogue, database: SourceDatabase, address: str, folder: Folder) -> Iterator[Looked]:
    names = names_of(catalogue.project, database.dsn, folder)
    try:
        found = check_up(address, names.slot)
    except ConnectError as error:
        yield Looked(database.name, "does not answer", Problem(f"{database.name}: {error.message}", None, error.hint))
        return
    yield Looked(database.name, f"{found.version}, answers in {format_seconds(round(found.round_trip_s, 4))}")
    yield _clock(database.name, found)
    if found.slot is not None:
        yield _slot(database.name, found)


def _clock(database: str, found: Checkup) -> Looked:
    skew = abs(found.ahead_s)
    which = "ahead of" if found.ahead_s > 0 else "behind"
    seen = f"clock within {format_seconds(round(max(skew, found.round_trip_s / 2), 3))} of ours"
    if skew <= MOST_SKEW_S + found.round_trip_s:
        return Looked(database, seen)
    apart = format_seconds(round(skew, 1))
    what = (
        f"the clock of {database} is {apart} {which} ours: lags are still right, "
        "but the database writes its own time into rows, which matters for views that compare it with now()"
    )
    return Looked(
        database, f"clock {apart} {which} ours", Problem(what, None, "synchronise the clocks of both machines with NTP")
    )


def _slot(database: str, found: Checkup) -> Looked:
    slot = found.slot
    assert slot is not None
    seen = f"slot {slot.slot} keeps {format_bytes(slot.kept_bytes)} of log"
    drop = f"SELECT pg_drop_replication_slot('{slot.slot}');"
    if slot.lost:
        what = f"{database} discarded log that Headrace had not read: the next `headrace up` reads its sources again"
        return Looked(database, seen, Problem(what, None, "raise max_slot_wal_keep_size there"))
    if slot.kept_bytes > MOST_KEPT:
        hint = f"`headrace up` reads it; if you no longer need the project: {drop}"
        what = f"{database} keeps {format_bytes(slot.kept_bytes)} of log for Headrace on its disk"
        return Looked(database, seen, Problem(what, None, hint))
    return Looked(database, seen)
